"""Nests of loops on the control paths of a CTA's warps, and what makes those of specialised warps go round together."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ..sass.flow import Flow
from .mixed_visits import ControlPath, LoopVisit, rolled

OUTSIDE = -1
"""The region of straight code outside of all others."""
Nest = Sequence[tuple[int, int, int, bool]]
"""As `loops_of` returns it."""


def loops_of(path: ControlPath) -> list[tuple[int, int, int, bool]]:
    """(loop, number of the one around it or -1, iterations in all, whether it holds none); an outer one comes first.

    Loops inside the same one are in the order in which its iterations visit them, also where some skip the first.
    """
    inside: dict[int, list[int]] = defaultdict(list)
    counts: Counter[int] = Counter()

    def walk(items: ControlPath, parent: int) -> None:
        visits = [item for item in items if isinstance(item, LoopVisit)]
        _merge(inside[parent], [visit.loop for visit in visits])
        for visit in visits:
            counts[visit.loop] += len(visit.iterations)
            for iteration in visit.iterations:
                walk(iteration, visit.loop)

    walk(path, OUTSIDE)
    nest: list[tuple[int, int, int, bool]] = []

    def number(loops: Sequence[int], around: int) -> None:
        for loop in loops:
            nest.append((loop, around, counts[loop], not inside[loop]))
            number(inside[loop], len(nest) - 1)

    number(inside[OUTSIDE], OUTSIDE)
    return nest


def loops_beside(flow: Flow, loops: frozenset[int]) -> frozenset[int]:
    """Loops inside the same ones as some; without those that hold none, which mostly wait for a barrier."""
    around, holding = {flow.loops[loop].parent for loop in loops}, {loop.parent for loop in flow.loops}
    return frozenset(n for n, loop in enumerate(flow.loops) if loop.parent in around and n in holding)


def visited_loops(path: ControlPath) -> Iterator[int]:
    """Loops that repeat somewhere on a path."""
    for item in path:
        if isinstance(item, LoopVisit):
            yield item.loop
            for iteration in item.iterations:
                yield from visited_loops(iteration)


def ends_otherwise(path: ControlPath) -> Iterator[int]:
    """Loops whose last iteration is unlike the first, what repeats inside apart."""
    for item in path:
        if isinstance(item, LoopVisit):
            first, last = (
                [part for part in item.iterations[end] if not isinstance(part, LoopVisit)] for end in (0, -1)
            )
            if first != last:
                yield item.loop


def share_most(kinds: Sequence[tuple[int, ...]]) -> bool:
    """Whether two kinds of iterations have more blocks in common than not."""
    return len(kinds) == 2 and 2 * len({*kinds[0]} & {*kinds[1]}) > len({*kinds[0]} | {*kinds[1]})


def executed_in(path: ControlPath, regions: Mapping[int, int], region: int) -> Iterator[tuple[int, int]]:
    """Blocks in order, each with its region.

    Args:
        regions: loop -> region.
        region: around the path.
    """
    for item in path:
        if isinstance(item, LoopVisit):
            for iteration in item.iterations:
                yield from executed_in(iteration, regions, regions[item.loop])
        else:
            yield item, region


def with_like_nests(warps: list[ControlPath]) -> tuple[list[ControlPath], dict[int, int]]:
    """Paths whose innermost loops that follow each other are one loop, until all paths have as many loops.

    One role loops over the tiles under a mask and then over the others, another over all of them.

    Returns:
        The paths, and loop -> the one that its iterations belong to.
    """
    nests = {path: loops_of(path) for path in dict.fromkeys(warps)}
    fewest = min(map(len, nests.values()))
    known, joined = {}, dict[int, int]()
    for path, nest in nests.items():
        whole = path
        while len(nest) > fewest:
            following = [
                (first, second)
                for (first, around, _, leaf), (second, other, _, innermost) in pairwise(nest)
                if around == other and leaf and innermost
            ]
            if not following:
                break
            first, second = following[0]
            whole = _as_one_loop(whole, first, second)
            joined[first] = second
            nest = loops_of(whole)
        known[path] = whole
    return [known[path] for path in warps], joined


def _as_one_loop(path: ControlPath, first: int, second: int) -> ControlPath:
    """A path on which a visit of a loop and the next one, of another, are one; what lies between ends the first."""
    items: list[int | LoopVisit] = []
    for item in path:
        if not isinstance(item, LoopVisit):
            items.append(item)
            continue
        iterations = tuple(_as_one_loop(iteration, first, second) for iteration in item.iterations)
        at = next((at for at in range(len(items) - 1, -1, -1) if isinstance(items[at], LoopVisit)), -1)
        before = items[at] if at >= 0 else None
        if item.loop == second and isinstance(before, LoopVisit) and before.loop == first:
            between = tuple(items[at + 1 :])
            del items[at:]
            iterations = (*before.iterations[:-1], (*before.iterations[-1], *between), *iterations)
        items.append(LoopVisit(item.loop, iterations))
    return tuple(items)


def most_visits(path: ControlPath) -> Counter[int]:
    """Loop -> how often it is visited at most, by the path or by an iteration of the loop around it."""
    visits = [item for item in path if isinstance(item, LoopVisit)]
    most = Counter(visit.loop for visit in visits)
    for body in dict.fromkeys(body for visit in visits for body in visit.iterations):
        most |= most_visits(body)
    return most


def side_by_side(warps: list[ControlPath], nests: Sequence[Nest]) -> tuple[list[ControlPath], frozenset[int]]:
    """Paths whose innermost loops go round together: a compiler unrolls that of one role, and not that of another.

    Returns:
        The paths, and the regions of which several iterations of some warps count as one.
    """
    times: list[dict[int, int]] = [{} for _ in warps]
    together: set[int] = set()
    for number, (_, _, _, leaf) in enumerate(nests[0]):
        least = min(nest[number][2] for nest in nests)
        for of_warp, nest in zip(times, nests, strict=True):
            loop, _, count, _ = nest[number]
            if leaf and count >= 2 * least and any(other[number][0] != loop for other in nests):
                of_warp[loop] = round(count / least)
                together.add(number)
    known = {path: rolled(path, of_warp) for path, of_warp in zip(warps, times, strict=True)}
    return [known[path] for path in warps], frozenset(together)


def _merge(order: list[int], visited: Sequence[int]) -> None:
    """Add loops to an order, each in front of the first one behind it that has a place."""
    for at, loop in enumerate(visited):
        if loop not in order:
            behind = next((other for other in visited[at:] if other in order), None)
            order.insert(len(order) if behind is None else order.index(behind), loop)
