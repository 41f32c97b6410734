"""CTAs that run the same basic blocks, and the CTA among them that was followed with all of its threads."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..values import Array
from .cta_run import CtaRun


@dataclass(frozen=True, slots=True)
class CtaGroup:
    """CTAs whose warps take the control paths of one CTA, with trip counts of their own.

    Args:
        representative: what that CTA did; ctas: numbers in the grid, int64 (CTAs,), rising;
        trips: region -> trip count of each visit, int64 (CTAs,).
    """

    representative: CtaRun
    ctas: Array
    trips: Mapping[int, Array]

    def __len__(self) -> int:
        """CTAs."""
        return len(self.ctas)

    @property
    def rank(self) -> int:
        """Index of the representative among the CTAs, which have to include it."""
        return int(np.searchsorted(self.ctas, self.representative.cta))

    @property
    def representative_trips(self) -> dict[int, int]:
        """Region -> trip count of each visit in the representative."""
        return {region: int(counts[self.rank]) for region, counts in self.trips.items()}

    @property
    def all_regions(self) -> frozenset[int]:
        """Regions of the control paths."""
        return frozenset(range(len(self.representative.paths.regions)))

    def subset(self, ranks: Array | slice) -> "CtaGroup":
        """Some of the CTAs, with the same representative. Args: ranks: indices of the CTAs in the group."""
        trips = {region: counts[ranks] for region, counts in self.trips.items()}
        return CtaGroup(self.representative, self.ctas[ranks], trips)
