"""What each region of the code takes an SM that is full of CTAs: the cycles after which it finishes another CTA's.

Of a loop this is measured while all CTAs run it: the reciprocal of their throughput. Of straight code it is what CTAs
that replace each other take beyond their loops, divided among regions as a lone CTA's time is; of loop-free code, the
cycles in which a CTA occupies the SM (its stalls excluded).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..core.sm.state import CONSTANTS, EXIT
from .machine import Machine, Run
from .single_cta import SETTLED, RegionCost

SHARED_TRIPS, SHORT_TRIPS = 24, 6
"""Iterations of a loop while all CTAs run it; of each CTA while CTAs replace each other."""
LONGER = (1, 2, 4)
"""Multiples of the former, tried in turn: where the youngest CTA hardly progresses, the oldest would be done before the
youngest has reached a steady rate."""
ROUNDS, STRAIGHT_ROUNDS = 4, 10
"""CTAs that a slot runs one after the other; the same of code without loops, of which nothing else is measured."""
APART = (0.4, 1.0, 1.6)
"""Spans over which the starts of a full SM's CTAs are spread, in iterations of a lone CTA: between 0.2 and 0.8 of one
from the first to the second of two. Two CTAs settle in phase or in antiphase, each with its own rate, and their starts
decide which; so rates are averaged over these spans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FullSm:
    """What regions take a full SM.

    Args:
        cycles: region -> cycles after which the SM finishes another CTA's execution of it.
        slowdown_by_age: innermost loop -> how many times as long as the mean an iteration takes each CTA, the oldest
            first; float64 (CTAs,).
        run: of CTAs that follow each other in every slot.
        trips: region -> iterations in that run.
    """

    cycles: dict[int, float]
    slowdown_by_age: dict[int, np.ndarray]
    run: Run
    trips: dict[int, int]


def measure_full_sm(
    machine: Machine, alone: Mapping[int, RegionCost], resident: int, hbm_extra_latency_cycles: float
) -> FullSm:
    """Run as many CTAs as share an SM: in each innermost loop together, and one after the other in every slot.

    Args:
        alone: region -> what it takes a lone CTA.
        resident: CTAs that share the SM.
        hbm_extra_latency_cycles: latency beyond an L2 hit of what loop-free code loads, whose CTAs wait together for
            most of their time.
    """
    regions = machine.paths.regions
    leaves = [number for number, region in enumerate(regions) if region.leaf]
    together = {number: _iteration_cycles(machine, alone, number, resident) for number in leaves}
    # Cycles from one iteration of any of its CTAs to the next.
    in_loops = {number: 1.0 / float(np.sum(1.0 / slots)) for number, slots in together.items()}
    trips = {number: region.few(SHORT_TRIPS) for number, region in enumerate(regions)}
    _, _, counts = machine.paths.traces(trips)
    inside = sum(counts[number] * cycles for number, cycles in in_loops.items())
    straight = sum(counts.get(number, 1) * cost.cycles for number, cost in alone.items() if number not in in_loops)
    expected = inside * resident + straight
    rounds, delayed = (ROUNDS, machine) if leaves else (STRAIGHT_ROUNDS, machine.delayed(hbm_extra_latency_cycles))
    run = delayed.run(trips, expected * np.arange(resident) / resident, rounds)
    ends = [run.times(slot, EXIT) for slot in range(resident)]
    between_ends = float(np.mean([(end[rounds - 1] - end[0]) / (rounds - 1) for end in ends]))
    lone = delayed.run(trips, np.zeros(1))
    if leaves:
        mean = (between_ends - machine.latencies.replacement) / resident - inside
    else:
        # While a CTA waits or starts, which the engine charges for, others use the SM.
        busy = max(1.0, between_ends - machine.latencies.replacement - (lone.end - straight))
        # No pipe of the engine is the cache of constants, which serves one CTA after the other.
        mean = max(busy / (1.0 + (resident - 1) * busy / between_ends), float(lone.used[CONSTANTS]))
    # A CTA occupies the SM no longer than it takes alone, until what it has stored has left.
    rest = min(max(mean, straight / resident), straight + lone.drain)
    scale = rest / straight if straight > 0 else 0.0
    return FullSm(
        cycles={number: in_loops.get(number, scale * cost.cycles) for number, cost in alone.items()},
        slowdown_by_age={number: slots / (resident * in_loops[number]) for number, slots in together.items()},
        run=run,
        trips=trips,
    )


def _iteration_cycles(machine: Machine, alone: Mapping[int, RegionCost], number: int, resident: int) -> np.ndarray:
    """Cycles per iteration of each CTA of a full SM while all of them run that region; the oldest first."""
    if resident == 1:
        return np.array([alone[number].cycles])
    place, cycles = 0, np.zeros(resident)
    trips = [longer * SHARED_TRIPS + resident for longer in LONGER]
    for apart in APART:
        offsets = alone[number].cycles * apart * np.arange(resident) / resident
        begins = _begins(machine, number, offsets, trips[place])
        # Fewer iterations go as these do until the oldest CTA is done with them: where they would do, they are run.
        fewer = next((less for less in range(place) if _together(begins, trips[less])[0]), place)
        if fewer < place:
            place, begins = fewer, _begins(machine, number, offsets, trips[fewer])
        while not _together(begins, trips[place])[0] and place + 1 < len(LONGER):
            place += 1
            begins = _begins(machine, number, offsets, trips[place])
        cycles += _together(begins, trips[place])[1] / len(APART)
    return cycles


def _begins(machine: Machine, number: int, offsets: np.ndarray, trips: int) -> list[np.ndarray]:
    """When each CTA begins each of the iterations of a region. Args: offsets: when CTAs start."""
    every = {other: SETTLED if region.leaf else region.least for other, region in enumerate(machine.paths.regions)}
    run = machine.run(every | {number: trips}, offsets, together=number)
    return [run.times(slot, number) for slot in range(len(offsets))]


def _together(begins: list[np.ndarray], trips: int) -> tuple[bool, np.ndarray]:
    """Whether all CTAs run a region together for long enough, in so many iterations; cycles per iteration of each."""
    begins = [times[:trips] for times in begins]
    longest = max(map(len, begins))
    settled = [times[SETTLED] if len(times) > SETTLED else np.inf for times in begins]
    start, stop = max(settled), min(times[-1] for times in begins if len(times) == longest)
    done = [np.interp((start, stop), times, range(len(times))) for times in begins]
    steady = bool(stop > start and max(last - first for first, last in done) >= SETTLED)
    if not steady:
        # The older CTAs fill the SM, and the youngest are starved until those have gone.
        start = min(settled)
        done = [np.interp((start, stop), times, range(len(times))) for times in begins]
    # A CTA that the older ones starve still counts as one iteration.
    return steady, max(stop - start, 1.0) / np.array([max(last - first, 1.0) for first, last in done])
