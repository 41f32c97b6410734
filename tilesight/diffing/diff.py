"""`tilesight.diff(old, new)`: what a change does to the launches of a function; torch and triton, but no GPU."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from ..compiling import why_not
from ..simulator.device.device import Device, found_device
from ..simulator.device.what_if import override
from ..simulator.jobs.stopping import LIMIT_S, Stage
from ..simulator.prediction.timing import one_of_timings
from .difference import Difference
from .environments.pairs import installations_of, notes_on
from .known_sides import predicted_once
from .saved import side_of
from .side import Side
from .sides import Compiled, Question, compiled_side, unpredicted
from .targets import is_saved, recorded, uncommitted
from .verdict import machines_of

USERS_CODE_S = 120.0
"""What a function may take to make its launches, and the compiler for each [s]."""


def diff(
    old: str,
    new: str | None = None,
    device: str = "h200",
    *,
    settings: Sequence[str] = (),
    old_device: str | None = None,
    old_settings: Sequence[str] | None = None,
    l2: str = "pipeline",
    timing: str = "single",
    time_limit_s: float | None = None,
    repredict: bool = False,
    old_python: str = "",
    new_python: str = "",
) -> Difference:
    """Say what a change does to the launches of a function, or another device to the same launches.

    Args:
        old, new: `FILE.py:FUNCTION`, or `REVISION:FILE.py:FUNCTION` at a git revision, which is read in a folder of its
            own, or a file of `predict --save`; new: None: the same as old.
        device: a name or a path to a TOML file; settings: what-ifs of it, `key=value` as of `--set`.
        old_device, old_settings: of old; None: those of new. l2, timing: as `predict`.
        time_limit_s: that a function, the compiler and the prediction may take for each launch; None: as usual [s].
        repredict: whether launches of a saved file are predicted anew, as after another version of this program.
        old_python, new_python: path of a Python whose torch and triton record and compile that side; empty: this one.

    Returns:
        Launches that answer each other; nothing is predicted where all code and the device are the same.

    Raises:
        RuntimeError: torch or triton is missing, or the user's code failed (one line).
        ValueError: no such device, revision, file, function or Python, or a setting that is not allowed (one line).
    """
    for name, text in (("device", device), ("old_device", old_device)):
        if isinstance(text, Device):
            raise ValueError(
                f"{name} = {text!r}: must be a name or a file, as OLD and NEW run in processes of their own"
            )

    def asked(name: str, what_ifs: Sequence[str]) -> Question:
        return question_of(name, settings=what_ifs, l2=l2, timing=timing, time_limit_s=time_limit_s)

    after = asked(device, settings)
    before = asked(old_device or device, settings if old_settings is None else old_settings)
    new = new_of(old, new, before, after)
    places = installations_of((old, new), (old_python, new_python), (before.device, after.device))
    before, after = (replace(side, installation=place) for side, place in zip((before, after), places, strict=True))
    return difference_of(old, new, before, after, lambda text: None, repredict=repredict)


def question_of(
    device: Device | str, *, settings: Sequence[str] = (), l2: str, timing: str, time_limit_s: float | None
) -> Question:
    """What a side is predicted for. Args, raises: as `diff`."""
    gpu, name = found_device(device)
    one_of_timings(timing)
    return Question(
        device=override(gpu, list(settings)),
        name=name,
        settings=tuple(settings),
        l2=l2,
        timing=timing,
        compile_limit_s=time_limit_s or USERS_CODE_S,
        limit_s=time_limit_s or LIMIT_S,
    )


def new_of(old: str, new: str | None, before: Question, after: Question) -> str:
    """The second side: old where none is named and the devices differ. Raises: ValueError: nothing does (one line)."""
    if new is None and before.device == after.device:
        raise ValueError(
            "NEW is missing: name what OLD is compared with, or have OLD predicted twice, for two devices "
            "(--device h100,h200), with a what-if (--new-set l2_bytes=100MiB) or two Tritons (--triton 3.6.0,3.9.0)"
        )
    return old if new is None else new


def difference_of(
    old: str,
    new: str,
    before: Question,
    after: Question,
    on_progress: Callable[[str], None],
    announce: Callable[[], None] = lambda: None,
    repredict: bool = False,
) -> Difference:
    """The same of two questions.

    Args:
        before, after: what old and new are predicted for; on_progress: what is under way;
        announce: called once before anything is predicted; repredict: as of `diff`.
    """
    if reason := why_not():
        raise RuntimeError(reason)
    compilers = {question.compiler for question in (before, after)}
    machines = machines_of(before.device, after.device, one_compiler=len(compilers) == 1)
    both = [setting for setting in after.settings if setting in before.settings]
    notes = (
        *(f"device changed by --set {setting}" for setting in both),
        *machines.notes,
        *notes_on((before.installation, after.installation)),
        *uncommitted((old, new)),
    )
    asked = ((old, before), (new, after))
    with ExitStack() as stack:
        sides = [_compiled(text, question, stack, on_progress, repredict) for text, question in asked]
        codes = {side.code for side in sides}
        same = machines.same and len(codes) == 1 and "" not in codes
        if not same:
            announce()
        first, second = (_answered(side, question, same) for side, (_, question) in zip(sides, asked, strict=True))
    return Difference(first, second, tuple(dict.fromkeys((*notes, *first.notes, *second.notes))), machines)


def _compiled(
    text: str, question: Question, stack: ExitStack, on_progress: Callable[[str], None], repredict: bool
) -> Side | Compiled:
    """A side as a file holds it, or with its launches compiled; a revision is there as long as the stack is."""
    from ..kernels.capture.file import Asked

    if is_saved(text):
        return side_of(Path(text), question, repredict)
    limit_s = question.compile_limit_s or USERS_CODE_S
    asked = Asked(device=question.name, settings=question.settings, timeout_s=limit_s)
    return compiled_side(text, stack.enter_context(recorded(text, asked, on_progress, question.installation)), question)


def _answered(side: Side | Compiled, question: Question, same: bool) -> Side:
    """A side with what is asked of it. Args: same: whether the other has the same code, so that nothing is."""
    if isinstance(side, Side):
        return side
    return unpredicted(side, question) if same else predicted_once(side, question)


def stage_text(on_progress: Callable[[str], None]) -> Callable[[Stage], None]:
    """What tells a stage of a launch. Args: on_progress: that takes text."""
    return lambda stage: on_progress(stage.text)
