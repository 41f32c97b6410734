"""A Python of another environment, which records and compiles launches with the torch and Triton that it has.

It is given the source of `tilesight.kernels` and `tilesight.simulator` in a folder of its own, and nothing else of this
environment: its workers import the standard library, torch and Triton.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOMS = ("kernels", "simulator")
"""What a worker imports of this program."""
MEANT_ELSEWHERE = ("torch", "triton")
"""A folder of PYTHONPATH that holds one of these belongs to this environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python of another environment.

    Args:
        path: of it; variables: of its processes, beside those of this one.
        triton: name of its compiler, in names of answers on disk.
    """

    path: str
    variables: Mapping[str, str]
    triton: str = ""


def variables_of_another() -> dict[str, str]:
    """Variables for processes of another environment: this program's source comes first on its path."""
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    left = [folder for folder in folders if folder not in folders_left_away()]
    home = {"PYTHONHOME": ""} if "PYTHONHOME" in os.environ else {}
    return {"PYTHONPATH": os.pathsep.join([_source(), *left]), **home}


def folders_left_away() -> list[str]:
    """Folders of PYTHONPATH whose torch or Triton would hide that of another environment."""
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [folder for folder in folders if folder and any((Path(folder) / name).exists() for name in MEANT_ELSEWHERE)]


@cache
def _source() -> str:
    """A folder with this program's source alone, as links, until this process ends."""
    folder = tempfile.mkdtemp(prefix="tilesight-source-")
    atexit.register(_remove, folder, os.getpid())
    package = Path(folder) / "tilesight"
    package.mkdir()
    here = Path(__file__).resolve().parent  # editable installs have their rooms elsewhere than wheels
    top = next(file for file in (here.with_name("__init__.py"), here.parent / "tilesight/__init__.py") if file.exists())
    (package / "__init__.py").symlink_to(top)
    for room in ROOMS:
        (package / room).symlink_to(here.with_name(room))
    return folder


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # a forked child leaves it to its parent
        shutil.rmtree(folder, ignore_errors=True)
