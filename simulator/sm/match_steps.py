"""Which step of a tile program each part of compiled code belongs to, by how often both run.

Parts of the code are its straight code and its regions (`trace.paths`); one with others inside is cut in two where the
first of those begins. Parts in the order of the code, and steps in that of the program, are aligned so that they run
equally often (a dynamic program over both, whose cost is the logarithm of the ratio of executions):
a loop that the compiler has unrolled runs a fraction as often as its step, one that it has peeled a few times less.
Where a step of a loop runs so, no other step may have the loop's code: its executions would not grow with the loop's.
What comes after loops goes to the last step that runs as often; of loops that run equally often, each has its own.
One loop may stand for several steps of the program, and several parts for one step.
The cycles of all parts are attributed, whatever goes to which step: the sum is that of the code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, log

import numpy as np

from ..launch.program import Launch
from ..launch.walk import steps
from ..sass.constants import SHAPES
from ..trace.nests import OUTSIDE
from ..trace.paths import Region

ENOUGH = 24
"""Executions of a step from which on more of them make a CTA no better a sample."""
PEELED = 4
"""Iterations that the compiler may have taken out of a loop."""
UNROLLED = 8
"""Most copies of a loop's body that the compiler makes of it; ptxas makes four of short ones."""
SAME_STEPS_COST = 1e-4
"""What it costs a part to belong to the same steps as the one before: less than any difference of executions."""
MORE_STEPS_COST = 1e-3
"""What each step costs that a part belongs to: one is better than several that run as often together."""
LATER_STEP_COST = 1e-6
"""What each step costs that is passed over: of steps that run equally often, what comes first in the code belongs to
the first, what comes after loops to the last."""
LOST_LOOP_COST = 1e3
"""What it costs that a loop of the code belongs to steps outside of loops: more than any difference of executions."""
MOST_PER_CTA = 4
"""Items of a CTA of a persistent grid that are followed."""
MOST_ITEMS = 1 << 16
"""Items of a grid among which a typical CTA is searched; of a periodic grid, a period of it."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part of the code: a region, and whether it is what comes after the regions inside.

    Args:
        piece: which of the pieces that a region of a traced program is cut into.
    """

    region: int
    after: bool = False
    piece: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The steps that a part of the code belongs to.

    Args:
        steps: names.
        times: executions of the part for one of each of them.
        remainder: executions of the part in the CTA, less those of its steps; negative where the code of some steps
            stands in another part.
        portion: share of the region's cycles; None: the share in front of its inner regions, or behind them.
    """

    steps: tuple[str, ...]
    times: float
    remainder: float
    portion: float | None = None


def few_items(launch: Launch, constants: Mapping[int, int], capability: int) -> tuple[Launch, Mapping[int, int]]:
    """The launch, as if its grid were so wide that no CTA had many items: code runs the same for each of them.

    Args:
        constants: as in `program.Code`.
        capability: e.g. 90.
    """
    program = launch.program
    wide = -(-program.item_count // MOST_PER_CTA)
    if launch.cta_count >= min(wide, program.item_count):
        return launch, constants
    grid_at = next(grid for lowest, _, grid in SHAPES if capability >= lowest)
    return replace(launch, grid=(wide, 1, 1)), {**constants, grid_at: wide}


def find_cta(launch: Launch) -> tuple[int, dict[str, int]]:
    """A typical CTA: it runs as many kinds of steps as any, each often enough, and in all as few as possible.

    Returns:
        (its number, step name -> executions there).
    """
    program, ctas = launch.program, launch.cta_count
    items = min(program.period_items if program.item_count == ctas else program.item_count, max(MOST_ITEMS, ctas))
    columns = dict(zip(program.variables, program.items(np.arange(items, dtype=np.int64)).T, strict=True))
    counts = {}
    for step, around in steps(program.body):
        times = np.ones(items, dtype=np.int64)
        for loop in around:
            times *= columns[loop.trips] if isinstance(loop.trips, str) else loop.trips
        counts[step.name] = np.bincount(np.arange(items) % ctas, weights=times).astype(np.int64)
    table = np.array(list(counts.values()))
    informative = np.minimum(table, ENOUGH).sum(axis=0)
    good = np.flatnonzero(informative == informative.max())
    cta = int(good[np.argmin(table[:, good].sum(axis=0))])
    return cta, {name: int(times[cta]) for name, times in counts.items()}


def parts_of(regions: tuple[Region, ...]) -> list[tuple[Part, int]]:
    """Parts in their order, each with how often the CTA runs it."""

    def inside(number: int, count: int, leaf: bool) -> list[tuple[Part, int]]:
        parts = [(Part(number), count)]
        for inner, region in enumerate(regions):
            if region.parent == number:
                parts += inside(inner, region.count, region.leaf)
        return parts if leaf else [*parts, (Part(number, after=True), count)]

    return inside(OUTSIDE, 1, not regions)


def match_steps(launch: Launch, regions: tuple[Region, ...], executed: Mapping[str, int]) -> dict[Part, Attribution]:
    """The steps that each part belongs to.

    Args:
        executed: step name -> executions in the CTA whose regions these are.
    """
    named = [(step.name, bool(around)) for step, around in steps(launch.program.body) if executed[step.name]]
    totals = [0, *np.cumsum([executed[name] for name, _ in named]).tolist()]
    # A part belongs to one step, or to several in loops that follow each other.
    runs = [
        (first, stop)
        for first in range(len(named))
        for stop in range(first + 1, len(named) + 1)
        if stop == first + 1 or all(looped for _, looped in named[first:stop])
    ]
    parts = parts_of(regions)
    looped_totals = [executed[name] for name, looped in named if looped]
    costs = [
        [
            abs(log(count / (totals[stop] - totals[first])))
            + MORE_STEPS_COST * (stop - first)
            + LATER_STEP_COST * (len(named) - stop if part.after else first)
            for first, stop in runs
        ]
        for part, count in parts
    ]
    for (part, count), of_runs in zip(parts, costs, strict=True):
        if part.region != OUTSIDE and regions[part.region].leaf and any(_copies(count, of) for of in looped_totals):
            for number, (first, stop) in enumerate(runs):
                of_runs[number] += 0.0 if any(looped for _, looped in named[first:stop]) else LOST_LOOP_COST
    forward = [place for place, (part, _) in enumerate(parts) if not part.after]
    in_order = dict(zip(forward, _in_order([costs[place] for place in forward], runs), strict=True))
    # What comes after loops may have no step of its own there.
    chosen = [in_order.get(place, min(range(len(runs)), key=costs[place].__getitem__)) for place in range(len(parts))]
    attributions = {}
    for (part, count), number in zip(parts, chosen, strict=True):
        first, stop = runs[number]
        total = totals[stop] - totals[first]
        times, remainder = count / total, 0.0
        region = regions[part.region] if part.region != OUTSIDE else None
        if region and region.leaf:
            whole = 1.0 / max(1, round(total / count)) if total >= count else float(round(count / total))
            if abs(count - whole * total) <= PEELED:
                times, remainder = whole, count - whole * total
        names = tuple(name for name, _ in named[first:stop])
        attributions[part] = Attribution(steps=names, times=times, remainder=remainder)
    return attributions


def _copies(count: int, executions: int) -> int:
    """Copies of a step's code that a loop of `count` iterations holds; 0 where they do not make its executions."""
    copies = max(1, round(executions / count))
    # Peeled iterations are those of the step, not of its copies.
    return copies if copies <= UNROLLED and abs(copies * count - executions) <= PEELED * copies else 0


def _in_order(costs: list[list[float]], runs: list[tuple[int, int]]) -> list[int]:
    """One run for each part, in order, at least cost."""
    best = [[inf] * len(runs) for _ in costs]
    previous = [[-1] * len(runs) for _ in costs]
    best[0] = list(costs[0])
    for place, (_, now) in enumerate(pairwise(costs), start=1):
        for number, (first, stop) in enumerate(runs):
            for before, (other_first, other_stop) in enumerate(runs):
                cost = best[place - 1][before] + now[number] + SAME_STEPS_COST * (number == before)
                if other_first <= first and other_stop <= stop and cost < best[place][number]:
                    best[place][number] = cost
                    previous[place][number] = before
    number = min(range(len(runs)), key=best[-1].__getitem__)
    chosen = [number]
    for place in range(len(costs) - 1, 0, -1):
        number = previous[place][number]
        chosen.append(number)
    return chosen[::-1]
