"""Options whose value is a text, or the name of a file that holds it."""

import os.path
import re
from pathlib import Path

MATRIX = ".npy"
"""Ends the name of a file that NumPy saved a matrix in."""
ROWS = re.compile(r"[01/,;\s]*")


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
