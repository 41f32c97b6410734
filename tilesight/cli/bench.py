"""What `tilesight validate` asks a GPU besides points: peers, the checkpoint of a learner, and launches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..compiling import why_not
from ..simulator.problems.attention import AttentionProblem
from ..simulator.schedules.registry import default_schedule, find_schedule
from .gpu import DOCTOR, Named, compiler, gpu_missing, need_gpu
from .output import BadInput, Output, announce_compiler, deliver, progress, text_color, text_width
from .points import problem_given
from .shapes import BOTH, PASSES

if TYPE_CHECKING:
    from ..simulator.report.page import Made
    from ..validate.experiments.checkpoint_values import Checkpoint
    from ..validate.experiments.peer_rows import PeerRow
    from ..validate.measure.session import Ask
    from ..validate.points.point import Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Where JSON goes. Args: printed: on stdout, in place of the text; file: to this file."""

    printed: bool
    file: Path | None


WITHOUT_GPU = "h200"
"""What the checkpoint predicts for where there is no GPU and no --device."""
ANSWER_S = 300.0
"""No question takes a process on the GPU longer [s]."""


@contextmanager
def asking() -> "Iterator[Ask]":
    """A process on the first GPU that answers. Raises: BadInput: there is no GPU."""
    need_gpu()
    from ..validate.measure.gpus import visible_gpus
    from ..validate.measure.session import GpuSession

    session = GpuSession(visible_gpus()[0], timeout_s=ANSWER_S)
    try:
        yield session.answer
    finally:
        session.close()


def peers_of(points: "Sequence[Point]", device: Named) -> "list[PeerRow]":
    """The peers at the problems of points."""
    from ..validate.experiments.peer_rows import measure_peers

    with asking() as ask, progress("peers") as tick:
        return measure_peers(points, device.job, ask, progress=tick)


def checkpoint(
    problem: Sequence[str], pass_: str, device: Named, workers: int, wanted: Wanted, html: Path | None, made: "Made"
) -> None:
    """Answer what a person learning FlashAttention is asked: predicted, and measured where there is a GPU."""
    passes = list(PASSES) if pass_ == BOTH else [pass_]
    answers = [_answers(problem_given(problem, PASSES[name]), device, workers) for name in passes]
    from ..validate.experiments.checkpoint import both_passes
    from ..validate.report.checkpoint import checkpoint_html, checkpoint_text

    answer = answers[0] if len(answers) == 1 else both_passes(*answers)
    page = Output(option="--html", path=html, make=lambda: checkpoint_html(answer, made))
    tell(answer.to_dict(), wanted, lambda: checkpoint_text(answer, text_width(), text_color()), page)


def _answers(asked: AttentionProblem, device: Named, workers: int) -> "Checkpoint":
    """The checkpoint of a pass. Raises: BadInput: its kernels cannot be compiled here, and nothing else prices them."""
    from ..validate.experiments import checkpoint as room

    missing, compiled = gpu_missing(), compiler(device.device, workers, code=True)
    if missing:
        outlined = find_schedule(default_schedule(type(asked))).outlined
        if outlined and (lack := why_not()):
            raise BadInput(f"--pass backward: {lack}")
        with progress("predictions") as tick:
            answers = room.predict(
                asked, device.device, compiler=compiled if outlined else None, workers=workers, progress=tick
            )
        return replace(answers, unmeasured=f"{missing}; {DOCTOR}")
    with asking() as ask:
        announce_compiler()
        with progress("predictions") as tick:
            answers = room.predict(asked, device.device, compiler=compiled, workers=workers, progress=tick)
        with progress("shapes") as tick:
            return room.measure(answers, device.job, ask, progress=tick)


def launches(problem: Sequence[str], device: Named, workers: int, wanted: Wanted) -> None:
    """Say what each way of computing a problem launches, predicted and profiled."""
    from ..validate.experiments import launches as room
    from ..validate.report.launches import launches_text

    asked, compiled = problem_given(problem, AttentionProblem), compiler(device.device, workers, code=True)
    with asking() as ask:
        announce_compiler()
        with progress("predictions") as tick:
            report = room.predict_launches(asked, device.device, compiler=compiled, workers=workers, progress=tick)
        with progress("profiles") as tick:
            report = room.profile_launches(report, device.job, ask, progress=tick)
    tell(report.to_dict(), wanted, lambda: launches_text(report, text_width(), text_color()))


def tell(value: Mapping[str, Any], wanted: Wanted, text: Callable[[], str], *outputs: Output) -> None:
    """Print the text, or JSON in its place where it is asked for; write files, JSON among them."""
    from ..simulator.display import render

    document = Output(option="--json-file", path=wanted.file, make=lambda: render.to_json(value))
    deliver(render.to_json(value) if wanted.printed else text(), *outputs, document)
