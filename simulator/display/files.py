"""Files of results: written whole or not at all, and made by the writers of reports, which load on first use."""

import os
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

REPORT = f"{__package__.rpartition('.')[0]}.report"


def written_by(room: str, name: str) -> Any:
    """A function of a report, e.g. `explore_png` of `png`: the one that the command line calls, so that both agree."""
    return getattr(import_module(f"{REPORT}.{room}"), name)


def kept(content: Any, file: str | PathLike[str] | None) -> Any:
    """The content, written to a file where one is named. Raises: OSError: it cannot be written."""
    if file is not None:
        write_whole(file, content)
    return content


def write_whole(file: str | PathLike[str], content: str | bytes) -> None:
    """Write a file whole or not at all; what is no ordinary file (a pipe, a terminal) is written in place.

    Raises:
        OSError: it cannot be written; what was there before is still there.
    """
    data = content.encode() if isinstance(content, str) else content
    target = os.path.realpath(file)
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as stream:
            stream.write(data)
        return
    temporary = beside(target)
    try:
        with open(temporary, "xb") as stream:
            stream.write(data)
        if os.path.exists(target):
            os.chmod(temporary, os.stat(target).st_mode & 0o7777)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def beside(target: str | PathLike[str]) -> Path:
    """A new name in the folder of a file, which takes the file's place once it is whole."""
    return Path(target).with_name(f".tilesight-{os.getpid()}-{os.urandom(4).hex()}.tmp")


def page_made(function: str) -> Any:
    """What the foot of a page tells that Python made. Args: function: that gave the result."""
    return written_by("page", "made_now")(f"tilesight.{function}(), from Python")
