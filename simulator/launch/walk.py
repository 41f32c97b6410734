"""Reads a `TileProgram` without simulating it: access by access for one item, or exact totals for all.

`accesses` is what the recorded trace of the real kernel is held against.
`tally` is what never depends on caches: how often each step runs, and how many bytes it asks for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd

import numpy as np

from ..integers import cdiv
from ..jobs.stopping import check_wanted
from ..limits import SECTOR_BYTES
from .lists import Lists
from .program import ASYNCHRONOUS, Affine, Launch, Loop, Step, Tensor, Tile, TileProgram

ITEMS_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One clipped tile access: rows x cols elements of a slab, from (row, col) on. Args: kind: `load` or `store`."""

    kind: str
    tensor: str
    slab: int
    row: int
    rows: int
    col: int
    cols: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Exact totals of a program.

    Args:
        executions: step name -> how often it runs, over all items.
        load_bytes, store_bytes: tensor -> bytes that CTAs ask for, in whole sectors [B].
    """

    executions: dict[str, int]
    load_bytes: dict[str, int]
    store_bytes: dict[str, int]

    @property
    def steps(self) -> int:
        """Steps executed, of all kinds."""
        return sum(self.executions.values())


def moved_bytes(tensor: Tensor, rows: int, cols: int) -> int:
    """Bytes that a tile of that extent moves, in whole 32-byte sectors [B].

    Whole packed rows are one contiguous range; other tiles are rounded up row by row.
    """
    if cols == tensor.cols and tensor.pitch_bytes == tensor.row_bytes:
        return cdiv(rows * tensor.row_bytes, SECTOR_BYTES) * SECTOR_BYTES
    return rows * cdiv(cols * tensor.element_bytes, SECTOR_BYTES) * SECTOR_BYTES


def accesses(program: TileProgram, item: int) -> Iterator[Access]:
    """All accesses of one item in program order; empty ones (wholly past the edge) are left out."""
    for step, variables in executions(program, item):
        for kind, tiles in (("load", step.loads), ("store", step.stores)):
            for tile in tiles:
                yield from pieces_of(program.tensor(tile.tensor), tile, kind, variables)


def executions(program: TileProgram, item: int) -> Iterator[tuple[Step, dict[str, int]]]:
    """All executions of one item's steps in order, each with the values of variables and counters."""
    row = program.items(np.array([item], dtype=np.int64))[0]
    yield from _walk(program.body, {name: int(value) for name, value in zip(program.variables, row, strict=True)})


def _walk(body: tuple[Step | Loop, ...], variables: dict[str, int]) -> Iterator[tuple[Step, dict[str, int]]]:
    for node in body:
        if isinstance(node, Loop):
            first, step, trips = (
                variables[value] if isinstance(value, str) else value for value in (node.first, node.step, node.trips)
            )
            for trip in range(trips):
                yield from _walk(node.body, variables | {node.counter: first + step * trip})
        else:
            yield node, variables


def pieces_of(tensor: Tensor, tile: Tile, kind: str, variables: dict[str, int]) -> Iterator[Access]:
    """What a tile accesses: itself, or the pieces that are listed of it; empty ones are left out."""
    whole = clipped(tensor, tile, kind, variables)
    origins = [(0, 0)]
    if tile.lists is not None:
        first, count = tile.lists.spans[tile.lists.place(variables)].tolist()
        origins = tile.lists.pieces[first : first + count].tolist()
    for row, col in origins:
        rows = min(tile.rows, tensor.rows - whole.row - row)
        cols = min(tile.cols, tensor.cols - whole.col - col)
        if rows > 0 and cols > 0 and whole.row + row >= 0 and whole.col + col >= 0:
            yield replace(whole, row=whole.row + row, rows=rows, col=whole.col + col, cols=cols)


def clipped(tensor: Tensor, tile: Tile, kind: str, variables: dict[str, int]) -> Access:
    """What a tile accesses, as far as the tensor goes; empty where it is wholly past the edge."""
    row = sum(variables[name] * coefficient for name, coefficient in tile.row)
    col = sum(variables[name] * coefficient for name, coefficient in tile.col)
    return Access(
        kind=kind,
        tensor=tile.tensor,
        slab=variables[tile.slab],
        row=row,
        rows=min(tile.rows, tensor.rows - row),
        col=col,
        cols=min(tile.cols, tensor.cols - col),
    )


def steps(body: tuple[Step | Loop, ...], around: tuple[Loop, ...] = ()) -> Iterator[tuple[Step, tuple[Loop, ...]]]:
    """All steps of a nest in order, each with the loops around it, outermost first."""
    for node in body:
        if isinstance(node, Loop):
            yield from steps(node.body, (*around, node))
        else:
            yield node, around


def matmuls_of(launch: Launch) -> int:
    """How many of the two matmuls of attention a launch computes: a step has one of tiles for each."""
    return max((len(step.work.matmuls) for step, _ in steps(launch.program.body)), default=0)


def tally(program: TileProgram) -> Tally:
    """Exact totals over all items, from one period of them."""
    period = program.period_items if begin_alike(program) else program.item_count
    return scaled(tally_items(program, 0, period), program.item_count // period)


def begin_alike(program: TileProgram) -> bool:
    """Whether rows of every tile touch as many sectors wherever they begin."""
    for step, _ in steps(program.body):
        for tile in (*step.loads, *step.stores):
            tensor = program.tensor(tile.tensor)
            whole = tile.cols >= tensor.cols and tensor.pitch_bytes == tensor.row_bytes
            width = tile.rows * tensor.row_bytes if whole else tile.cols * tensor.element_bytes
            moves = [tensor.pitch_bytes * factor for _, factor in tile.row]
            moves += [tensor.element_bytes * factor for _, factor in tile.col]
            moves += [tensor.rows * tensor.pitch_bytes] * (tensor.slabs > 1)
            moves += [tensor.pitch_bytes] * (tile.rows > 1 and not whole)
            if tile.lists is None and gcd(SECTOR_BYTES, *moves) < min(width, SECTOR_BYTES):
                return False
    return True


def executions_of(program: TileProgram) -> dict[str, int]:
    """How often each step runs in all items together, as `tally` has it, whose bytes take longer."""
    totals: dict[str, int] = {}
    for begin in range(0, program.period_items, ITEMS_AT_ONCE):
        columns, items = _columns(program, begin, min(begin + ITEMS_AT_ONCE, program.period_items))
        for step, around in steps(program.body):
            totals[step.name] = totals.get(step.name, 0) + int(_trips(around, columns, items).sum())
    return {name: count * (program.item_count // program.period_items) for name, count in totals.items()}


def _columns(program: TileProgram, start: int, stop: int) -> tuple[dict[str, np.ndarray], int]:
    """Values of each variable in the items start .. stop - 1, and how many items these are."""
    table = program.items(np.arange(start, stop, dtype=np.int64))
    return dict(zip(program.variables, table.T, strict=True)), len(table)


def scaled(totals: Tally, factor: int) -> Tally:
    """Totals, that many times."""
    executions, loads, stores = (
        {name: count * factor for name, count in counts.items()}
        for counts in (totals.executions, totals.load_bytes, totals.store_bytes)
    )
    return Tally(executions=executions, load_bytes=loads, store_bytes=stores)


def tally_items(program: TileProgram, start: int, stop: int) -> Tally:
    """Exact totals over the items start .. stop - 1."""
    executions: dict[str, int] = {step.name: 0 for step, _ in steps(program.body)}
    loads: dict[str, int] = {}
    stores: dict[str, int] = {}
    for begin in range(start, stop, ITEMS_AT_ONCE):
        totals_of_items = item_totals(program, begin, min(begin + ITEMS_AT_ONCE, stop))
        for totals, counted in zip((executions, loads, stores), totals_of_items, strict=True):
            for name, counts in counted.items():
                totals[name] = totals.get(name, 0) + int(counts.sum())
    return Tally(executions=executions, load_bytes=loads, store_bytes=stores)


def item_totals(
    program: TileProgram, start: int, stop: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The fields of a `Tally` for each of the items start .. stop - 1; int64 of shape (stop - start,)."""
    columns, items = _columns(program, start, stop)
    executions: dict[str, np.ndarray] = {}
    loads: dict[str, np.ndarray] = {}
    stores: dict[str, np.ndarray] = {}
    for step, around in steps(program.body):
        executions[step.name] = executions.get(step.name, 0) + _trips(around, columns, items)
        for moved, tiles in ((loads, step.loads), (stores, step.stores)):
            for tile in tiles:
                boxes = moved is loads and tile.path == "tma"
                total = _tile_bytes(program.tensor(tile.tensor), tile, boxes, around, columns, items)
                moved[tile.tensor] = moved.get(tile.tensor, 0) + total
    return executions, loads, stores


def value_of(value: int | str, columns: Mapping[str, np.ndarray], items: int) -> np.ndarray:
    """A number, or a variable, of each item. Args: columns: variables of the items."""
    return columns[value] if isinstance(value, str) else np.full(items, value, dtype=np.int64)


def _trips(around: tuple[Loop, ...], columns: dict[str, np.ndarray], items: int) -> np.ndarray:
    total = np.ones(items, dtype=np.int64)
    for loop in around:
        total = total * value_of(loop.trips, columns, items)
    return total


def _tile_bytes(
    tensor: Tensor, tile: Tile, boxes: bool, around: tuple[Loop, ...], columns: dict[str, np.ndarray], items: int
) -> np.ndarray:
    """Bytes of one tile of a step over all its executions, per item.

    TMA delivers whole boxes: rows past the edge arrive as zeros, and count as bytes into the SM all the same
    (`l1tex__m_xbar2l1tex_read_bytes` of flash2_tma at N = 1000 on an H200 is 1024 / 1000 of the clipped tiles).
    Other tiles are clipped (`boxes` is false), and that at most once along each axis, at the last position that its
    loop reaches, so each axis has two cases: its full extent many times, and a clipped one once.
    """
    zero_bytes = tile.zero_bytes if boxes else 0
    if tile.lists is not None:
        pieces = _listed_pieces(tile.lists, around, columns, items)
        return np.rint(pieces * (_piece_bytes(tensor, tile, tile.lists) + zero_bytes)).astype(np.int64)
    used = {name for name, _ in tile.row} | {name for name, _ in tile.col}
    others = _trips(tuple(loop for loop in around if loop.counter not in used), columns, items)
    row_cases = _extents(tile.row, tile.rows, None if boxes else tensor.rows, around, columns, items)
    col_cases = _extents(tile.col, tile.cols, tensor.cols, around, columns, items)
    total = np.rint(_trips(around, columns, items) * zero_bytes)
    begins = begins_in_sector(tensor, tile, around, columns)
    for row_count, rows in row_cases:
        for col_count, cols in col_cases:
            whole = (cols == tensor.cols) & (tensor.pitch_bytes == tensor.row_bytes)
            width = np.where(whole, rows * tensor.row_bytes, cols * tensor.element_bytes)
            sectors = np.mean([-(-(begin + width) // SECTOR_BYTES) for begin in begins], axis=0)
            moved = np.where(whole, 1, rows) * sectors * SECTOR_BYTES
            total += others * row_count * col_count * np.where(width > 0, moved, 0)
    rounded: np.ndarray = np.rint(total).astype(np.int64)
    return rounded


def _piece_bytes(tensor: Tensor, tile: Tile, lists: Lists) -> float:
    """Bytes that a piece of a listed tile moves, in the mean of all that are listed [B]."""
    if tile.cols >= tensor.cols or tile.rows > 1 or not len(lists.pieces):
        return moved_bytes(tensor, tile.rows, tile.cols)
    ends = lists.pieces @ (tensor.pitch_bytes, tensor.element_bytes) % SECTOR_BYTES + tile.cols * tensor.element_bytes
    return SECTOR_BYTES * float(np.mean(-(-ends // SECTOR_BYTES)))


def begins_in_sector(
    tensor: Tensor, tile: Tile, around: tuple[Loop, ...], columns: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """How far behind the begin of a sector rows of a tile begin, per item [B]: all that rows and iterations come to."""
    begin, apart = columns[tile.slab] * (tensor.rows * tensor.pitch_bytes), SECTOR_BYTES
    loops = {loop.counter: loop for loop in around}
    if tile.rows > 1 and tile.cols < tensor.cols:
        apart = gcd(apart, tensor.pitch_bytes)
    for terms, size in ((tile.row, tensor.pitch_bytes), (tile.col, tensor.element_bytes)):
        for name, coefficient in terms:
            if name not in loops:
                begin = begin + coefficient * size * columns[name]
                continue
            first, step = (value_of(value, columns, 1) for value in (loops[name].first, loops[name].step))
            begin = begin + coefficient * size * first
            apart = gcd(apart, int(np.gcd.reduce(coefficient * size * step)))
    return [(begin + shift) % SECTOR_BYTES for shift in range(0, SECTOR_BYTES, apart)]


def _listed_pieces(lists: Lists, around: tuple[Loop, ...], columns: dict[str, np.ndarray], items: int) -> np.ndarray:
    """Pieces of a tile over all executions of its step, per item: those of the lists that the loops around come to.

    They need not come to all lists of an item: a loop that is cut in two leaves the rest to the other half.
    """
    per = dict(lists.per)
    moving = [loop for loop in around if loop.counter in per]
    again = _trips(tuple(loop for loop in around if loop.counter not in per), columns, items)
    # What an innermost loop comes to one after the other is counted together.
    strides = [per[loop.counter] * value_of(loop.step, columns, items) for loop in moving[-1:]]
    inner = moving.pop() if strides and (strides[0] == 1).all() else None
    total = np.zeros(items, dtype=np.int64)
    present = np.flatnonzero(again > 0)
    executions = np.cumsum(np.maximum(_trips(tuple(moving), columns, items)[present], 0))
    for some in np.split(present, np.flatnonzero(np.diff(executions // ITEMS_AT_ONCE)) + 1):
        check_wanted()
        item, place = some, value_of(lists.at, columns, items)[some]
        for loop in moving:
            first, step, trips = (
                value_of(value, columns, items)[item] for value in (loop.first, loop.step, loop.trips)
            )
            trips = np.maximum(trips, 0)
            trip = np.arange(trips.sum()) - np.repeat(np.cumsum(trips) - trips, trips)
            item, place = np.repeat(item, trips), np.repeat(place + per[loop.counter] * first, trips)
            place += per[loop.counter] * np.repeat(step, trips) * trip
        count = np.ones_like(place)
        if inner:
            place = place + per[inner.counter] * value_of(inner.first, columns, items)[item]
            count = np.maximum(value_of(inner.trips, columns, items)[item], 0)
        np.add.at(total, item, lists.counts(place, place + count))
    pieces: np.ndarray = again * total
    return pieces


def _extents(
    origin: Affine,
    extent: int,
    limit: int | None,
    around: tuple[Loop, ...],
    columns: dict[str, np.ndarray],
    items: int,
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Cases (how often, clipped extent) of one axis, per item. Args: limit: where it is clipped; None: nowhere."""
    loops = {loop.counter: loop for loop in around}
    last = np.zeros(items, dtype=np.int64)
    trips = np.ones(items, dtype=np.int64)
    for name, coefficient in origin:
        if name in loops:
            loop = loops[name]
            trips = trips * value_of(loop.trips, columns, items)
            first, step = value_of(loop.first, columns, items), value_of(loop.step, columns, items)
            reached = first + step * (value_of(loop.trips, columns, items) - 1)
            last = last + coefficient * np.maximum(first, reached)
        else:
            last = last + coefficient * columns[name]
    clipped = np.clip((last + extent if limit is None else limit) - last, 0, extent)
    return ((trips - 1).clip(min=0), np.full(items, extent, dtype=np.int64)), (np.minimum(trips, 1), clipped)


def pipelined_stages(loop: Loop, launch: Launch) -> int:
    """Stages of a loop whose loads run ahead of it; 0 where nothing does.

    Warps that only load are ahead by all stages; those that compute as well issue a load after a tile.
    """
    node = loop.body[0]
    if loop.stages < 2 or len(loop.body) > 1 or isinstance(node, Loop):
        return 0
    ahead = 1 if launch.consumer_warps else 0
    return loop.stages + ahead if any(tile.path in ASYNCHRONOUS for tile in node.loads) else 0
