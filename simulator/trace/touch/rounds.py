"""Rounds: the iterations of a loop in which a program runs a loop inside it, equally often in each.

The code's inner loop may run more often in one round than in another, or not at all (tiles of a causal mask, dealt to
persistent CTAs). A program's runs the mean, rounded up, in each round of a CTA, and once less in so many of the last
rounds that all together are as many as the code's.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...emulator.thread_values import Array
from ...sass.flow import Flow
from ..cta.cta_run import CtaRun
from ..mixed_visits import ControlPath, LoopVisit
from ..nests import OUTSIDE
from ..positions import Iteration
from .footprints import Runs

MOST_STRETCHES = 6
"""Stretches of equal iterations of a loop that become loops of their own; of more, each iteration is listed."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """Iterations of a region in which a program runs one inside it, as a followed CTA does.

    Args:
        count: iterations of that CTA; skipped: those in which it does not.
    """

    count: int
    skipped: frozenset[int]

    @property
    def from_ends(self) -> frozenset[int]:
        """Those that it skips, by their number from the nearer end: the last is -1."""
        return frozenset(number if 2 * number < self.count else number - self.count for number in self.skipped)

    def of(self, count: int) -> tuple[int, ...]:
        """Those of a CTA of that number of iterations: what is skipped at the end is there in every CTA."""
        behind = count - self.count
        skipped = {number + behind if 2 * number >= self.count else number for number in self.skipped}
        return tuple(number for number in range(count) if number not in skipped)


def rounds_of(run: CtaRun) -> dict[int, Rounds]:
    """Region inside another -> its rounds.

    None are skipped where the CTA skips some here and there, as a program has a loop for each stretch of like ones.
    """
    entered: dict[int, set[int]] = {}
    counts: dict[int, int] = {}
    for position in run.positions:
        if len(position.iteration) > 1:
            entered.setdefault(position.region, set()).add(position.iteration[-2])
        if position.iteration:
            counts[position.region] = max(counts.get(position.region, 0), position.iteration[-1] + 1)
    rounds: dict[int, Rounds] = {}
    for region, numbers in entered.items():
        count = counts[run.paths.regions[region].parent]
        changes = sum((number in numbers) != (number - 1 in numbers) for number in range(1, count))
        skipped = frozenset(range(count)) - numbers if changes < MOST_STRETCHES else frozenset()
        if run.paths.specialised:
            skipped = frozenset()  # each CTA's copies are dealt out to the iterations that it makes
        rounds[region] = Rounds(count=count, skipped=skipped)
    return rounds


def shape_of(run: CtaRun) -> tuple[object, ...]:
    """The nest of regions of a CTA, in which rounds it does not enter them, and where they lie among straight code."""
    rounds = rounds_of(run)
    return (
        tuple((region.parent, region.leaf) for region in run.paths.regions),
        tuple((number, rounds[number].from_ends) for number in sorted(rounds)),
        tuple(
            tuple(-1 - item.loop if isinstance(item, LoopVisit) else item for item in path) for path in run.paths.warps
        ),
    )


@dataclass(frozen=True, slots=True)
class Trips:
    """Iterations of a region in all CTAs.

    Args:
        per_round: in each round, int64 (CTAs,); shorter: rounds with one iteration less, at the end, int64 (CTAs,).
    """

    per_round: Array
    shorter: Array

    @property
    def arrays(self) -> tuple[Array, Array]:
        """Both."""
        return self.per_round, self.shorter

    def equals(self, other: "Trips") -> bool:
        """Whether all CTAs make the same."""
        return all(map(np.array_equal, self.arrays, other.arrays))


def together(parts: Sequence[Trips]) -> Trips:
    """Those of some CTAs, and then of others."""
    per_round, shorter = map(np.concatenate, zip(*(part.arrays for part in parts), strict=True))
    return Trips(per_round=per_round, shorter=shorter)


def trips_of(flow: Flow, run: CtaRun, counts: Array) -> dict[int, Trips]:
    """Region -> its iterations.

    Args:
        run: a CTA; counts: executions of each block, int64 (CTAs, blocks).
    """
    totals = _totals(flow, run, counts)
    visits, trips = _visits_of(run, totals, len(counts)), dict[int, Trips]()
    for number in range(len(run.paths.regions)):
        per_round = np.where(visits[number] > 0, -(-totals[number] // np.maximum(visits[number], 1)), 0)
        trips[number] = Trips(per_round=per_round, shorter=per_round * visits[number] - totals[number])
    return trips


def _totals(flow: Flow, run: CtaRun, counts: Array) -> dict[int, Array]:
    """Region -> its iterations in all rounds of each CTA, int64 (CTAs,)."""
    totals: dict[int, Array] = {}
    for regions in run.paths.region_of:
        for loop, number in regions.items():
            parts = [loop, *run.paths.parts(loop)]
            executed = counts[:, [flow.loops[part].header for part in parts]].sum(axis=1)
            fewest = np.minimum(totals.get(number, executed), executed) if number in run.paths.rolled else executed
            totals[number] = fewest if number in run.paths.rolled else totals.get(number, executed)
    return totals


def shared_out(flow: Flow, run: CtaRun, counts: Array) -> frozenset[int]:
    """Regions of loops that count as one, of which CTAs run others than the last unequally often; as `trips_of`."""
    return frozenset(
        number
        for regions in run.paths.region_of
        for loop, number in regions.items()
        for first in run.paths.parts(loop)
        if np.ptp(counts[:, flow.loops[first].header])
    )


def more_visits(flow: Flow, run: CtaRun, counts: Array) -> Array:
    """How often CTAs enter loops more often than where a followed one does: int64 (CTAs, loops); 0: as that one does.

    Of loops inside loops that one block leads to, and of which its rounds say how often it enters them.
    """
    totals = _totals(flow, run, counts)
    visits = _visits_of(run, totals, len(counts))
    before: dict[int, set[int]] = defaultdict(set)
    for path, regions in zip(run.paths.warps, run.paths.region_of, strict=True):
        for region, block in _entries(path, regions):
            before[region].add(block)
    more = [
        counts[:, block] - visits[region]
        for region, (block, *others) in before.items()
        if not others and run.paths.regions[region].parent != OUTSIDE
    ]
    return np.stack(more, axis=1) if more else np.zeros((len(counts), 0), dtype=np.int64)


def _entries(path: ControlPath, regions: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Regions that a path enters, each with the block before."""
    for before, item in pairwise((-1, *path)):
        if isinstance(item, LoopVisit):
            if isinstance(before, int) and before >= 0:
                yield regions[item.loop], before
            for body in item.iterations:
                yield from _entries(body, regions)


def _visits_of(run: CtaRun, totals: Mapping[int, Array], ctas: int) -> dict[int, Array]:
    """Region -> how often CTAs enter it by the rounds of a followed one. Args: totals: region -> its iterations."""
    rounds = rounds_of(run)
    visits: dict[int, Array] = {OUTSIDE: np.ones(ctas, dtype=np.int64)}
    for number, region in enumerate(run.paths.regions):
        around = totals.get(region.parent, visits[OUTSIDE])
        skipped = len(rounds[number].skipped) if number in rounds else 0
        visits[number] = np.maximum(around - skipped * visits[region.parent], np.minimum(around, 1))
    return visits


def program_places(
    regions: Sequence[int], counts: Mapping[int, int], rounds: Mapping[int, Rounds], total: int
) -> list[Iteration]:
    """Iterations of a loop that a program makes in a CTA, in order.

    Args:
        regions: it, and before it those around, the outermost first; counts: region -> iterations in each round;
        rounds: as `rounds_of`; total: iterations of it that the code makes.
    """
    places: list[Iteration] = [(number,) for number in range(counts[regions[0]])]
    for outer, inner in pairwise(regions):
        entered = rounds[inner].of(counts[outer])
        around = [at for at in places if at[-1] in entered]
        shorter = len(around) * counts[inner] - total if len(regions) == 2 else 0
        longer = len(around) - shorter
        places = [(*at, number) for rank, at in enumerate(around) for number in range(counts[inner] - (rank >= longer))]
    return places


def deal_out(
    every: Sequence[Iteration], places: Set[Iteration], sizes: Sequence[int], entered: Sequence[int]
) -> dict[Iteration, Iteration]:
    """Place in the nest of a program -> iteration of the code that is made there, where rounds are not of one length.

    Iterations are dealt out to the places in order, so that none is lost. What is left of places, which CTAs with
    longer rounds come to, repeats the last one.

    Args:
        every: iterations of the code, in order; places: as `program_places`; sizes: iterations of each loop;
        entered: iterations of the loop around that enter the innermost one.
    """
    left, made, latest = iter(every), dict[Iteration, Iteration](), every[0]
    for place in np.ndindex(*sizes):
        if len(place) > 1 and place[-2] not in entered:
            continue
        if place in places:
            latest = next(left, latest)
        made[place] = latest
    return made


def rounds_are_alike(runs_at: Mapping[Iteration, Runs]) -> bool:
    """Whether the innermost loop touches the same in each iteration of the outer loops."""
    rounds: dict[Iteration, list[tuple[int, Runs]]] = defaultdict(list)
    for at in sorted(runs_at):
        if at:
            rounds[at[:-1]].append((at[-1], runs_at[at]))
    first = next(iter(rounds.values()), [])
    return all(others == first for others in rounds.values())


def stretches_of(runs_at: Mapping[Iteration, Runs], depth: int) -> list[tuple[int, int, Runs]]:
    """Stretches of iterations of the innermost loop that touch the same: first, one past the last, runs."""
    if depth == 0:
        return [(0, -1, next(iter(runs_at.values())))]
    inner: dict[int, Runs] = {}
    for at in sorted(runs_at):
        inner.setdefault(at[-1], runs_at[at])
    stretches: list[tuple[int, int, Runs]] = []
    for number, runs in sorted(inner.items()):
        if stretches and stretches[-1][1] == number and stretches[-1][2] == runs:
            stretches[-1] = stretches[-1][0], number + 1, runs
        else:
            stretches.append((number, number + 1, runs))
    return stretches
