"""Which options read files and which write them: what a command reads it never writes over.

A new option whose text may name a file is named here; a test goes through those of all commands.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from ...simulator.display.files import beside
from ..output import BadInput

READ = "tilesight.read"
"""What the command line says is read: option and text -> files that it may name."""
Files = Callable[[str], Iterable[str]]


def _itself(text: str) -> Iterable[str]:
    return (text,)


def _listed(text: str) -> Iterable[str]:
    return (text, *(part.strip() for part in text.split(",")))


def _of_key(text: str) -> Iterable[str]:
    """Of `KEY=FILE`, `blocks:FILE` and `mask=blocks:FILE`."""
    value = text.rpartition("=")[2]
    return (value, text.partition(":")[2])


def _of_target(text: str) -> Iterable[str]:
    """Of a file, `hf:FILE`, `FILE.py:FUNCTION`, `REVISION:FILE.py:FUNCTION` and `MODULE:FUNCTION`."""
    file = text.rpartition(":")[0]
    module = os.path.join(*file.split("."))
    places = [os.path.join(folder, module) for folder in ("", *sys.path)] if file else []
    modules = [place + end for place in places for end in (".py", "/__init__.py")]
    return (text, file, text.partition(":")[2], file.partition(":")[2], *modules)


def _of_values(text: str) -> Iterable[str]:
    """Of `x=tensor:int32[4]@FILE`, and of members of a struct."""
    return (part.rpartition("@")[2] for part in text.split(";"))


READS: Mapping[str, Files] = (
    dict.fromkeys(("target", "old", "new"), _of_target)
    | dict.fromkeys(("--device", "name"), _listed)
    | dict.fromkeys(("--mask", "--problem"), _of_key)
    | {"--arg": _of_values}
    | dict.fromkeys(("--base", "--model", "--read", "--baseline", "--shapes", "--space", "--rerank"), _itself)
    | dict.fromkeys(("--table", "--cubin"), _itself)
    | dict.fromkeys(("--lengths", "--page-order", "--old-python", "--new-python"), _itself)
)
"""Options and arguments -> the files that their text may name."""
WRITES = frozenset(
    ("--csv", "--html", "--plot", "--trace", "--page", "--json-file", "--save", "--output", "--results", "--store")
)
FOLDERS = frozenset(("--to",))
"""Those that name a folder for files; what writes them calls `spare`."""


def check_files(context: typer.Context, values: Mapping[str, Any]) -> None:
    """See that every output file can be written, and is none that is read, before any work is done.

    Args:
        values: option or argument -> its value, or a list of them; only texts and paths can name a file.

    Raises:
        BadInput: a folder does not exist, a file cannot be written, is read, or two options name one file.
    """
    texts = {
        name: value if isinstance(value, list) else [value]
        for name, value in values.items()
        if value and isinstance(value, str | Path | list)
    }
    context.meta[READ] = {
        f"{name} {text}" if name.startswith("--") else str(text): tuple(READS[name](str(text)))
        for name in texts.keys() & READS.keys()
        for text in texts[name]
    }
    written: dict[str, str] = {}
    for name in sorted(texts.keys() & WRITES):
        _check_output(name, str(values[name]), written)
        spare(context, name, values[name])
    for name in texts.keys() & FOLDERS:
        if os.path.exists(values[name]) and not os.path.isdir(values[name]):
            raise BadInput(f"{name} {str(values[name])!r}: is a file; name a folder")


def spare(context: typer.Context, option: str, path: str | Path) -> None:
    """See that a file to write is none that the command reads. Raises: BadInput: it is one, by whatever name."""
    for reader, files in context.meta[READ].items():
        for file in files:
            with suppress(OSError, ValueError):
                if os.path.isfile(file) and os.path.samefile(path, file):
                    raise BadInput(f"{option} {str(path)!r}: is a file that {reader} reads; name another one")


def _check_output(option: str, path: str, written: dict[str, str]) -> None:
    """See that one file can be written. Args: written: files of the options before -> option; this one is added."""
    try:
        target = os.path.realpath(path)
        for other, file in written.items():
            if target == file or (os.path.isfile(target) and os.path.exists(file) and os.path.samefile(target, file)):
                raise BadInput(f"{option} {path!r}: is the file of {other} already; name two files")
        written[option] = target
        if os.path.isdir(target):
            raise BadInput(f"{option} {path!r}: is a folder; name a file")
        if os.path.exists(target) and not os.access(target, os.W_OK):
            raise BadInput(f"{option} {path!r}: cannot be written (no permission)")
        if not os.path.exists(target) or os.path.isfile(target):
            os.stat(os.path.dirname(target))
            probe = beside(target)
            probe.touch(exist_ok=False)
            probe.unlink()
            # The name itself may be too long; a missing file is what we hope for.
            with suppress(FileNotFoundError):
                os.stat(target)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadInput(f"{option} {path!r}: cannot be written ({why})") from None
