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

NEVER = -1
"""Instead of a use."""


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
    all_sectors = np.concatenate(sectors_by_access)
    _, numbers = np.unique(all_sectors, return_inverse=True)
    _, lines = np.unique(all_sectors // (LINE_BYTES // SECTOR_BYTES), return_inverse=True)
    held = _Lines(int(lines.max()) + 1, kept_bytes)
    touched_in = np.full(int(numbers.max()) + 1, NEVER)
    fetched_in, pattern = touched_in.copy(), touched_in.copy()
    iterations: dict[object, int] = {}
    at, misses = 0, []
    for access, sectors in zip(passing, sectors_by_access, strict=True):
        index, line = numbers[at : at + len(sectors)], lines[at : at + len(sectors)]
        at += len(sectors)
        # Loads of one iteration are issued together: their common sectors are fetched once, and are no hits.
        iteration = iterations.setdefault(access.iteration, len(iterations))
        may_hit = access.load and kept_bytes > 0
        near = held.since(line) <= touched_in[index]
        hit = near & (fetched_in[index] != iteration) if may_hit else np.zeros(len(sectors), dtype=np.bool_)
        # Where two accesses overlap in this CTA alone (an element that a label picks, say), other CTAs miss.
        hit = hit & (pattern[index] == access.pattern)
        misses.append(sectors[~hit])
        # What hits stays a hit for the next load of the iteration, too.
        touched_in[index], pattern[index] = held.use(np.unique(line)), access.pattern
        fetched_in[index] = np.where(hit, fetched_in[index], iteration)
    return misses


class _Lines:
    """Lines in the order of their last use: the newest, as many as have room. Args: reach_bytes: of that room [B]."""

    def __init__(self, count: int, reach_bytes: float) -> None:
        self._used_in = np.full(count, NEVER)
        self._here_since = np.full(count, NEVER)
        self._most = int(reach_bytes) // LINE_BYTES
        self._newest: list[int] = []  # lines whose last use is each use
        self._oldest = self._held = 0  # the first use whose lines are here, and how many are

    def since(self, lines: Array) -> Array:
        """The use since which each of some lines is here; of one that is not, one to come."""
        since: Array = np.where(self._used_in[lines] >= self._oldest, self._here_since[lines], len(self._newest))
        return since

    def use(self, lines: Array) -> int:
        """Use some lines, once each. Returns: number of the use."""
        number, before = len(self._newest), self._used_in[lines]
        here = before >= self._oldest
        for use, count in zip(*np.unique(before[here], return_counts=True), strict=True):
            self._newest[use] -= int(count)
        self._here_since[lines[~here]] = number
        self._used_in[lines] = number
        self._newest.append(len(lines))
        self._held += int(np.count_nonzero(~here))
        while self._held > self._most:
            self._held -= self._newest[self._oldest]
            self._oldest += 1
        return number
