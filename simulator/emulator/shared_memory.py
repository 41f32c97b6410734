"""Shared memory: what the threads of a CTA have left there for each other, byte by byte, where it is known.

Copies arrive at once: code waits for them before it reads. Nothing else is known than what was stored, but that the
system's own part is cleared when a CTA starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..integers import cdiv
from ..limits import WORD_BYTES
from .thread_values import SHAPE, UNKNOWN, Array, Value

SYSTEM_BYTES = 0x400
"""Shared memory that the system keeps for itself, cleared when a CTA starts."""
MOST_BYTES = 1 << 18
"""More than an SM has of shared memory [B]; addresses beyond it name nothing."""
GROUP_BYTES = 16
"""Bytes that are kept side by side: the most that a thread moves at once [B]."""
ALL = {1: 1, WORD_BYTES: 0x01010101}
"""Bytes that are written at once -> what says that all of them are known."""


class SharedMemory:
    """Bytes of groups that CTAs have stored anything known to, and which of them are known.

    What is not known is not kept: most of what kernels copy there are data that were not given.
    """

    def __init__(self) -> None:
        self._group = np.full(MOST_BYTES // GROUP_BYTES, -1, dtype=np.int64)
        self._bytes = np.zeros((1, 0), dtype=np.uint8)
        self._known = np.zeros((1, 0), dtype=np.bool_)
        self._used = 0

    def store(self, address: Value, words: Sequence[Value], size: int, mask: Array) -> None:
        """Store words of threads.

        Args:
            address: in shared memory; where it is not known, nothing is known of all memory from then on.
            words: from the lowest on; those that are missing are not known; size: bytes of all of them.
            mask: threads that store.
        """
        places, sure = address
        if not np.all(np.asarray(sure) | ~mask):
            self._known[:] = False
            return
        taking = mask & (places >= 0) & (places + size <= MOST_BYTES)
        if not taking.any():
            return
        values = [words[number] if number < len(words) else UNKNOWN for number in range(cdiv(size, WORD_BYTES))]
        if not any(np.any(taking & known) for _, known in values) and self._keeps_nothing(places, size, taking):
            return
        arrays = [part for array, known in values for part in (array, np.asarray(known)) if part.ndim == 3]
        shape = np.broadcast_shapes(taking.shape, *(array.shape for array in arrays))
        storing = _storing(places, np.broadcast_to(taking, (len(taking), *shape[1:])))
        known = [storing.of(np.asarray(known)) for _, known in values]
        wanted = np.logical_or.reduce([flags.any(axis=0) if flags.ndim == 2 else flags for flags in known])
        self._reserve(storing.at[wanted | (storing.at < SYSTEM_BYTES)], size, shape[0])
        if self._used:
            self._write(storing, [array for array, _ in values], known, size)

    def _keeps_nothing(self, places: Array, size: int, taking: Array) -> bool:
        """Whether nothing is known from the first byte to the last of what threads store. Args: as of `store`."""
        at = np.broadcast_to(places, taking.shape)[taking]
        first, last = int(at.min()), int(at.max()) + size - 1
        return first >= SYSTEM_BYTES and bool((self._group[first // GROUP_BYTES : last // GROUP_BYTES + 1] < 0).all())

    def _write(self, storing: "_Storing", arrays: Sequence[Array], known: Sequence[Array], size: int) -> None:
        """Write what is known, and forget what is there where it is not."""
        unit = _unit(storing.at, size)
        contents, sure = self._bytes.view(f"u{unit}"), self._known.view(f"u{unit}")
        for offset in range(0, size, unit):
            array, flags = arrays[offset // WORD_BYTES], known[offset // WORD_BYTES]
            group = self._group[(storing.at + offset) // GROUP_BYTES]
            kept = slice(None) if (group >= 0).all() else np.flatnonzero(group >= 0)
            place = (group * (GROUP_BYTES // unit) + (storing.at + offset) % GROUP_BYTES // unit)[kept]
            rows = storing.rows if isinstance(storing.rows, slice) or storing.rows.ndim == 2 else storing.rows[kept]
            if flags.any():
                part = storing.of(array >> 8 * (offset % WORD_BYTES) & (1 << 8 * unit) - 1)
                contents[rows, place] = part[..., kept].astype(contents.dtype)
                sure[rows, place] = ALL[unit] * flags[..., kept].astype(sure.dtype)
            else:
                sure[rows, place] = 0

    def load(self, address: Value, size: int, mask: Array) -> list[Value]:
        """Words of 32 bits (or less) that threads load. Args: as of `store`."""
        places, sure = address
        count = max(1, size // WORD_BYTES)
        if sure is False or not np.any(mask & np.asarray(sure)):
            return [UNKNOWN] * count
        inside = np.asarray(sure) & (places >= 0) & (places + size <= MOST_BYTES)
        at = np.where(inside, places, 0)
        unit = _unit(at, size)
        contents, kept = self._bytes.view(f"u{unit}"), self._known.view(f"u{unit}")
        row = np.arange(len(contents)).reshape(-1, 1, 1) if len(contents) > 1 else 0
        words: list[Value] = []
        for word in range(count):
            number, known = np.zeros(SHAPE, dtype=np.int64), inside
            for offset in range(0, min(WORD_BYTES, size), unit):
                there = at + WORD_BYTES * word + offset
                group = self._group[there // GROUP_BYTES]
                stored = group >= 0
                cleared = ~stored & (there < SYSTEM_BYTES)
                if self._used:
                    place = group * (GROUP_BYTES // unit) + there % GROUP_BYTES // unit
                    part = np.where(stored, contents[row, place], 0).astype(np.int64)
                    known = known & (stored & (kept[row, place] == ALL[unit]) | cleared)
                    number = number | part << 8 * offset
                else:
                    known = known & cleared
            words.append((number, True if np.all(known | ~mask) else known))
        return words

    def _reserve(self, at: Array, size: int, ctas: int) -> None:
        """Make room for addresses, and rows for CTAs where there is any."""
        if len(at) + self._used and ctas > len(self._bytes):
            self._repeat(ctas)
        groups = np.concatenate([at // GROUP_BYTES, (at + size - 1) // GROUP_BYTES])
        new = np.unique(groups[self._group[groups] < 0])
        if not len(new):
            return
        self._group[new] = self._used + np.arange(len(new))
        self._used += len(new)
        if self._used * GROUP_BYTES > self._bytes.shape[1]:
            more = ((0, 0), (0, 2 * self._used * GROUP_BYTES - self._bytes.shape[1]))
            self._bytes, self._known = np.pad(self._bytes, more), np.pad(self._known, more)
        cleared = self._group[new[new < SYSTEM_BYTES // GROUP_BYTES]]
        self._known.reshape(len(self._known), -1, GROUP_BYTES)[:, cleared] = True

    def _repeat(self, ctas: int) -> None:
        """Rows of CTAs that have been alike so far."""
        self._bytes, self._known = np.repeat(self._bytes, ctas, axis=0), np.repeat(self._known, ctas, axis=0)


def _unit(at: Array, size: int) -> int:
    """Bytes that are moved at once: words, but where a thread moves less, or not where words lie."""
    return 1 if size % WORD_BYTES or (at % WORD_BYTES).any() else WORD_BYTES


@dataclass(frozen=True, slots=True)
class _Storing:
    """Threads that store.

    Args:
        at: where, int64 (threads,); rows: which CTA each is of, int64 (threads,); or the CTAs that all do so,
            int64 (CTAs, 1), or a slice; taking: bool (CTAs or 1, warps, lanes), who they are.
    """

    at: Array
    rows: Array | slice
    taking: Array

    def of(self, array: Array) -> Array:
        """What these threads have: (threads,), or (CTAs, threads) where CTAs that do alike have different things."""
        values: Array
        if len(self.taking) > 1 or array.shape[:1] in ((), (1,)):
            values = np.broadcast_to(array, self.taking.shape)[self.taking]
            return values
        chosen = array if isinstance(self.rows, slice) else array[self.rows[:, 0]]
        values = np.broadcast_to(chosen, (len(chosen), *self.taking.shape[1:]))[:, self.taking[0]]
        return values


def _storing(places: Array, taking: Array) -> _Storing:
    """Threads that store, where CTAs that do so at all do it alike as one. Args: taking: bool (CTAs, warps, lanes)."""
    rows: Array | slice = slice(None)
    if len(taking) > 1:
        ctas = np.flatnonzero(taking.any(axis=(1, 2)))
        if len(places) > 1 or (taking[ctas] != taking[ctas[:1]]).any():
            rows = np.nonzero(taking)[0]
        else:
            rows = rows if len(ctas) == len(taking) else ctas[:, None]
            taking = taking[ctas[:1]]
    return _Storing(np.broadcast_to(places, taking.shape)[taking], rows, taking)
