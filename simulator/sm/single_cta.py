"""What each region of the code takes a CTA that has the SM for itself, without the regions inside.

In: a machine. Out: cycles and figures of one execution of each region, and of the straight code around them.
They are what a run with more iterations of a region takes beyond one with fewer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..trace.nests import OUTSIDE
from .machine import Machine, Run

LONE_TRIPS, SETTLED = 8, 4
"""Iterations of a loop that are run first; until its rate has settled, and so many more are measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCost:
    """One execution of a region by a lone CTA, without the regions inside.

    Args:
        cycles: how long it takes [cycles].
        before: of them, until the first region inside begins [cycles].
        figures: as in `Run`.
    """

    cycles: float
    before: float
    figures: np.ndarray


def single_cta_costs(machine: Machine, more_trips: int = SETTLED) -> dict[int, RegionCost]:
    """What each region takes a lone CTA.

    Args:
        more_trips: iterations beyond the first ones that are measured.

    Returns:
        region -> its cost; `OUTSIDE` -> that of the straight code.
    """
    regions = machine.paths.regions
    base = {number: region.few(LONE_TRIPS) for number, region in enumerate(regions)}
    first = machine.run(base, np.zeros(1))
    costs: dict[int, RegionCost] = {}
    # Those inside come after the ones around them.
    for number in reversed(range(len(regions))):
        more = machine.run(base | {number: base[number] + regions[number].whole(more_trips)}, np.zeros(1))
        costs[number] = _beyond(more, first, costs, number, regions[number].leaf)
    costs[OUTSIDE] = _beyond(first, None, costs, OUTSIDE, not regions)
    return costs


def _beyond(more: Run, less: Run | None, inner: Mapping[int, RegionCost], number: int, leaf: bool) -> RegionCost:
    """What one run takes beyond another, and beyond what is inside, for one execution of a region.

    Args:
        more, less: runs with more and fewer iterations of the region; None: without any.
        inner: costs of the regions that are known already, among them those inside.
        number: of the region.
        leaf: whether there is none inside.
    """
    cycles, figures, counts = more.end, more.figures, dict(more.counts)
    if less:
        cycles, figures = cycles - less.end, figures - less.figures
        counts = {region: count - less.counts[region] for region, count in counts.items()}
    times = counts.get(number, 0) if number != OUTSIDE else 1
    for region, cost in inner.items():
        if region != number:
            cycles = cycles - counts.get(region, 0) * cost.cycles
            figures = figures - counts.get(region, 0) * cost.figures
    alone = max(0.0, cycles / times)
    before = alone
    if not leaf:
        begins = more.times(0, number)[-1] if number != OUTSIDE else 0.0
        inside = [time for region in inner for time in more.times(0, region) if time > begins]
        before = min(alone, min(inside, default=begins + alone) - begins)
    return RegionCost(cycles=alone, before=before, figures=np.maximum(figures / times, 0.0))
