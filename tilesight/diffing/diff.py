"""`tilesight.diff(old, new)`: what a change does to the launches of a function; torch and triton, but no GPU."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ..compiling import why_not
from ..simulator.device.device import Device, found_device
from ..simulator.jobs.stopping import LIMIT_S, Stage
from ..simulator.predict_kernels import L2
from ..simulator.prediction.timing import one_of_timings
from .difference import Difference
from .saved import side_of
from .side import Side
from .sides import Compiled, Question, compiled_side, predicted, unpredicted
from .targets import is_saved, recorded, uncommitted

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
    repredict: bool = False,
) -> Difference:
    """Say what a change does to the launches of a function.

    Args:
        old, new: `FILE.py:FUNCTION`, or `REVISION:FILE.py:FUNCTION` at a git revision, which is read in a folder of its
            own, or a file of `predict --save`.
        device: a name or a path to a TOML file; l2, timing: as `predict`.
        time_limit_s: that a function, the compiler and the prediction may take for each launch; None: as usual [s].
        repredict: whether launches of a saved file are predicted anew, as after another version of this program.

    Returns:
        Launches that answer each other; nothing is predicted where all code is the same.

    Raises:
        RuntimeError: torch or triton is missing, or the user's code failed (one line).
        ValueError: no such device, revision, file or function, or another setting that is not allowed (one line).
    """
    question = question_of(device, l2=l2, timing=timing, time_limit_s=time_limit_s)
    return difference_of(old, new, question, (), lambda text: None, repredict=repredict)


def question_of(device: Device | str, *, l2: str, timing: str, time_limit_s: float | None) -> Question:
    """What two sides are predicted for. Args, raises: as `diff`."""
    gpu, name = found_device(device)
    one_of_timings(timing)
    if l2 not in L2:
        raise ValueError(f"l2 = {l2!r}: must be one of {', '.join(L2)}")
    return Question(
        device=gpu,
        name=name,
        l2=l2,
        timing=timing,
        compile_limit_s=time_limit_s or USERS_CODE_S,
        limit_s=time_limit_s or LIMIT_S,
    )


def difference_of(
    old: str,
    new: str,
    question: Question,
    settings: tuple[str, ...],
    tell: Callable[[str], None],
    announce: Callable[[], None] = lambda: None,
    repredict: bool = False,
) -> Difference:
    """The same of a question.

    Args:
        settings: what-ifs that made its device, `key=value`; tell: what is under way;
        announce: called once before anything is predicted; repredict: as of `diff`.
    """
    if reason := why_not():
        raise RuntimeError(reason)
    from ..kernels.capture.file import Asked

    asked = Asked(device=question.name, settings=settings, timeout_s=question.compile_limit_s or USERS_CODE_S)
    notes = (*(f"device changed by --set {setting}" for setting in settings), *uncommitted((old, new)))
    with ExitStack() as stack:
        sides: list[Side | Compiled] = []
        for text in (old, new):
            if is_saved(text):
                sides.append(side_of(Path(text), question, settings, repredict))
            else:
                sides.append(compiled_side(text, stack.enter_context(recorded(text, asked, tell)), question))
        codes = {side.code for side in sides}
        same = len(codes) == 1 and "" not in codes
        if not same:
            announce()
        before, after = (_answered(side, question, same) for side in sides)
    notes = (*notes, *before.notes, *after.notes)
    return Difference(before, after, tuple(dict.fromkeys(notes)))


def _answered(side: Side | Compiled, question: Question, same: bool) -> Side:
    """A side with what is asked of it. Args: same: whether the other has the same code, so that nothing is."""
    if isinstance(side, Side):
        return side
    return unpredicted(side, question) if same else predicted(side, question)[0]


def stage_text(tell: Callable[[str], None]) -> Callable[[Stage], None]:
    """What tells a stage of a launch. Args: tell: that takes text."""
    return lambda stage: tell(stage.text)
