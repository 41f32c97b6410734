"""What `tilesight validate` asks a GPU besides points: peers, the checkpoint of a learner, and launches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..simulator.problems.attention import AttentionProblem
from .gpu import DOCTOR, Named, compiler, gpu_missing, need_gpu
from .output import Output, announce_compiler, deliver, progress, text_color, text_width
from .points import problem_given

if TYPE_CHECKING:
    from ..simulator.report.page import Made
    from ..validate.experiments.bench_process import Ask
    from ..validate.experiments.peer_rows import PeerRow
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
    from ..validate.experiments.bench_process import asker
    from ..validate.measure.gpus import visible_gpus

    ask, stop = asker(visible_gpus()[0], ANSWER_S)
    try:
        yield ask
    finally:
        stop()


def peers_of(points: "Sequence[Point]", device: Named) -> "list[PeerRow]":
    """The peers at the problems of points."""
    from ..validate.experiments.peer_rows import measure_peers

    with asking() as ask, progress("peers") as tick:
        return measure_peers(points, device.job, ask, progress=tick)


def checkpoint(
    problem: Sequence[str], device: Named, workers: int, wanted: Wanted, html: Path | None, made: "Made"
) -> None:
    """Answer what a person learning FlashAttention is asked: predicted, and measured where there is a GPU."""
    from ..validate.experiments import checkpoint as room
    from ..validate.report.checkpoint import checkpoint_html, checkpoint_text

    asked, missing = problem_given(problem, AttentionProblem), gpu_missing()
    if missing:
        with progress("predictions") as tick:
            answers = room.predict(asked, device.device, workers=workers, progress=tick)
        answers = replace(answers, unmeasured=f"{missing}; {DOCTOR}")
    else:
        compiled = compiler(device.device, workers, code=True)
        with asking() as ask:
            announce_compiler()
            with progress("predictions") as tick:
                answers = room.predict(asked, device.device, compiler=compiled, workers=workers, progress=tick)
            with progress("shapes") as tick:
                answers = room.measure(answers, device.job, ask, progress=tick)
    page = Output(option="--html", path=html, make=lambda: checkpoint_html(answers, made))
    tell(answers.to_dict(), wanted, lambda: checkpoint_text(answers, text_width(), text_color()), page)


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
