"""What a side of a comparison is named by, a function or one at a git revision, in; its launches out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..simulator.device.device import load_device
from ..simulator.device.what_if import override
from ..simulator.refusal import UserError
from .environments.found import Installation
from .revision import changed_files, checked_out

if TYPE_CHECKING:
    from ..kernels.capture.file import Asked, RecordedFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A function. Args: file: as given; function: its name; revision: that it is read at; empty: as it lies there."""

    file: str
    function: str
    revision: str = ""


def is_saved(text: str) -> bool:
    """Whether a side is a file of `predict --save`."""
    return text.endswith(".json")


def is_plain(text: str) -> bool:
    """Whether a side is launches as plain data: no code of the user's runs."""
    return text.endswith(".toml") and ":" not in text


def target_of(text: str) -> Target:
    """`FILE.py:FUNCTION`, `MODULE:FUNCTION` or `REVISION:FILE.py:FUNCTION`. Raises: UserError: it is none."""
    rest, _, function = text.rpartition(":")
    if ":" not in rest or Path(rest).is_file():
        return Target(file=rest, function=function)
    revision, _, file = rest.partition(":")
    if not revision or not file.endswith(".py") or not function.isidentifier():
        raise UserError(f"{text!r}: must be FILE.py:FUNCTION, REVISION:FILE.py:FUNCTION, FILE.toml or FILE.json")
    return Target(file=file, function=function, revision=revision)


@contextmanager
def recorded(
    text: str, asked: "Asked", on_progress: Callable[[str], None], installation: Installation | None = None
) -> "Iterator[RecordedFunction]":
    """What a target launches, while the files that its code comes from are there.

    Args:
        installation: that runs it, None: this one.

    Raises:
        UserError: there is no such revision, file or function; UserCodeFailed: it failed.
    """
    from ..kernels.capture.file import UserCodeFailed, capture_calls, given_function
    from ..kernels.given.file import read_launches

    if is_plain(text):
        yield given_function(read_launches(Path(text)), override(load_device(asked.device), list(asked.settings)))
        return
    on_progress(f"{text}: function")
    target = target_of(text)
    interpreter = installation.interpreter if installation else None
    asked = replace(asked, interpreter=interpreter)
    within = f"with {installation.environment.text}: " if installation and interpreter else ""
    if not target.revision:
        try:
            answer = capture_calls(text, asked)[0]
        except (UserError, UserCodeFailed) as error:
            raise type(error)(f"{within}{error}") from None
        yield answer
        return
    with checked_out(target.revision, target.file) as revision:
        try:
            (answer,) = capture_calls(
                f"{revision.file}:{target.function}", replace(asked, folders=tuple(revision.folders))
            )
        except (UserError, UserCodeFailed) as error:
            raise type(error)(f"{within}at {target.revision}: {error}") from None
        files = sorted({call.file for call in answer.calls if hasattr(call, "file")})
        strangers = [file for file in files if Path(file).resolve().is_relative_to(revision.repository)]
        notes = [f"{file}: is read as it lies there, not at {target.revision}" for file in strangers]
        yield replace(answer, notes=(*answer.notes, *notes))


def uncommitted(texts: Sequence[str]) -> tuple[str, ...]:
    """A remark on changes that are not committed, where a side is a revision and another is not."""
    targets = [target_of(text) for text in texts if not (is_saved(text) or is_plain(text))]
    if not any(target.revision for target in targets):
        return ()
    counts = {target.file: changed_files(target.file) for target in targets if not target.revision}
    return tuple(
        f"{file}: is read with changes that are not committed ({count} {'file' if count == 1 else 'files'})"
        for file, count in counts.items()
        if count
    )
