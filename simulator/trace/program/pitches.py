"""Storages laid out as rows: the pitch at which what launches touch of a storage are rectangles.

Tiles of a program are rectangles of matrices, so each storage becomes one matrix of bytes. Its pitch is that of the
rectangles in it; where there are only runs, what divides their lengths and their distances; and where nothing does,
all of the storage is one row. Rectangles of another pitch are taken row by row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd

import numpy as np

from ...emulator.thread_values import Array
from ...limits import SECTOR_BYTES
from ..touch.footprints import Rectangle

LEAST_PITCH = 512
"""Shorter rows would make granules of which there are too many [B], unless all that touches them is tall."""
TALL_ROWS = 16
"""Rows from which on a rectangle is tall: its granules are as many rows high."""
MOST_ROWS = 32
"""Rows that are tiles of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A rectangle that a class of CTAs touches.

    Args:
        rectangle: at its base; base: in each CTA, relative to the storage, int64 (CTAs,) [B];
        strides: of the loops around [B]; trips: iterations of the innermost, at most.
    """

    rectangle: Rectangle
    base: Array
    strides: tuple[int, ...]
    trips: int


@dataclass(frozen=True, slots=True)
class Rows:
    """A storage as a matrix. Args: pitch: of its rows; origin: where the first begins, before the storage [B]."""

    pitch: int
    origin: int


def rows_of(size_bytes: int, pieces: Sequence[Piece]) -> Rows:
    """The rows of a storage. Args: size_bytes: of all of it [B]; pieces: all that touches it."""
    pitches = [piece.rectangle.pitch for piece in pieces if piece.rectangle.rows > 1]
    common = reduce(gcd, pitches, 0)
    distances = [
        *(int(np.gcd.reduce(piece.base - piece.base[0])) for piece in pieces),
        *(abs(stride) for piece in pieces for stride in piece.strides),
        *(piece.rectangle.width for piece in pieces if piece.rectangle.rows == 1),
        *(int(piece.base[0] + piece.rectangle.offset - _first(pieces)) for piece in pieces),
    ]
    even = reduce(gcd, (abs(value) for value in distances), 0)
    candidates = [common, gcd(common, even), even]
    lengths = {piece.rectangle.width for piece in pieces if piece.rectangle.rows == 1}
    if not pitches and len(lengths) == 1:
        candidates.append(lengths.pop())
    least = SECTOR_BYTES if all(piece.rectangle.rows >= TALL_ROWS for piece in pieces) else LEAST_PITCH
    for pitch in candidates:
        if pitch >= min(least, size_bytes):
            # Rows begin where the storage does, where they can: so sectors of several short ones lie in lines together.
            for origin in (0, -_first(pieces) % pitch):
                rows = Rows(pitch, origin)
                if all(_fits(piece, rows) for piece in pieces):
                    return rows
    return one_row(size_bytes)


def one_row(size_bytes: int) -> Rows:
    """All of a storage as one row, in whole sectors. Args: size_bytes: of it [B]."""
    return Rows(-(-size_bytes // SECTOR_BYTES) * SECTOR_BYTES, 0)


def _first(pieces: Sequence[Piece]) -> int:
    return int(pieces[0].base[0] + pieces[0].rectangle.offset)


def _fits(piece: Piece, rows: Rows) -> bool:
    """Whether a rectangle lies in rows of that pitch, in all CTAs and iterations."""
    rectangle, pitch = piece.rectangle, rows.pitch
    if rectangle.rows > 1 and rectangle.pitch != pitch:  # it becomes a tile a row
        return rectangle.rows <= MOST_ROWS and all(
            _fits(replace(piece, rectangle=row), rows) for row in single_rows(rectangle)
        )
    first = (piece.base + rectangle.offset + rows.origin) % pitch
    if rectangle.rows == 1 and rectangle.width % pitch == 0 and not first.any():
        return all(stride % pitch == 0 for stride in piece.strides)
    within = [stride for stride in piece.strides if stride % pitch]
    last = first + sum(stride * (piece.trips - 1) for stride in within)
    low, high = np.minimum(first, last), np.maximum(first, last)
    return bool(low.min() >= 0 and (high + rectangle.width).max() <= pitch)


def single_rows(rectangle: Rectangle) -> list[Rectangle]:
    """The rows of a rectangle, each as one."""
    return [
        Rectangle(rectangle.offset + number * rectangle.pitch, 1, 0, rectangle.width)
        for number in range(rectangle.rows)
    ]
