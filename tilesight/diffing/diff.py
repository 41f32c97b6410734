"""`tilesight.diff(old, new)`: what a change does to the launches of a function; torch and triton, but no GPU."""

from collections.abc import Callable
from contextlib import ExitStack

from ..compiling import why_not
from ..simulator.device.device import Device, found_device
from ..simulator.jobs.stopping import LIMIT_S, Stage
from ..simulator.predict_kernels import L2
from ..simulator.prediction.timing import one_of_timings
from .difference import Difference
from .sides import Question, compiled_side, predicted, unpredicted
from .targets import recorded, uncommitted

USERS_CODE_S = 120.0
"""What a function may take to make its launches, and the compiler for each [s]."""


def diff(
    old: str,
    new: str,
    device: Device | str = "h200",
    *,
    l2: str = "pipeline",
    timing: str = "single",
    time_limit_s: float | None = None,
) -> Difference:
    """Say what a change does to the launches of a function.

    Args:
        old, new: `FILE.py:FUNCTION`, or `REVISION:FILE.py:FUNCTION` at a git revision, which is read in a folder of its
            own.
        device: a name or a path to a TOML file; l2, timing: as `predict`.
        time_limit_s: that a function, the compiler and the prediction may take for each launch; None: as usual [s].

    Returns:
        Launches that answer each other; nothing is predicted where all code is the same.

    Raises:
        RuntimeError: torch or triton is missing, or the user's code failed (one line).
        ValueError: no such device, revision, file or function, or another setting that is not allowed (one line).
    """
    gpu, name = found_device(device)
    one_of_timings(timing)
    if l2 not in L2:
        raise ValueError(f"l2 = {l2!r}: must be one of {', '.join(L2)}")
    question = Question(
        device=gpu,
        name=name,
        l2=l2,
        timing=timing,
        compile_limit_s=time_limit_s or USERS_CODE_S,
        limit_s=time_limit_s or LIMIT_S,
    )
    return difference_of(old, new, question, (), lambda text: None)


def difference_of(
    old: str,
    new: str,
    question: Question,
    settings: tuple[str, ...],
    tell: Callable[[str], None],
    announce: Callable[[], None] = lambda: None,
) -> Difference:
    """The same of a question.

    Args:
        settings: what-ifs that made its device, `key=value`; tell: what is under way;
        announce: called once before anything is predicted.
    """
    if reason := why_not():
        raise RuntimeError(reason)
    from ..kernels.capture.file import Asked

    asked = Asked(device=question.name, settings=settings, timeout_s=question.compile_limit_s or USERS_CODE_S)
    notes = (*(f"device changed by --set {setting}" for setting in settings), *uncommitted((old, new)))
    with ExitStack() as stack:
        sides = []
        for text in (old, new):
            launches = stack.enter_context(recorded(text, asked, tell))
            sides.append(compiled_side(text, launches, question))
        same = bool(sides[0].flow) and sides[0].flow == sides[1].flow
        if not same:
            announce()
        before, after = (unpredicted(side, question) if same else predicted(side, question) for side in sides)
    notes = (*notes, *before.notes, *after.notes)
    return Difference(before, after, tuple(dict.fromkeys(notes)))


def stage_text(tell: Callable[[str], None]) -> Callable[[Stage], None]:
    """What tells a stage of a launch. Args: tell: that takes text."""
    return lambda stage: tell(stage.text)
