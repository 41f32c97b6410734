"""Origins of a tile's pieces where no affine function gives them: gathered rows, pages, edges that each CTA has."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False, kw_only=True)
class Lists:
    """Lists of pieces, one for each execution of a tile's step, or one for each item.

    Args:
        spans: int64 (lists, 2): first piece of a list, and how many it has.
        pieces: int64 (pieces, 2): row and column (elements) of each, beyond the tile's own affine origin.
        at, until: variables: the lists of an item are those from `at` to before `until`; each is gone through as often.
        per: (counter, lists) pairs: what an iteration of a loop adds to `at`.
        shared: whether there is one list for all items and iterations, which the tile's own origin moves.
    """

    spans: np.ndarray
    pieces: np.ndarray
    at: str
    until: str
    per: tuple[tuple[str, int], ...] = ()
    shared: bool = False

    @cached_property
    def steps(self) -> tuple[int, int]:
        """Greatest common divisors of the pieces' rows and of their columns (elements); 0 where all are 0."""
        row, col = np.gcd.reduce(self.pieces, axis=0, initial=0).tolist()
        return row, col

    def place(self, variables: dict[str, int]) -> int:
        """Number of the list for some values of variables and counters."""
        return variables[self.at] + sum(variables[name] * coefficient for name, coefficient in self.per)

    def shortened(self, share: float) -> "Lists":
        """Lists of a share of their pieces, those that come first."""
        counts = np.minimum(self.spans[:, 1], np.maximum(1, np.rint(share * self.spans[:, 1])))
        return replace(self, spans=np.stack((self.spans[:, 0], counts.astype(np.int64)), axis=1))

    def counts(self, at: np.ndarray, until: np.ndarray) -> np.ndarray:
        """Pieces of all lists from one to before another, int64 of the shape of both."""
        total: np.ndarray = self._pieces_before[until] - self._pieces_before[at]
        return total

    @cached_property
    def _pieces_before(self) -> np.ndarray:
        """Pieces of all lists before one, int64 (lists + 1,)."""
        return np.concatenate(([0], np.cumsum(self.spans[:, 1])))
