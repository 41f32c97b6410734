"""Which keys each query sees: an interval of keys a row, and what follows from it for tiles.

Every mask here is an interval [first, last) of keys for each query row, both ends never falling from row to row;
beside it some first keys (`always`), and of both what a matrix of blocks lets through (`blocks`).
Schedules ask for the key tiles that a query tile needs and for those that need no mask; kernels get `constants`.
A further mask is one more kind of interval in `visible`.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .pattern import NO_PATTERN, Pattern


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


class Seen(NamedTuple):
    """What a mask lets through, of one head. Args: scores; queries, keys: that see, or are seen by, any at all."""

    scores: int
    queries: int
    keys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """A mask of M queries and N keys, aligned to the last key: row i stands at key i + N - M.

    Args:
        causal: whether a row sees no key behind its own.
        window: keys that a row sees at most, the last ones up to its own; 0: all of them. Needs `causal`.
        pattern: what it has beyond both; with N keys and M queries that it goes with (`Pattern.check`).
    """

    causal: bool = False
    window: int = 0
    pattern: Pattern = NO_PATTERN

    @property
    def text(self) -> str:
        """In words, e.g. `causal`, `window 1024`, `no mask`, `prefix 512, causal`."""
        plain = f"window {self.window}" if self.window else "causal" if self.causal else ""
        return ", ".join(filter(None, (self.pattern.kind and self.pattern.text, plain))) or "no mask"

    @property
    def always(self) -> int:
        """First keys that a row sees beside its interval, those before the interval's end."""
        return self.pattern.keys if self.pattern.kind in ("prefix", "first") else 0

    @property
    def blocks(self) -> np.ndarray:
        """Which blocks of scores are let through: bool, (1, 1) where all are."""
        return np.array([[letter == "1" for letter in row] for row in self.pattern.blocks or ("1",)])

    def visible(self, rows: np.ndarray, m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The first key that each row sees, and the one after the last; equal where a row sees none.

        Args:
            rows: query rows, int64 of any shape; m, n: query and key length.
        """
        place, kind, keys = rows + n - m, self.pattern.kind, self.pattern.keys
        last = np.clip(place + 1, 0, n) if self.causal else np.full_like(rows, n)
        first = np.maximum(last - self.window, 0) if self.window else np.zeros_like(rows)
        if kind == "prefix":
            last = np.maximum(last, min(keys, n))
        elif kind == "band":
            first, last = np.clip(place - keys, 0, n), np.clip(place + keys + 1, 0, n)
        elif kind == "documents":
            edges = np.cumsum((0, *self.pattern.lengths))
            document = np.searchsorted(edges, rows, "right")
            first, last = np.maximum(first, edges[document - 1]), np.minimum(last, edges[document])
        # A window is counted from a row's own place, also where that lies before the first key.
        return np.minimum(first, last), last

    def seen(self, m: int, n: int) -> Seen:
        """What it lets through of M queries and N keys; of masks without a pattern all queries and keys count."""
        if self.pattern.kind:
            return _seen(self, m, n)
        return Seen(scores=self.visible_scores(m, n), queries=m, keys=n)

    def visible_scores(self, m: int, n: int) -> int:
        """Scores of one head that the mask lets through; it has no pattern."""
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
        """The key tiles that query tiles need, without a pattern. Args: q_tile: their numbers, int64 of shape (n,)."""
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


@lru_cache(maxsize=64)
def _seen(mask: Mask, m: int, n: int) -> Seen:
    """Counted from the intervals of all rows, one row of blocks at a time."""
    blocks = mask.blocks
    height, scores, queries, seen = m // len(blocks), 0, 0, np.zeros(n, bool)
    for number, row in enumerate(blocks):
        through = np.repeat(row, n // len(row))
        before = np.concatenate(([0], np.cumsum(through)))
        first, last = mask.visible(np.arange(number * height, (number + 1) * height), m, n)
        always = np.minimum(mask.always, first)
        counts = before[last] - before[first] + before[always]
        scores, queries = scores + int(counts.sum()), queries + int((counts > 0).sum())
        edges = np.bincount(first, minlength=n + 1) - np.bincount(last, minlength=n + 1)
        covered = np.cumsum(edges)[:n] > 0
        covered[: always.max()] = True
        seen |= covered & through
    return Seen(scores=scores, queries=queries, keys=int(seen.sum()))
