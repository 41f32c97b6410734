"""A revision of a git repository in a folder of its own, as long as it is looked at; nothing of the user's moves."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ..simulator.refusal import UserError

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
