"""How the values of options are read, from the line or a file."""

import os.path
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import typer

from ..simulator.dtypes import dtype_name
from .output import BadInput

Value = TypeVar("Value")
MATRIX = ".npy"
"""Ends the name of a file that NumPy saved a matrix in."""
ROWS = re.compile(r"[01/,;\s]*")


def whole(text: str) -> int:
    """A whole number, for typer."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no whole number") from None


def number(text: str) -> float:
    """A number, for typer."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number") from None


def read_option(name: str, file: Path, read: Callable[[Path], Value], named: bool = False) -> Value:
    """What the file of an option holds. Args: named: whether what `read` says begins with the file.

    Raises:
        BadInput: it cannot be read, or `read` raises ValueError.
    """
    try:
        return read(file)
    except OSError as error:
        raise BadInput(f"{name} {str(file)!r}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise BadInput(f"{name} {error}" if named else f"{name} {str(file)!r}: {error}") from None


def one_of(*allowed: str) -> Callable[[str], str]:
    """One of a few words, for typer."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise typer.BadParameter(f"{text!r} must be one of {', '.join(allowed)}")
        return text

    return parse


def dtype_of(*allowed: str) -> Callable[[str], str]:
    """The same of element types, which torch's names name as well."""
    word = one_of(*allowed)
    return lambda text: name if (name := dtype_name(text)) in allowed else word(text)


def each_once(name: str, text: str, values: Sequence[Value]) -> tuple[Value, ...]:
    """The values of a list. Args: name: of the option; text: as typed. Raises: BadInput: one is there twice."""
    for place, value in enumerate(values):
        if value in values[:place]:
            raise BadInput(f"{name} {text!r}: has {value} twice; give it once")
    return tuple(values)


def text_or_file(option: str, given: str) -> str:
    """What an option says, or what the file holds that it names. Raises: ValueError: the file cannot be read."""
    # Not `Path.is_file`, which refuses texts that are longer than names of files.
    if not os.path.isfile(given):
        return given
    try:
        return _matrix(given) if given.endswith(MATRIX) else Path(given).read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise ValueError(f"{option} = {given!r}: cannot be read ({reason})") from None


def mask_text(given: str) -> str:
    """A mask whose documents or blocks may be in a file. Raises: ValueError: it cannot be read, or there is none."""
    kind, _, rest = given.partition(":")
    if kind not in ("documents", "blocks"):
        return given
    text = text_or_file("mask", rest)
    if kind == "blocks" and text == rest and not ROWS.fullmatch(rest):
        raise ValueError(
            f"mask = {given!r}: there is no file {rest!r}, and rows of 0 and 1 are written as in blocks:10/11"
        )
    return f"{kind}:{text}"


def _matrix(path: str) -> str:
    """The rows of a matrix of 0 and 1, a line each. Raises: ValueError: it is none."""
    import numpy as np

    matrix = np.load(path, allow_pickle=False)
    if matrix.ndim != 2 or not np.isin(matrix, (0, 1)).all():
        raise ValueError(f"holds {matrix.dtype} of shape {matrix.shape}: must be a matrix of 0 and 1")
    return "\n".join("".join("1" if element else "0" for element in row) for row in matrix)
