"""Where in the loop nest of a CTA executions of blocks are."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .mixed_visits import ControlPath, LoopVisit
from .paths import CtaPaths

Iteration = tuple[int, ...]
"""Iteration vector: number of an iteration of each loop around, from 0, the outermost loop first."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where in the loop nest an execution of a block is.

    Args:
        region: innermost region around it, -1 outside of all; piece: regions inside this one that begin before it;
        iteration: of the regions around it; turn: how often the block was run in that iteration before, as where
            iterations of a loop are straight code.
    """

    region: int
    piece: int
    iteration: Iteration
    turn: int = 0


def positions_of(paths: CtaPaths, warp: int) -> Iterator[Position]:
    """Positions of all blocks that a warp runs, in order."""
    regions = paths.region_of[warp]
    children = children_of(paths)
    behind = _behind_loops(paths, warp)

    def walk(path: ControlPath, region: int, iteration: Iteration) -> Iterator[Position]:
        piece = 0
        begun: Counter[int] = Counter()
        turns: Counter[int] = Counter()
        for item in path:
            if not isinstance(item, LoopVisit):
                piece = max(piece, behind.get((region, item), 0))
                yield Position(region, piece, iteration, turns[item])
                turns[item] += 1
                continue
            inner = regions[item.loop]
            for number, body in enumerate(item.iterations, begun[inner]):
                yield from walk(body, inner, (*iteration, number))
            begun[inner] += len(item.iterations)
            piece = max(piece, children[region].index(inner) + 1)

    return walk(paths.warps[warp], -1, ())


def _behind_loops(paths: CtaPaths, warp: int) -> dict[tuple[int, int], int]:
    """Region and a block of its straight code -> regions inside that begin before it where all of them are run.

    So code behind a loop has its place in an iteration that skips the loop, too.
    """
    regions, children = paths.region_of[warp], children_of(paths)
    behind: dict[tuple[int, int], int] = {}

    def walk(path: ControlPath, region: int) -> None:
        visited = [regions[item.loop] for item in path if isinstance(item, LoopVisit)]
        piece = 0
        for item in path:
            if isinstance(item, LoopVisit):
                piece = max(piece, children[region].index(regions[item.loop]) + 1)
                for body in dict.fromkeys(item.iterations):
                    walk(body, regions[item.loop])
            elif len(set(visited)) == len(children[region]) > 0:
                behind[region, item] = min(piece, behind.get((region, item), piece))

    walk(paths.warps[warp], -1)
    return behind


def blocks_of(paths: CtaPaths, warp: int) -> Iterable[tuple[int, Position]]:
    """Blocks that a warp runs, in order, each with its position."""
    return zip((block for block, _ in paths.executed(warp)), positions_of(paths, warp), strict=True)


def children_of(paths: CtaPaths) -> dict[int, list[int]]:
    """Region, or -1 -> regions directly inside, in order."""
    children: dict[int, list[int]] = {number: [] for number in range(-1, len(paths.regions))}
    for number, region in enumerate(paths.regions):
        children[region.parent].append(number)
    return children
