"""Loops that all CTAs go through as often, but that mask accesses from some iteration on: groups of unlike length.

Where the CTA that was followed does so, all iterations of the loop are looked at in all CTAs, to tell them apart.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping

from ..cta.one_cta import OneCta
from ..values import Array

MOST_ITERATIONS = 1 << 21
"""Iterations of a loop in all CTAs together that are looked at."""


def masked_midway(one: OneCta, trips: Mapping[int, Array], tail: int) -> dict[int, int]:
    """Place of an access -> region, where the threads that take part change between the ends of the loop.

    Args:
        one: the CTA that was followed; trips: region -> iterations of a stay in each CTA of the class, int64 (CTAs,);
        tail: iterations at the end of a loop that may be masked anyway, as copies that run ahead are.
    """
    lanes: dict[tuple[int, int, tuple[int, ...]], Counter[int]] = defaultdict(Counter)
    for access in one.accesses:
        position = one.positions[access.visit]
        if position.trips and _as_often(trips[position.region]):
            stay = access.place, position.region, position.trips[:-1]
            lanes[stay][position.trips[-1]] += int(access.active.sum())
    return {
        place: region
        for (place, region, _), counts in lanes.items()
        if _changes(counts, 1, int(trips[region][0]) - tail)
    }


def _as_often(trips: Array) -> bool:
    return bool(trips.min() == trips.max()) and int(trips[0]) * len(trips) <= MOST_ITERATIONS


def _changes(counts: Counter[int], first: int, stop: int) -> bool:
    return any(counts[at] != counts[first] for at in range(first, stop))
