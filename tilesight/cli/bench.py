"""What `tilesight validate` asks a GPU besides points: peers, the checkpoint of a learner, and launches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..compiling import why_not
from ..simulator.problems.attention import AttentionProblem
from ..simulator.schedules.registry import default_schedule, find_schedule
from .gpu import DOCTOR, Named, compiler, gpu_missing, need_gpu
from .output import Asked, BadInput, announce_compiler, answer, progress, text_color, text_width
from .points import PointsOptions, problem_given
from .shapes import BOTH, FORWARD, PASSES

if TYPE_CHECKING:
    from ..simulator.report.page import Made
    from ..validate.experiments.checkpoint_values import Checkpoint
    from ..validate.experiments.peer_rows import PeerRow
    from ..validate.measure.session import Ask
    from ..validate.points.point import Point


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


def checkpoint(points: PointsOptions, device: Named, workers: int, asked: Asked, made: "Made") -> None:
    """Answer what a person learning FlashAttention is asked: predicted, and measured where there is a GPU."""
    passes = list(PASSES) if points.pass_ == BOTH else [points.pass_ or FORWARD]
    answers = [_answers(problem_given(points.problem or [], PASSES[name]), device, workers) for name in passes]
    from ..validate.experiments.checkpoint import both_passes
    from ..validate.report.checkpoint import checkpoint_html, checkpoint_text

    result = answers[0] if len(answers) == 1 else both_passes(*answers)
    on_progress(
        asked,
        result.to_dict(),
        lambda: checkpoint_text(result, text_width(), text_color()),
        html=lambda: checkpoint_html(result, made),
    )


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


def launches(points: PointsOptions, device: Named, workers: int, asked: Asked) -> None:
    """Say what each way of computing a problem launches, predicted and profiled."""
    from ..validate.experiments import launches as room
    from ..validate.report.launches import launches_text

    problem = problem_given(points.problem or [], AttentionProblem)
    compiled = compiler(device.device, workers, code=True)
    with asking() as ask:
        announce_compiler()
        with progress("predictions") as tick:
            report = room.predict_launches(problem, device.device, compiler=compiled, workers=workers, progress=tick)
        with progress("profiles") as tick:
            report = room.profile_launches(report, device.job, ask, progress=tick)
    on_progress(asked, report.to_dict(), lambda: launches_text(report, text_width(), text_color()))


def on_progress(asked: Asked, value: Mapping[str, Any], text: Callable[[], str], **files: Callable[[], Any]) -> None:
    """Print an answer, and write its files, JSON among them. Args: as `answer` has them."""
    from ..simulator.display import render

    answer(asked, text, lambda: value, **files, json_file=lambda: render.to_json(value))
