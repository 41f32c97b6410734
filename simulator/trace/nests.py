"""Nests of loops on the control paths of a CTA's warps, and what makes those of specialised warps go round together."""

from collections import Counter, defaultdict
from collections.abc import Sequence

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
