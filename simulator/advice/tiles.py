"""Programs whose tiles are otherwise: smaller, or not loaded at all.

In: a launch, and what becomes of each tile. Out: the launch.
"""

from collections.abc import Callable
from dataclasses import replace

from ..launch.program import Launch, Loop, Step, Tile

TileChange = Callable[[Tile], Tile | None]
"""A tile -> what it is instead; None: nothing."""


def with_tiles(launch: Launch, change: TileChange) -> Launch:
    """A launch whose tiles are others, those that atomics give back aside."""
    return replace(launch, program=replace(launch.program, body=_changed(launch.program.body, change)))


def _changed(body: tuple[Step | Loop, ...], change: TileChange) -> tuple[Step | Loop, ...]:
    def those(tiles: tuple[Tile, ...]) -> tuple[Tile, ...]:
        changed = (tile if tile.path == "atomic" else change(tile) for tile in tiles)
        return tuple(tile for tile in changed if tile is not None)

    return tuple(
        replace(node, body=_changed(node.body, change))
        if isinstance(node, Loop)
        else replace(node, loads=those(node.loads), stores=those(node.stores))
        for node in body
    )
