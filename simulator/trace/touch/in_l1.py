"""What a CTA finds in L1 because it touched it a moment ago, by the lines that it moved through L1 since then.

A line takes its room whole, however few of its sectors are there (docs/lab/l1_room.cu).

What it finds there never leaves the SM, so it is no load of the program. CTAs that share an SM move as much each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...limits import LINE_BYTES, SECTOR_BYTES
from ..values import Array
from .footprints import Touched, sectors_of

REACH = 0.5
"""Share of L1 within which what was touched is still there: from there on the curve of hits falls."""


@dataclass(frozen=True, slots=True)
class Passing:
    """An access that goes through L1.

    Args:
        touched: bytes; iteration: in which it is made; load: or a store;
        course: equal for accesses that lie equally far from each other in all CTAs of the class.
    """

    touched: Touched
    iteration: object
    load: bool
    course: int = 0


def missed(passing: Sequence[Passing], room_bytes: float) -> list[Array]:
    """Sectors that each access has to fetch (or stores), in order. Args: room_bytes: of L1 for each CTA of an SM."""
    sectors = [sectors_of(one.touched) for one in passing]
    if not sectors:
        return []
    _, numbers = np.unique(np.concatenate(sectors), return_inverse=True)
    _, lines = np.unique(np.concatenate(sectors) // (LINE_BYTES // SECTOR_BYTES), return_inverse=True)
    last = np.full(int(numbers.max()) + 1, -np.inf)
    line_last = np.full(int(lines.max()) + 1, -np.inf)
    by = np.full(len(last), -1, dtype=np.int64)
    course = np.full(len(last), -1, dtype=np.int64)
    iterations: dict[object, int] = {}
    moved, at, found = 0.0, 0, []
    for one, own in zip(passing, sectors, strict=True):
        index, line = numbers[at : at + len(own)], np.unique(lines[at : at + len(own)])
        at += len(own)
        near = moved - last[index] <= REACH * room_bytes
        # Loads of one iteration go out together, and are joined as such.
        iteration = iterations.setdefault(one.iteration, len(iterations))
        hit = near & (by[index] != iteration) if one.load and room_bytes > 0 else np.zeros(len(own), dtype=np.bool_)
        # Where two accesses meet in this CTA alone (an element that a label picks, say), others find nothing.
        hit = hit & (course[index] == one.course)
        found.append(own[~hit])
        moved += LINE_BYTES * float((moved - line_last[line] > REACH * room_bytes).sum())
        line_last[line] = moved
        # What was hit is still there for the next load of the iteration, which need not wait for a fill of its own.
        last[index], by[index], course[index] = moved, np.where(hit, by[index], iteration), one.course
    return found
