"""Shared memory: what the threads of a CTA have left there for each other, byte by byte, where it is known.

Copies arrive at once: code waits for them before it reads. Nothing else is known than what was stored, but that the
system's own part is cleared when a CTA starts.
"""

from collections.abc import Sequence

import numpy as np

from .values import SHAPE, UNKNOWN, Array, Value

SYSTEM_BYTES = 0x400
"""Shared memory that the system keeps for itself, cleared when a CTA starts."""
MOST_BYTES = 1 << 18
"""More than an SM has of shared memory [B]; addresses beyond it name nothing."""


class SharedMemory:
    """Bytes that CTAs have stored, and which of them are known; a column for each address that was stored to."""

    def __init__(self) -> None:
        self._column = np.full(MOST_BYTES, -1, dtype=np.int64)
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
        arrays = [array for word in words for array in (word[0], np.asarray(word[1])) if array.ndim == 3]
        shape = np.broadcast_shapes(places.shape, mask.shape, *(array.shape for array in arrays))
        taking = np.broadcast_to(mask & (places >= 0) & (places + size <= MOST_BYTES), shape)
        if not taking.any():
            return
        cta = np.nonzero(taking)[0]
        chosen = np.broadcast_to(places, shape)[taking]
        self._reserve(chosen, size, shape[0])
        rows: Array | slice = cta if shape[0] > 1 else slice(None)
        for offset in range(size):
            columns = self._column[chosen + offset]
            array, known = words[offset // 4] if offset // 4 < len(words) else UNKNOWN
            byte = (np.broadcast_to(array, shape)[taking] >> 8 * (offset % 4) & 255).astype(np.uint8)
            self._bytes[rows, columns] = byte
            self._known[rows, columns] = np.broadcast_to(known, shape)[taking]

    def load(self, address: Value, size: int, mask: Array) -> list[Value]:
        """Words of 32 bits (or less) that threads load. Args: as of `store`."""
        places, sure = address
        count = max(1, size // 4)
        if sure is False or not np.any(mask & np.asarray(sure)):
            return [UNKNOWN] * count
        inside = np.asarray(sure) & (places >= 0) & (places + size <= MOST_BYTES)
        at = np.where(inside, places, 0)
        ctas = len(self._bytes)
        row = np.arange(ctas).reshape(-1, 1, 1) if ctas > 1 else 0
        words: list[Value] = []
        for word in range(count):
            number, known = np.zeros(SHAPE, dtype=np.int64), inside
            for offset in range(min(4, size)):
                columns = self._column[at + 4 * word + offset]
                stored = columns >= 0
                cleared = ~stored & (at + 4 * word + offset < SYSTEM_BYTES)
                if self._used:
                    byte = np.where(stored, self._bytes[row, columns], 0).astype(np.int64)
                    known = known & (stored & self._known[row, columns] | cleared)
                    number = number | byte << 8 * offset
                else:
                    known = known & cleared
            words.append((number, True if np.all(known | ~mask) else known))
        return words

    def _reserve(self, places: Array, size: int, ctas: int) -> None:
        """Make columns for addresses, and rows for CTAs."""
        if ctas > len(self._bytes):
            self._bytes = np.repeat(self._bytes, ctas, axis=0)
            self._known = np.repeat(self._known, ctas, axis=0)
        wanted = np.unique(places)
        wanted = np.unique(wanted[:, None] + np.arange(size))
        new = wanted[self._column[wanted] < 0]
        if not len(new):
            return
        self._column[new] = self._used + np.arange(len(new))
        self._used += len(new)
        if self._used > self._bytes.shape[1]:
            more = ((0, 0), (0, 2 * self._used - self._bytes.shape[1]))
            self._bytes, self._known = np.pad(self._bytes, more), np.pad(self._known, more)
