"""What `kernel_time` is given, text or function, in; a name that is the same on every machine, and its place, out."""

import inspect
import sys
from dataclasses import dataclass
from pathlib import Path

from ..simulator.arguments import shown

TAKEN = "must be FILE.py:FUNCTION, MODULE:FUNCTION, or a function that launches kernels, defined at the top of a file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A function. Args: name: for people and for files; target: as `kernels.capture.file.capture_calls` takes it."""

    name: str
    target: str


def subject_of(function: object, root: Path) -> Subject:
    """The function that is meant. Args: root: folder that paths begin at. Raises: ValueError: there is none."""
    if isinstance(function, str):
        place, _, name = function.rpartition(":")
        return _in_file(root / place, name, root) if place.endswith(".py") else Subject(name=function, target=function)
    top = str(getattr(function, "__name__", ""))
    module = sys.modules.get(str(getattr(function, "__module__", "")))
    file: str | None = getattr(module, "__file__", None)
    if file and inspect.isfunction(function) and getattr(module, top, None) is function:
        return _in_file(Path(file), top, root)
    raise ValueError(f"function = {shown(function)}: {TAKEN}")


def _in_file(path: Path, function: str, root: Path) -> Subject:
    place = path.relative_to(root) if path.is_relative_to(root) else path
    if not path.is_file():
        raise ValueError(f"{place}: no such file{'' if place.is_absolute() else f' in {root}'}")
    return Subject(name=f"{place.as_posix()}:{function}", target=f"{path}:{function}")
