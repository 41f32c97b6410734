"""Sides of a comparison by name: a function, or one at a git revision, and what it launches."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ..simulator.device.device import load_device
from ..simulator.device.what_if import override
from ..simulator.refusal import UserError
from .environments.found import Installation

if TYPE_CHECKING:
    from ..kernels.capture.file import Asked, RecordedFunction

QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false")
"""No hooks of the user's run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A revision, checked out. Args: root: where it lies; repository: of the user's; file: that was asked for."""

    root: Path
    repository: Path
    file: Path

    @property
    def folders(self) -> list[str]:
        """Where modules of the revision are found: its top, `src`, and what stands for folders of the user's path."""
        places = [Path(place).resolve() for place in sys.path if place]
        mapped = [
            self.root / place.relative_to(self.repository) for place in places if place.is_relative_to(self.repository)
        ]
        listed = dict.fromkeys([*mapped, self.root, self.root / "src"])
        return [str(folder) for folder in listed if folder.is_dir()]


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
    from ..kernels.given.launch import read_launches

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


@contextmanager
def checked_out(revision: str, file: str) -> Iterator[Revision]:
    """A revision of the repository that a file lies in, in a temporary folder, as `git worktree` makes it.

    Args:
        revision: as git names them; file: path from here, which need not exist here any more.

    Raises:
        UserError: git is not installed, or there is no such repository, revision or file in it.
    """
    path = Path(os.path.abspath(file))
    place = next(folder for folder in path.parents if folder.is_dir())
    try:
        repository = Path(_git(place, "rev-parse", "--show-toplevel")).resolve()
    except subprocess.CalledProcessError:
        raise UserError(f"{revision}:{file}: {str(place)!r} is in no git repository") from None
    try:
        commit = _git(place, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except subprocess.CalledProcessError:
        raise UserError(f"{revision}:{file}: no such revision {revision!r} in {str(repository)!r}") from None
    within = (place.resolve() / path.relative_to(place)).relative_to(repository)
    with TemporaryDirectory(prefix="tilesight-") as folder:
        root = Path(folder).resolve() / repository.name
        try:
            _git(place, *QUIET, "worktree", "add", "--detach", str(root), commit)
            if not (root / within).is_file():
                raise UserError(f"{revision}:{file}: no such file at that revision")
            yield Revision(root=root, repository=repository, file=root / within)
        except subprocess.CalledProcessError as error:
            said = " ".join(str(error.stderr).split())
            raise UserError(f"{revision}:{file}: git cannot check it out: {said}") from None
        finally:
            _git(place, "worktree", "remove", "--force", str(root), check=False)


def changed_files(file: str) -> int:
    """Files of a repository that differ from its last commit, new ones left out; 0 where there is no repository."""
    place = Path(os.path.abspath(file)).parent
    try:
        return len(_git(place, "status", "--porcelain", "--untracked-files=no").splitlines())
    except (subprocess.CalledProcessError, UserError):
        return 0


def _git(place: Path, *arguments: str, check: bool = True) -> str:
    """What git says. Raises: UserError: it is not installed; CalledProcessError: it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")}
    try:
        finished = subprocess.run(
            ["git", "-C", str(place), *arguments],
            env=environment | {"GIT_LFS_SKIP_SMUDGE": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=check,
        )
    except FileNotFoundError:
        raise UserError("git is not installed: a revision cannot be read") from None
    return finished.stdout.strip()
