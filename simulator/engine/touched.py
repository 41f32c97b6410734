"""Distinct bytes that a launch loads of its tensors, each byte once: exact, from the area that its tiles cover.

Heads are alike: every slab of a tensor is loaded in the same places, so one slab of each is looked at.
"""

from typing import Any

import numpy as np

from ..launch.lists import Lists
from ..launch.program import Affine, Loop, Tile, TileProgram
from ..launch.walk import ITEMS_AT_ONCE, steps, value_of
from ..limits import SECTOR_BYTES
from .lower import LoweredTensors

MOST_ITEMS = 1 << 22
"""Items among which those of a slab are looked for: the first so many hold all of at least one."""
MOST_RECTANGLES = 1 << 24
"""Rectangles of a launch that are looked at, for the sake of memory: 32 B each, and as much again to sort them."""
DENSE = 4
"""Numbers are told apart by a table, not by sorting, where it is at most so many times as long as there are of them."""
PIECES_AT_ONCE = 1 << 18
"""Listed pieces that are looked at at a time, for the sake of memory."""
CELLS_AT_ONCE = 1 << 20
"""Cells between edges of what is loaded that are weighed at a time, for the sake of memory."""


def touched_bytes(program: TileProgram, tensors: LoweredTensors) -> int:
    """Bytes that a launch loads of its inputs, each granule once, as the engine counts them [B].

    What it stores first is not for it to fetch. 0 where they are too many items or rectangles to look at.
    """
    inputs = {tensor.name for tensor in program.tensors if tensor.role == "input"}
    stored = {tile.tensor for step, _ in steps(program.body) for tile in step.stores} - inputs
    loads: dict[str, list[tuple[Tile, tuple[Loop, ...]]]] = {}
    for step, around in steps(program.body):
        for tile in (tile for tile in step.loads if tile.tensor not in stored):
            loads.setdefault(tile.tensor, []).append((tile, around))
    if program.item_count > MOST_ITEMS and any(program.tensor(name).slabs == 1 for name in loads):
        return 0  # the first items do not hold all of a tensor's only slab
    covered = {name: Slab(tensors.table[tensors.index[name]]) for name in loads}
    listed = _Listed()
    first = program.items(np.zeros(1, dtype=np.int64))[0]
    slab_of = dict(zip(program.variables, first.tolist(), strict=True))
    for begin in range(0, min(program.item_count, MOST_ITEMS), ITEMS_AT_ONCE):
        table = program.items(np.arange(begin, min(begin + ITEMS_AT_ONCE, program.item_count), dtype=np.int64))
        columns = dict(zip(program.variables, table.T, strict=True))
        for name, tiles in loads.items():
            for tile, around in tiles:
                chosen = np.flatnonzero(_runs(around, columns) & (columns[tile.slab] == slab_of[tile.slab]))
                chosen = listed.new(tile, chosen, columns)
                pieces = len(chosen)
                if tile.lists is not None:
                    pieces = int(
                        tile.lists.counts(columns[tile.lists.at][chosen], columns[tile.lists.until][chosen]).sum()
                    )
                if pieces + sum(slab.rectangles for slab in covered.values()) > MOST_RECTANGLES:
                    return 0
                for some in np.array_split(chosen, 1 + pieces // PIECES_AT_ONCE) if pieces else ():
                    values = {key: columns[key][some] for key in _names(tile, around) & columns.keys()}
                    size = program.tensor(name).element_bytes
                    rows = _reach(tile.row, tile.rows, 1, around, values)
                    cols = _reach(tile.col, tile.cols, size, around, values)
                    if tile.lists is not None:
                        rows, cols = _listed(tile.lists, values, rows, cols, size)
                    covered[name].add(*rows, *cols)
    return sum(slab.loaded_bytes() * program.tensor(name).slabs for name, slab in covered.items())


class _Listed:
    """Lists that have been looked at: many items may share theirs."""

    def __init__(self) -> None:
        self._until: dict[int, np.ndarray] = {}  # of a tile: one past the last list that was looked at from each on

    def new(self, tile: Tile, chosen: np.ndarray, columns: dict[str, np.ndarray]) -> np.ndarray:
        """Chosen items whose lists of a tile none before them had; all of them, where more says where it lies."""
        lists = tile.lists
        if lists is None or not {name for name, _ in (*tile.row, *tile.col)}.isdisjoint(columns):
            return chosen
        until = self._until.setdefault(id(tile), np.zeros(len(lists.spans) + 1, dtype=np.int64))
        begins, ends = columns[lists.at][chosen], columns[lists.until][chosen]
        _, places = np.unique(begins * len(until) + ends, return_index=True)
        places = np.sort(places[ends[places] > until[begins[places]]])
        np.maximum.at(until, begins, ends)
        return chosen[places]


def _runs(around: tuple[Loop, ...], columns: dict[str, np.ndarray]) -> np.ndarray:
    """Whether loops have trips, for each item or for all: what others have of its variables nobody reads."""
    runs = np.ones(1, dtype=np.bool_)
    for loop in around:
        runs = runs & ((columns[loop.trips] if isinstance(loop.trips, str) else np.array([loop.trips])) > 0)
    return runs


def _names(tile: Tile, around: tuple[Loop, ...]) -> set[str]:
    """Variables and counters that say where a tile lies, and how often."""
    lists = () if tile.lists is None else (tile.lists.at, tile.lists.until)
    lengths = (value for loop in around for value in (loop.trips, loop.first, loop.step) if isinstance(value, str))
    return {tile.slab, *lists, *lengths, *(name for name, _ in (*tile.row, *tile.col))}


class Slab:
    """What is loaded of one slab, as rectangles of granules. Args: row: of the table of tensors."""

    def __init__(self, row: np.void) -> None:
        self.row = row
        self.high, self.wide = int(row["granule_rows"]), int(row["granule_row_bytes"])
        self.rectangles = 0
        self._boxes = [np.zeros((4, 0), dtype=np.int64)]

    def add(self, top: np.ndarray, bottom: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
        """Rectangles from (top, left) to before (bottom, right), rows and bytes of a row."""
        bytes_of_row, rows = self.row["row_bytes"], self.row["rows"]
        inside = np.stack((*np.clip((top, bottom), 0, rows), *np.clip((left, right), 0, bytes_of_row)))
        top, bottom, left, right = inside[:, (inside[0] < inside[1]) & (inside[2] < inside[3])]
        self.rectangles += len(top)
        self._boxes.append(
            np.stack((top // self.high, -(-bottom // self.high), left // self.wide, -(-right // self.wide)))
        )

    def loaded_bytes(self) -> int:
        """Of the granules that any rectangle covers [B]; those between two neighbouring edges count as one."""
        boxes = np.concatenate(self._boxes, axis=1)
        (rows, row_at), (cols, col_at) = _edges(boxes[:2]), _edges(boxes[2:])
        covers = np.zeros((len(rows), len(cols)), dtype=np.int32)
        for row, col, sign in ((0, 0, 1), (0, 1, -1), (1, 0, -1), (1, 1, 1)):
            corners, times = _counted(row_at[row] * len(cols) + col_at[col], covers.size)
            covers.reshape(-1)[corners] += (sign * times).astype(np.int32)
        for axis in (0, 1):
            np.cumsum(covers, axis=axis, out=covers)
        heights, widths = self._sizes(rows, cols)
        # What begins behind what is not covered has a part of that one's last sector.
        begun = SECTOR_BYTES * (np.minimum(cols[:-1] * self.wide, self.row["row_bytes"]) % SECTOR_BYTES > 0)
        step, total = max(1, CELLS_AT_ONCE // max(1, len(cols))), 0
        for at in range(0, len(heights), step):
            covered = covers[:-1, :-1][at : at + step] > 0
            alone = covered & ~np.pad(covered, ((0, 0), (1, 0)))[:, :-1]
            total += int(heights[at : at + step] @ (covered @ widths + alone @ begun))
        return total

    def _sizes(self, rows: np.ndarray, cols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows and bytes between neighbouring edges, of granules in whole sectors; their products are bytes [B]."""
        row_bytes = int(self.row["row_bytes"])
        below, right = np.minimum(rows * self.high, self.row["rows"]), np.minimum(cols * self.wide, row_bytes)
        if self.row["packed"] == 1 and self.wide >= row_bytes:
            whole_rows = np.ones(max(0, len(cols) - 1), dtype=np.int64)
            return np.diff(_in_sectors(below * row_bytes)), whole_rows
        return np.diff(below), np.diff(_in_sectors(right))


def _edges(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different numbers, rising, and which of them each is."""
    low, span = (int(values.min()), int(np.ptp(values)) + 1) if values.size else (0, 0)
    if span > DENSE * values.size:
        edges, at = np.unique(values, return_inverse=True)
        return edges, at.reshape(values.shape)
    there = np.zeros(span, dtype=np.bool_)
    there[values - low] = True
    return np.flatnonzero(there) + low, (np.cumsum(there) - 1)[values - low]


def _counted(places: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Different places below a size, and how often each is there."""
    if size > DENSE * len(places):
        return np.unique(places, return_counts=True)
    times = np.bincount(places, minlength=size)
    occupied = np.flatnonzero(times)
    return occupied, times[occupied]


def _in_sectors(size_bytes: Any) -> Any:
    """Whole sectors that hold so many bytes [B]; a number, or an array of them."""
    return -(-size_bytes // SECTOR_BYTES) * SECTOR_BYTES


Reach = tuple[np.ndarray, np.ndarray]
"""From where to where, along one axis."""


def _listed(lists: Lists, columns: dict[str, np.ndarray], rows: Reach, cols: Reach, size: int) -> tuple[Reach, Reach]:
    """The same for each piece of all lists of each item."""
    begins, ends = columns[lists.at], columns[lists.until]
    lengths = ends - begins
    items = np.repeat(np.arange(len(rows[0])), lengths)
    spans = np.arange(len(items)) + np.repeat(begins - (np.cumsum(lengths) - lengths), lengths)
    first, counts = lists.spans[spans].T
    which = np.repeat(items, counts)
    starts = np.repeat(first - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
    pieces = lists.pieces[np.arange(len(which)) + starts]
    row, col = pieces[:, 0], pieces[:, 1] * size
    return (rows[0][which] + row, rows[1][which] + row), (cols[0][which] + col, cols[1][which] + col)


def _reach(
    origin: Affine, extent: int, factor: int, around: tuple[Loop, ...], columns: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """From where to where a tile comes along one axis, over all trips of its loops, for items that have any."""
    loops = {loop.counter: loop for loop in around}
    items = len(next(iter(columns.values())))
    low = high = np.zeros(items, dtype=np.int64)
    for name, coefficient in origin:
        first = last = columns[name] if name not in loops else value_of(loops[name].first, columns, items)
        if name in loops:
            last = first + value_of(loops[name].step, columns, items) * (
                value_of(loops[name].trips, columns, items) - 1
            )
        ends = coefficient * first, coefficient * last
        low, high = low + np.minimum(*ends), high + np.maximum(*ends)
    return low * factor, (high + extent) * factor
