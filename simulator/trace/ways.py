"""The ways of a CTA's warps through compiled code, and shorter or longer ones of the same kind for `core.sm` to walk.

In: the blocks that each warp really runs (`executions.paths`). Out: what repeats, as *regions*, and traces.
A region is a loop whose iterations are alike, those of specialised warps that run side by side being one region;
what the compiler has unrolled or peeled, or what a CTA runs once, is straight code, whatever its loops look like.
A trace with other trips leaves out iterations in the middle of a region, or repeats the one in its middle.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..sass.flow import Flow

OUTSIDE = -1
"""The region of straight code outside of all others."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A warp's stay in a loop. Args: loop: its number; iterations: blocks, and stays in loops inside, in order."""

    loop: int
    iterations: tuple[tuple["int | Visit", ...], ...]


Way = tuple["int | Visit", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """What repeats.

    Args:
        parent: region around it, or `OUTSIDE`; count: iterations that the CTA runs in all;
        leaf: whether there is none inside.
    """

    parent: int
    count: int
    leaf: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """Ways of a CTA's warps.

    Args:
        flow: the code; warps: way of each; regions: an outer one before those inside;
        region_of: per warp, loop -> region.
    """

    flow: Flow
    warps: tuple[Way, ...]
    regions: tuple[Region, ...]
    region_of: tuple[Mapping[int, int], ...]

    def executed(self, warp: int) -> Iterator[tuple[int, int]]:
        """All blocks that a warp runs, each with the region that it belongs to."""
        yield from _executed(self.warps[warp], self.region_of[warp], OUTSIDE)

    def first_regions(self) -> dict[int, int]:
        """Instruction -> region in which a warp runs it first."""
        found: dict[int, int] = {}
        for way in dict.fromkeys(self.warps):
            for number, region in dict.fromkeys(self.executed(self.warps.index(way))):
                block = self.flow.blocks[number]
                for place in range(block.first, block.stop):
                    found.setdefault(place, region)
        return found

    def traces(self, trips: Mapping[int, int]) -> tuple[np.ndarray, np.ndarray, Counter[int]]:
        """Stretches of code that the warps walk.

        Args:
            trips: region -> iterations of every stay there.

        Returns:
            int64 (stretches, 3): first instruction, one past the last, region that begins an iteration there or -1;
            int64 (warps, 2): which stretches a warp walks; region -> iterations of the first warp.
        """
        places: dict[tuple[tuple[int, int], ...], tuple[int, int]] = {}
        stretches: list[tuple[int, int, int]] = []
        roles = []
        for way, regions in zip(self.warps, self.region_of, strict=True):
            blocks = tuple(_cut(way, regions, trips))
            if blocks not in places:
                begin = len(stretches)
                stretches += _joined(self.flow, blocks)
                places[blocks] = begin, len(stretches)
            roles.append(places[blocks])
        first = Counter(mark for _, mark in _cut(self.warps[0], self.region_of[0], trips) if mark >= 0)
        return np.array(stretches, dtype=np.int64), np.array(roles, dtype=np.int64), first


def find_ways(flow: Flow, paths: Sequence[Sequence[int]]) -> Ways:
    """Regions of a CTA.

    Args:
        paths: per warp the blocks that it runs, in order.

    Raises:
        ValueError: loops of specialised warps do not run side by side; one line.
    """
    headers = {loop.header: number for number, loop in enumerate(flow.loops)}
    known: dict[tuple[int, ...], Way] = {}
    warps = []
    for path in paths:
        key = tuple(path)
        if key not in known:
            known[key] = _nested(key, flow, headers, frozenset())
        warps.append(known[key])
    nests = [_loops_of(way) for way in warps]
    shapes = {tuple((parent, leaf) for _, parent, _, leaf in nest) for nest in nests}
    if len(shapes) > 1:
        raise ValueError("loops of specialised warps do not run side by side")
    counts = [max(nest[number][2] for nest in nests) for number in range(len(nests[0]))]
    return Ways(
        flow=flow,
        warps=tuple(warps),
        regions=tuple(
            Region(parent=parent, count=count, leaf=leaf)
            for (_, parent, _, leaf), count in zip(nests[0], counts, strict=True)
        ),
        region_of=tuple({loop: number for number, (loop, *_) in enumerate(nest)} for nest in nests),
    )


def _nested(path: tuple[int, ...], flow: Flow, headers: Mapping[int, int], inside: frozenset[int]) -> Way:
    items: list[int | Visit] = []
    at = 0
    while at < len(path):
        loop = headers.get(path[at], -1)
        if loop < 0 or loop in inside:
            items.append(path[at])
            at += 1
            continue
        stop = at
        while stop < len(path) and path[stop] in flow.loops[loop].blocks:
            stop += 1
        header = flow.loops[loop].header
        begins = [place for place in range(at, stop) if path[place] == header]
        ends = [*begins[1:], stop]
        iterations = [
            _nested(path[begin:end], flow, headers, inside | {loop}) for begin, end in zip(begins, ends, strict=True)
        ]
        kinds = Counter(tuple(item.loop - len(headers) if isinstance(item, Visit) else item for item in one)
                        for one in iterations)  # fmt: skip
        if max(kinds.values()) > 1:
            items.append(Visit(loop, tuple(iterations)))
        else:
            items += [item for one in iterations for item in one]
        at = stop
    return tuple(items)


def _loops_of(way: Way) -> list[tuple[int, int, int, bool]]:
    """(loop, number of the one around it or -1, iterations in all, whether it holds none), by first stay."""
    order: dict[int, int] = {}
    parents: list[int] = []
    counts: Counter[int] = Counter()

    def walk(items: Way, parent: int) -> None:
        for item in items:
            if isinstance(item, Visit):
                if item.loop not in order:
                    order[item.loop] = len(order)
                    parents.append(parent)
                counts[item.loop] += len(item.iterations)
                for one in item.iterations:
                    walk(one, order[item.loop])

    walk(way, OUTSIDE)
    return [(loop, parents[number], counts[loop], number not in parents) for loop, number in order.items()]


def _executed(items: Way, regions: Mapping[int, int], region: int) -> Iterator[tuple[int, int]]:
    for item in items:
        if isinstance(item, Visit):
            for one in item.iterations:
                yield from _executed(one, regions, regions[item.loop])
        else:
            yield item, region


def _cut(items: Way, regions: Mapping[int, int], trips: Mapping[int, int], mark: int = -1) -> Iterator[tuple[int, int]]:
    """Blocks, each with the region that begins an iteration there, or -1."""
    for item in items:
        if not isinstance(item, Visit):
            yield item, mark
        else:
            region = regions[item.loop]
            for one in _chosen(item.iterations, trips.get(region, 1)):
                yield from _cut(one, regions, trips, region)
        mark = -1


def _chosen(iterations: tuple[Way, ...], count: int) -> Sequence[Way]:
    middle = len(iterations) // 2
    if count >= len(iterations):
        return [*iterations[:middle], *[iterations[middle]] * (count - len(iterations)), *iterations[middle:]]
    if count == 1:
        # The one that holds most: a loop inside may run no iteration in some.
        return [max(iterations, key=lambda one: sum(isinstance(item, Visit) for item in one))]
    return [*iterations[: (count + 1) // 2], *iterations[len(iterations) - count // 2 :]]


def _joined(flow: Flow, blocks: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    stretches: list[tuple[int, int, int]] = []
    for number, mark in blocks:
        block = flow.blocks[number]
        if stretches and mark < 0 and stretches[-1][1] == block.first:
            stretches[-1] = stretches[-1][0], block.stop, stretches[-1][2]
        else:
            stretches.append((block.first, block.stop, mark))
    return stretches
