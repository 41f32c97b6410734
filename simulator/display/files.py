"""Files of results: made by the writers of reports, which are a floor above and load on first use."""

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
        data = content.encode() if isinstance(content, str) else content
        Path(file).write_bytes(data)
    return content


def page_made(function: str) -> Any:
    """What the foot of a page tells that Python made. Args: function: that gave the result."""
    return written_by("page", "made_now")(f"tilesight.{function}(), from Python")
