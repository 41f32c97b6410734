"""Bytes that a launch cannot but read from device memory, where nothing of them was in L2 before.

Counted from the tile program alone: distinct tiles of what it loads and does not store. Tiles that overlap others,
those of lists, and those of the last items of a large launch are left out, so it is a lower bound.
"""

import numpy as np

from ..launch.program import Launch, Loop, Tile
from ..launch.walk import steps

MOST_TILES = 1 << 16
"""Items, and tiles of a step, that are looked at: more take longer than all else that is checked of a launch."""


def compulsory_read_bytes(launch: Launch) -> int:
    """Distinct bytes of what a launch loads and does not store, or fewer [B]."""
    program = launch.program
    indices = np.arange(min(program.item_count, MOST_TILES), dtype=np.int64)
    columns = dict(zip(program.variables, program.items(indices).T, strict=True))
    stored = {tile.tensor for step, _ in steps(program.body) for tile in step.stores}
    least: dict[str, int] = {}
    for step, around in steps(program.body):
        for tile in step.loads:
            if tile.tensor not in stored and not tile.is_gathered:
                distinct = _distinct_bytes(launch, tile, around, columns)
                least[tile.tensor] = max(least.get(tile.tensor, 0), distinct)
    return sum(least.values())


def stored_bytes(launch: Launch, tensor: str) -> int:
    """Distinct bytes of a tensor that a launch stores or adds to, or fewer; all of it where they are listed [B]."""
    program = launch.program
    indices = np.arange(min(program.item_count, MOST_TILES), dtype=np.int64)
    columns = dict(zip(program.variables, program.items(indices).T, strict=True))
    stores = [(tile, around) for step, around in steps(program.body) for tile in step.stores if tile.tensor == tensor]
    if any(tile.is_gathered for tile, _ in stores):
        return program.tensor(tensor).size_bytes
    return max((_distinct_bytes(launch, tile, around, columns) for tile, around in stores), default=0)


def _distinct_bytes(launch: Launch, tile: Tile, around: tuple[Loop, ...], columns: dict[str, np.ndarray]) -> int:
    """Bytes of the tiles of one access that no other tile of it overlaps [B]. Args: columns: variables of the items."""
    tensor = launch.program.tensor(tile.tensor)
    values = _values(tile, around, columns)
    if not len(values[tile.slab]):
        return 0
    row, col = (
        np.sum([coefficient * values[name] for name, coefficient in axis], axis=0)
        if axis
        else np.zeros_like(values[tile.slab])
        for axis in (tile.row, tile.col)
    )
    # Tiles on one lattice do not overlap.
    apart = (row >= 0) & (col >= 0) & ((row - row[0]) % tile.rows == 0) & ((col - col[0]) % tile.cols == 0)
    origins = _distinct(np.stack([values[tile.slab], row, col], axis=1)[apart])
    rows = np.clip(tensor.rows - origins[:, 1], 0, tile.rows)
    cols = np.clip(tensor.cols - origins[:, 2], 0, tile.cols)
    return int((rows * cols).sum()) * tensor.element_bytes


def _values(tile: Tile, around: tuple[Loop, ...], columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the variables of a tile's origin are, each time that it is loaded; equal ones at most once an item."""
    counters = {loop.counter for loop in around}
    named = {tile.slab, *(name for name, _ in (*tile.row, *tile.col) if name not in counters)}
    named |= {value for loop in around for value in (loop.first, loop.step, loop.trips) if isinstance(value, str)}
    names = sorted(named - counters)
    table = _distinct(np.stack([columns[name] for name in names], axis=1))
    values = dict(zip(names, table.T, strict=True))
    moving = {name for name, _ in (*tile.row, *tile.col)}
    for loop in around:
        first, step, trips = (
            values[value] if isinstance(value, str) else np.full(len(table), value)
            for value in (loop.first, loop.step, loop.trips)
        )
        often = np.maximum(trips, 0) if loop.counter in moving else (trips > 0).astype(np.int64)
        often[np.cumsum(often) > MOST_TILES] = 0
        trip = np.arange(often.sum()) - np.repeat(np.cumsum(often) - often, often)
        counted = np.repeat(first, often) + np.repeat(step, often) * trip
        values = {name: np.repeat(value, often) for name, value in values.items()} | {loop.counter: counted}
        table = values[tile.slab]
    return values


def _distinct(rows: np.ndarray) -> np.ndarray:
    """Rows in order, once each: `numpy.unique` compares them byte by byte, which takes ten times as long."""
    ordered = rows[np.lexsort(rows.T[::-1])]
    new = (ordered[1:] != ordered[:-1]).any(axis=1)
    distinct: np.ndarray = ordered[np.concatenate([np.full(min(1, len(ordered)), True), new])]
    return distinct
