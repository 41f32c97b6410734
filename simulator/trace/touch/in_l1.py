"""Hits in L1: sectors that a CTA has touched before, if few lines have gone through L1 since then.

A line takes 128 B of L1, however few of its sectors are there (validate/lab/l1_room.cu). What hits is no load of the
program, which describes traffic beyond the SM. Each of the CTAs that share an SM is taken to move as much.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...emulator.thread_values import Array
from ...limits import LINE_BYTES, SECTOR_BYTES
from .footprints import Touched, sectors_of


@dataclass(frozen=True, slots=True)
class Passing:
    """An access that goes through L1.

    Args:
        touched: its bytes; iteration: equal for accesses that are issued together; load: or a store;
        pattern: equal for accesses whose bases are at the same distances between all CTAs of the class.
    """

    touched: Touched
    iteration: object
    load: bool
    pattern: int = 0


def missed(passing: Sequence[Passing], kept_bytes: float) -> list[Array]:
    """Numbers of the sectors that each access misses in L1, or stores. Args: kept_bytes: as in `CtaClass`."""
    sectors_by_access = [sectors_of(access.touched) for access in passing]
    if not sectors_by_access:
        return []
    _, numbers = np.unique(np.concatenate(sectors_by_access), return_inverse=True)
    _, lines = np.unique(np.concatenate(sectors_by_access) // (LINE_BYTES // SECTOR_BYTES), return_inverse=True)
    touched_at = np.full(int(numbers.max()) + 1, -np.inf)
    line_touched_at = np.full(int(lines.max()) + 1, -np.inf)
    fetched_in = np.full(len(touched_at), -1, dtype=np.int64)
    pattern = np.full(len(touched_at), -1, dtype=np.int64)
    iterations: dict[object, int] = {}
    moved_bytes, at, misses = 0.0, 0, []
    for access, sectors in zip(passing, sectors_by_access, strict=True):
        index, line = numbers[at : at + len(sectors)], np.unique(lines[at : at + len(sectors)])
        at += len(sectors)
        near = moved_bytes - touched_at[index] <= kept_bytes
        # Loads of one iteration are issued together: their common sectors are fetched once, and are no hits.
        iteration = iterations.setdefault(access.iteration, len(iterations))
        may_hit = access.load and kept_bytes > 0
        hit = near & (fetched_in[index] != iteration) if may_hit else np.zeros(len(sectors), dtype=np.bool_)
        # Where two accesses overlap in this CTA alone (an element that a label picks, say), other CTAs miss.
        hit = hit & (pattern[index] == access.pattern)
        misses.append(sectors[~hit])
        moved_bytes += LINE_BYTES * float((moved_bytes - line_touched_at[line] > kept_bytes).sum())
        line_touched_at[line] = moved_bytes
        # What hits stays a hit for the next load of the iteration, too.
        touched_at[index], pattern[index] = moved_bytes, access.pattern
        fetched_in[index] = np.where(hit, fetched_in[index], iteration)
    return misses
