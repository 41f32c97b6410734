"""The control paths of a CTA's warps through compiled code, and the same paths with more or fewer iterations.

In: the blocks that each warp really runs (`trace.executions.paths`). Out: what repeats, as *regions*, and traces that
the simulated SM walks.
A region is a loop whose iterations are alike; loops of specialised warps that run side by side are one region.
What the compiler has unrolled or peeled, or what a CTA runs once, is straight code, whatever its loops look like.
A trace with fewer iterations leaves out some in the middle of a region, one with more repeats the one in its middle.
Where the visits of a loop repeat different code (`if` of the loop around it), a trace mixes their iterations in the
proportion in which the CTA runs them (`mixed_visits`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

import numpy as np

from ..refusal import CannotFollow
from ..sass.flow import Flow
from .mixed_visits import ControlPath, LoopVisit, in_any_iteration, mixtures
from .nests import (
    OUTSIDE,
    ends_otherwise,
    executed_in,
    loops_beside,
    loops_of,
    most_visits,
    share_most,
    side_by_side,
    visited_loops,
    with_like_nests,
)

MOST_UNROLLED = 2048
"""Blocks of a warp up to which loops may become straight code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """What repeats.

    Args:
        parent: region around it, or `OUTSIDE`.
        count: iterations that the CTA runs in all.
        leaf: whether there is none inside.
        period: iterations after which a mixture of them repeats; 1 where they are alike.
        least: iterations to run of what holds others: 2 where specialised warps pass on what the next one begins with,
            and the last has none.
        visits: of one iteration of what is around it, at most: several where loops between them are straight code.
    """

    parent: int
    count: int
    leaf: bool
    period: int = 1
    least: int = 1
    visits: int = 1

    @property
    def even(self) -> bool:
        """Whether CTAs that make more or fewer iterations of it do the same otherwise."""
        return self.period == 1 and self.visits == 1

    def few(self, iterations: int) -> int:
        """A number of iterations of an innermost loop, as few as can be of others."""
        return self.whole(iterations) if self.leaf else self.least

    def whole(self, iterations: int) -> int:
        """A number of iterations, or the next larger one that holds mixtures whole."""
        return -(-iterations // self.period) * self.period


@dataclass(frozen=True, slots=True, kw_only=True)
class CtaPaths:
    """Control paths of a CTA.

    Args:
        flow: the code.
        warps: path of each.
        regions: an outer one before those inside.
        region_of: per warp, loop -> region.
        mixtures: per warp, loop -> iterations that stand for all of its visits, where these differ.
        unrolled: whether loops are straight code, as roles have other nests of them.
        rolled: regions of whose loops one goes round several times for each time that another does.
        fewer: per warp, region -> iterations of a visit that others make, and it does before or behind the loop.
        joined: loop -> the one whose iterations its own are among, as other roles have one loop in place of both.
    """

    flow: Flow
    warps: tuple[ControlPath, ...]
    regions: tuple[Region, ...]
    region_of: tuple[Mapping[int, int], ...]
    mixtures: tuple[Mapping[int, tuple[ControlPath, ...]], ...]
    unrolled: bool = False
    rolled: frozenset[int] = frozenset()
    fewer: tuple[Mapping[int, int], ...] = ()
    joined: Mapping[int, int] = field(default_factory=dict)

    @property
    def specialised(self) -> bool:
        """Whether warps run loops of their own, side by side."""
        return len({tuple(regions) for regions in self.region_of}) > 1

    def parts(self, loop: int) -> list[int]:
        """Loops whose iterations are among those of another."""
        return [part for first, last in self.joined.items() if last == loop for part in (*self.parts(first), first)]

    def alike(self, other: "CtaPaths") -> bool:
        """Whether warps run the same blocks in the same loops, those of innermost ones however often."""
        return [*map(in_any_iteration, self.warps)] == [*map(in_any_iteration, other.warps)]

    def executed(self, warp: int) -> Iterator[tuple[int, int]]:
        """All blocks that a warp runs, each with the region that it belongs to."""
        yield from executed_in(self.warps[warp], self.region_of[warp], OUTSIDE)

    def first_regions(self) -> dict[int, int]:
        """Instruction -> region in which a warp runs it first."""
        regions: dict[int, int] = {}
        for path in dict.fromkeys(self.warps):
            for number, region in dict.fromkeys(self.executed(self.warps.index(path))):
                block = self.flow.blocks[number]
                for place in range(block.first, block.stop):
                    regions.setdefault(place, region)
        return regions

    def traces(self, trips: Mapping[int, int]) -> tuple[np.ndarray, np.ndarray, Counter[int]]:
        """Stretches of code that the warps walk.

        Args:
            trips: region -> iterations of every visit.

        Returns:
            int64 (stretches, 3): first instruction, one past the last, region that begins an iteration there or -1;
            int64 (warps, 2): which stretches a warp walks;
            region -> iterations of the first warp.
        """
        places: dict[tuple[tuple[int, int], ...], tuple[int, int]] = {}
        stretches: list[tuple[int, int, int]] = []
        roles = []
        for warp, (path, regions, mixed) in enumerate(zip(self.warps, self.region_of, self.mixtures, strict=True)):
            blocks = tuple(_with_trips(path, regions, self._of_warp(warp, trips), mixed))
            if blocks not in places:
                begin = len(stretches)
                stretches += _joined(self.flow, blocks)
                places[blocks] = begin, len(stretches)
            roles.append(places[blocks])
        of_first = _with_trips(self.warps[0], self.region_of[0], self._of_warp(0, trips), self.mixtures[0])
        first = Counter(mark for _, mark in of_first if mark >= 0)
        return np.array(stretches, dtype=np.int64), np.array(roles, dtype=np.int64), first

    def _of_warp(self, warp: int, trips: Mapping[int, int]) -> Mapping[int, int]:
        """Iterations of a warp, given those that others make."""
        fewer = self.fewer[warp] if self.fewer else {}
        return {region: max(0, count - fewer.get(region, 0)) for region, count in trips.items()}


def find_paths(flow: Flow, blocks: Sequence[Sequence[int]]) -> CtaPaths:
    """Paths and regions of a CTA.

    Args:
        blocks: per warp the blocks that it runs, in order.

    Raises:
        CannotFollow: loops of specialised warps do not run side by side; one line.
    """
    warps, joined, unrolled = _like_nests(flow, blocks)
    nests = [loops_of(path) for path in warps]
    warps, together = side_by_side(warps, nests)
    nests = [loops_of(path) for path in warps] if together else nests
    counts = [max(nest[number][2] for nest in nests) for number in range(len(nests[0]))]
    mixed = {path: mixtures(path) for path in dict.fromkeys(warps)}
    periods = [
        max(len(mixed[path].get(nest[number][0], (None,))) for path, nest in zip(warps, nests, strict=True))
        for number in range(len(nests[0]))
    ]
    region_of = tuple({loop: number for number, (loop, *_) in enumerate(nest)} for nest in nests)
    specialised = len({tuple(regions) for regions in region_of}) > 1
    ending = {loop for path in mixed for loop in ends_otherwise(path)} if specialised else set()
    visited = {path: most_visits(path) for path in mixed}
    visits = [
        max(visited[path][nest[number][0]] for path, nest in zip(warps, nests, strict=True))
        for number in range(len(nests[0]))
    ]
    leasts = [1 + any(nest[number][0] in ending for nest in nests) for number in range(len(nests[0]))]
    return CtaPaths(
        flow=flow,
        warps=tuple(warps),
        regions=tuple(
            Region(parent=parent, count=count, leaf=leaf, period=period, least=least, visits=of_loop)
            for (_, parent, _, leaf), count, period, least, of_loop in zip(
                nests[0], counts, periods, leasts, visits, strict=True
            )
        ),
        region_of=region_of,
        mixtures=tuple(mixed[path] for path in warps),
        unrolled=unrolled,
        rolled=together,
        joined=joined,
        fewer=tuple(
            {
                number: (counts[number] - nest[number][2]) // (counts[nest[number][1]] if nest[number][1] >= 0 else 1)
                for number in together
            }
            for nest in nests
        ),
    )


def _like_nests(flow: Flow, blocks: Sequence[Sequence[int]]) -> tuple[list[ControlPath], Mapping[int, int], bool]:
    """Paths on which all warps have the same nest of loops, if they can go round as often; else as `find_paths`.

    Returns:
        The paths; loop -> the one that its iterations belong to; whether all loops are straight code.
    """
    alike = []
    for warps, joined in _readings(flow, blocks):
        nests = [loops_of(path) for path in warps]
        if len({tuple((parent, leaf) for _, parent, _, leaf in nest) for nest in nests}) == 1:
            alike.append((warps, joined, False))
            if len({tuple(count for _, _, count, _ in nest) for nest in nests}) == 1:
                return alike[-1]
    if alike:
        return alike[0]
    if max(map(len, blocks)) > MOST_UNROLLED:
        raise CannotFollow("warps of a CTA run loops of different nesting (specialised warps): not modelled")
    # A compiler unrolls all of one role's loop, and not that of another: then all is straight code.
    return [tuple(run) for run in blocks], {}, True


def _readings(flow: Flow, blocks: Sequence[Sequence[int]]) -> Iterator[tuple[list[ControlPath], Mapping[int, int]]]:
    """What may count as loops on the paths of warps, the plainest first, and loops whose iterations are another's."""
    headers = {loop.header: number for number, loop in enumerate(flow.loops)}
    strictly = _paths_of(blocks, flow, headers)
    yield strictly, {}
    yield _paths_of(blocks, flow, headers, loosely=True), {}
    yield with_like_nests(strictly)
    yield with_like_nests(_paths_of(blocks, flow, headers, once=True))


def _paths_of(
    blocks: Sequence[Sequence[int]], flow: Flow, headers: Mapping[int, int], loosely: bool = False, once: bool = False
) -> list[ControlPath]:
    """The paths of warps.

    Args:
        headers, loosely: as of `_nested`.
        once: whether loops beside those that repeat are visits also where they run once.
    """
    known: dict[tuple[int, ...], ControlPath] = {}
    for key in map(tuple, blocks):
        if key not in known:
            path = _nested(key, flow, headers, frozenset(), frozenset(), loosely)
            if kept := frozenset(visited_loops(path)):
                path = _nested(
                    key, flow, headers, frozenset(), kept | (loops_beside(flow, kept) if once else kept), loosely
                )
            known[key] = path
    return [known[tuple(run)] for run in blocks]


def _nested(
    blocks: tuple[int, ...],
    flow: Flow,
    headers: Mapping[int, int],
    inside: frozenset[int],
    kept: frozenset[int],
    loosely: bool,
) -> ControlPath:
    """Blocks with the loops among them as visits.

    Args:
        headers: block -> loop that begins with it.
        inside: loops around all of the blocks.
        kept: loops that are visits also where they run once, as they repeat elsewhere on the path.
        loosely: whether iterations are alike that share most of their blocks: of two, the last has nothing to go on to.
    """
    path: list[int | LoopVisit] = []
    at = 0
    while at < len(blocks):
        loop = headers.get(blocks[at], -1)
        if loop < 0 or loop in inside:
            path.append(blocks[at])
            at += 1
            continue
        stop = at
        while stop < len(blocks) and blocks[stop] in flow.loops[loop].blocks:
            stop += 1
        header = flow.loops[loop].header
        begins = [place for place in range(at, stop) if blocks[place] == header]
        ends = [*begins[1:], stop]
        iterations = [
            _nested(blocks[begin:end], flow, headers, inside | {loop}, kept, loosely)
            for begin, end in zip(begins, ends, strict=True)
        ]
        kinds = Counter(
            tuple(item.loop - len(headers) if isinstance(item, LoopVisit) else item for item in iteration)
            for iteration in iterations
        )
        if max(kinds.values()) > 1 or loop in kept or (loosely and share_most([*kinds][:2])):
            path.append(LoopVisit(loop, tuple(iterations)))
        else:
            path += [item for iteration in iterations for item in iteration]
        at = stop
    return tuple(path)


def _with_trips(
    path: ControlPath,
    regions: Mapping[int, int],
    trips: Mapping[int, int],
    mixed: Mapping[int, tuple[ControlPath, ...]],
    mark: int = -1,
) -> Iterator[tuple[int, int]]:
    """Blocks of a path with other iterations, each with the region that begins an iteration there, or -1."""
    for item in path:
        if not isinstance(item, LoopVisit):
            yield item, mark
        else:
            region = regions[item.loop]
            count = trips.get(region, 1)
            mixture = mixed.get(item.loop, ())
            chosen = [*islice(cycle(mixture), count)] if mixture else _chosen(item.iterations, count)
            for iteration in chosen:
                yield from _with_trips(iteration, regions, trips, mixed, region)
        mark = -1


def _chosen(iterations: tuple[ControlPath, ...], count: int) -> Sequence[ControlPath]:
    """A number of iterations: the first and the last ones of a visit, the middle one repeated."""
    middle = len(iterations) // 2
    if count >= len(iterations):
        return [*iterations[:middle], *[iterations[middle]] * (count - len(iterations)), *iterations[middle:]]
    if count == 1:
        # The one that holds most: a loop inside may run no iteration in some.
        return [max(iterations, key=lambda iteration: sum(isinstance(item, LoopVisit) for item in iteration))]
    return [*iterations[: (count + 1) // 2], *iterations[len(iterations) - count // 2 :]]


def _joined(flow: Flow, blocks: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Stretches of blocks that follow each other in the code, cut where an iteration begins."""
    stretches: list[tuple[int, int, int]] = []
    for number, mark in blocks:
        block = flow.blocks[number]
        if stretches and mark < 0 and stretches[-1][1] == block.first:
            stretches[-1] = stretches[-1][0], block.stop, stretches[-1][2]
        else:
            stretches.append((block.first, block.stop, mark))
    return stretches
