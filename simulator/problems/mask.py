"""Which keys each query sees: an interval of keys a row, and what follows from it for tiles.

Every mask here is an interval [first, last) of keys for each query row, both ends never falling from row to row.
Schedules ask for the key tiles that a query tile needs and for those that need no mask; kernels get `constants`.
A further mask is one more kind of interval in `visible`.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class KeyTiles:
    """Key tiles of some query tiles, int64 of shape (n,) each; a query tile needs those from `first` to `end`.

    Args:
        first: the first that any of its rows sees; full_first: the first that all of its rows see whole;
        full_end: the one after the last such; end: the one after the last that any row sees.
            Where no tile is full, full_first = full_end = first; where none is needed, all four are equal.
    """

    first: np.ndarray
    full_first: np.ndarray
    full_end: np.ndarray
    end: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """A mask of M queries and N keys, aligned to the last key: row i stands at key i + N - M.

    Args:
        causal: whether a row sees no key behind its own.
        window: keys that a row sees at most, the last ones up to its own; 0: all of them. Needs `causal`.
    """

    causal: bool = False
    window: int = 0

    @property
    def text(self) -> str:
        """In words, e.g. `causal`, `window 1024`, `no mask`."""
        return f"window {self.window}" if self.window else "causal" if self.causal else "no mask"

    def visible(self, rows: np.ndarray, m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The first key that each row sees, and the one after the last; equal where a row sees none.

        Args:
            rows: query rows, int64 of any shape; m, n: query and key length.
        """
        if not self.causal:
            return np.zeros_like(rows), np.full_like(rows, n)
        last = np.clip(rows + 1 + n - m, 0, n)
        first = np.maximum(last - self.window, 0) if self.window else np.zeros_like(rows)
        # A window is counted from a row's own place, also where that lies before the first key.
        return np.minimum(first, last), last

    def visible_scores(self, m: int, n: int) -> int:
        """Scores of one head that the mask lets through."""
        if not self.causal:
            return m * n
        # Row i sees clamp(i + 1 + n - m, 0, n) keys, at most a window of them: an arithmetic series, then a constant.
        lowest, rows = max(1, n - m + 1), min(m, n)
        highest = lowest + rows - 1
        if not self.window or self.window >= highest:
            return rows * (lowest + highest) // 2
        if self.window <= lowest:
            return rows * self.window
        growing = self.window - lowest
        return growing * (lowest + self.window - 1) // 2 + (rows - growing) * self.window

    def key_tiles(self, q_tile: np.ndarray, block_m: int, block_n: int, m: int, n: int) -> KeyTiles:
        """The key tiles that query tiles need. Args: q_tile: their numbers, int64 of shape (n,)."""
        first_seen, end_full = self.visible(q_tile * block_m, m, n)
        first_full, end_seen = self.visible(q_tile * block_m + block_m - 1, m, n)
        if not self.window:
            # All rows begin with the same key: what the first row sees, all do.
            first_full = np.zeros_like(first_full)
            first_seen = np.zeros_like(first_seen)
        first = first_seen // block_n
        end = np.maximum(-(-end_seen // block_n), first)
        full_first = np.clip(-(-first_full // block_n), first, end)
        full_end = np.clip(end_full // block_n, first, end)
        none = full_end <= full_first
        return KeyTiles(
            first=first,
            full_first=np.where(none, first, full_first),
            full_end=np.where(none, first, full_end),
            end=end,
        )
