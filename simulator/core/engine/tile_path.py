"""The path of a tile: L1, and the granules that it covers, or that its pieces cover.

A granule is a rectangle that all launches touch as a whole (chunks), or a 128-byte line.
Of tensors with too many of them, one of a few along a row, the next one over in the next row, STANDS_FOR all.
"""

import numpy as np

from ...limits import LINE_BYTES
from ..jit import compiled, inlined
from .copies import renew
from .granule_path import read_granule, write_granule
from .l1 import look_up
from .links import FIRST_L2, L1_HIT, Rates, serve

# Columns of `tensors`.
BASE, SLAB_GRANULES, ROW_GRANULES, GRANULE_ROWS, GRANULE_ROW_BYTES = range(5)
ROWS, ROW_BYTES, PACKED, FOLD, STANDS_FOR = range(5, 10)
# Columns of `tiles`; affine origins are two (variable, coefficient) pairs each, columns in bytes.
TENSOR, SLAB, TILE_ROWS, TILE_ROW_BYTES, ASYNCHRONOUS, ROW_TERMS = range(6)
TERMS = 2
"""Pairs of an affine origin."""
COL_TERMS = ROW_TERMS + 2 * TERMS
PASSES_L1 = COL_TERMS + 2 * TERMS
LIST_AT, LIST_BASE, LIST_TERMS = range(PASSES_L1 + 1, PASSES_L1 + 4)
"""Of a tile in pieces: the variable that says where its item's lists begin, else -1; where the tile's begin; and what
counters add."""
TILE_COLUMNS = LIST_TERMS + 2 * TERMS


@inlined
def _sectors(size: int) -> int:
    return (size + 31) // 32 * 32


@inlined
def access_tile(
    entry: np.ndarray,
    dirt: np.ndarray,
    lists: np.ndarray,
    ready: np.ndarray,
    windows: np.ndarray,
    free: np.ndarray,
    asked: np.ndarray,
    ring: np.ndarray,
    seen: np.ndarray,
    stamps: np.ndarray,
    counter: np.ndarray,
    rates: Rates,
    tensors: np.ndarray,
    tiles: np.ndarray,
    tile: int,
    environment: np.ndarray,
    slot: int,
    sm: int,
    time: float,
    store: bool,
) -> float:
    """Move one tile between an SM and memory.

    Args:
        tensors, tiles: int64 tables with the columns above; environment: int64 (slots, variables).

    Returns:
        When the whole tile is at the SM (loads), or `time` (stores: nobody waits).
    """
    row = 0
    col = 0
    for term in range(0, 2 * TERMS, 2):
        row += environment[slot, tiles[tile, ROW_TERMS + term]] * tiles[tile, ROW_TERMS + term + 1]
        col += environment[slot, tiles[tile, COL_TERMS + term]] * tiles[tile, COL_TERMS + term + 1]
    return _access_at(
        entry, dirt, lists, ready, windows, free, asked, ring, seen, stamps, counter, rates, tensors, tiles, tile,
        environment, slot, sm, time, store, row, col, tiles[tile, PASSES_L1] == 1,
    )  # fmt: skip


@compiled
def access_listed(
    entry: np.ndarray,
    dirt: np.ndarray,
    lists: np.ndarray,
    ready: np.ndarray,
    windows: np.ndarray,
    free: np.ndarray,
    asked: np.ndarray,
    ring: np.ndarray,
    seen: np.ndarray,
    stamps: np.ndarray,
    counter: np.ndarray,
    rates: Rates,
    tensors: np.ndarray,
    tiles: np.ndarray,
    listed: np.ndarray,
    tile: int,
    environment: np.ndarray,
    slot: int,
    sm: int,
    time: float,
    store: bool,
) -> float:
    """The same for a tile in pieces of one extent, whose origins are listed; nothing of them is looked for in L1.

    Args:
        listed: int64 (places, 2): first piece and number of pieces of each list; then row and column of each piece [B].
    """
    row = 0
    col = 0
    at = tiles[tile, LIST_BASE] + environment[slot, tiles[tile, LIST_AT]]
    for term in range(0, 2 * TERMS, 2):
        row += environment[slot, tiles[tile, ROW_TERMS + term]] * tiles[tile, ROW_TERMS + term + 1]
        col += environment[slot, tiles[tile, COL_TERMS + term]] * tiles[tile, COL_TERMS + term + 1]
        at += environment[slot, tiles[tile, LIST_TERMS + term]] * tiles[tile, LIST_TERMS + term + 1]
    done = time
    for piece in range(listed[at, 0], listed[at, 0] + listed[at, 1]):
        arrival = _access_at(
            entry, dirt, lists, ready, windows, free, asked, ring, seen, stamps, counter, rates, tensors, tiles, tile,
            environment, slot, sm, time, store, row + listed[piece, 0], col + listed[piece, 1], False,
        )  # fmt: skip
        if arrival > done:
            done = arrival
    return done


@inlined
def _access_at(
    entry: np.ndarray,
    dirt: np.ndarray,
    lists: np.ndarray,
    ready: np.ndarray,
    windows: np.ndarray,
    free: np.ndarray,
    asked: np.ndarray,
    ring: np.ndarray,
    seen: np.ndarray,
    stamps: np.ndarray,
    counter: np.ndarray,
    rates: Rates,
    tensors: np.ndarray,
    tiles: np.ndarray,
    tile: int,
    environment: np.ndarray,
    slot: int,
    sm: int,
    time: float,
    store: bool,
    row: int,
    col: int,
    through_l1: bool,
) -> float:
    """Move a tile's extent from (row, col) on, col in bytes."""
    which = tiles[tile, TENSOR]
    rows = min(tiles[tile, TILE_ROWS], tensors[which, ROWS] - row)
    width = min(tiles[tile, TILE_ROW_BYTES], tensors[which, ROW_BYTES] - col)
    if rows <= 0 or width <= 0:
        return time
    whole = tensors[which, PACKED] == 1 and width == tensors[which, ROW_BYTES]
    total = _sectors(rows * width) if whole else rows * _sectors(width)
    high, wide = tensors[which, GRANULE_ROWS], tensors[which, GRANULE_ROW_BYTES]
    per_row, fold, apart = tensors[which, ROW_GRANULES], tensors[which, FOLD], tensors[which, STANDS_FOR]
    slab = environment[slot, tiles[tile, SLAB]] * tensors[which, SLAB_GRANULES]
    base = tensors[which, BASE]
    first_row, first_col, last_col = row // high, 0, 0
    last_row = first_row if row + rows <= (first_row + 1) * high else (row + rows - 1) // high
    if wide < tensors[which, ROW_BYTES]:
        first_col, last_col = col // wide, (col + width - 1) // wide
    tag = (slab + first_row * per_row + first_col) * len(tensors) + which
    curve = rates.l1_curve
    if through_l1 and look_up(ring, seen, stamps, curve, rates.l1_bytes, tag, total, sm, store):
        counter[L1_HIT] += total
        return time + rates.l1_latency
    done = time
    cost, latency = 1.0, rates.hbm_latency
    if width < tensors[which, ROW_BYTES]:
        # HBM is slower with pieces of rows: their neighbours come at another time.
        latency += rates.hbm_piece_latency
        if store:
            cost += rates.hbm_piece_write_bytes / width
        elif width < LINE_BYTES:
            cost += rates.hbm_part_line_cost
    for i in range(first_row, last_row + 1):
        part_rows = min((i + 1) * high, row + rows) - max(i * high, row)
        skipped = 0 if apart == 1 else (-(i + first_col)) % apart
        for j in range(first_col + skipped, last_col + 1, apart):
            part_width = min((j + 1) * wide, col + width) - max(j * wide, col)
            size = apart * (_sectors(part_rows * part_width) if whole else part_rows * _sectors(part_width))
            granule = slab + i * per_row + (j if apart == 1 else j // apart)
            window = 0
            if granule >= fold:
                window = granule // fold
                granule -= window * fold
            granule += base
            if windows[granule] != window:
                renew(entry, dirt, lists, ready, free, counter, rates, granule, time)
                windows[granule] = window
            if store:
                write_granule(entry, dirt, lists, ready, free, counter, rates, granule, size, cost, sm, time)
            else:
                arrival = read_granule(
                    entry, dirt, lists, ready, free, asked, counter, rates, granule, size, apart, cost,
                    latency, sm, time,
                )  # fmt: skip
                if arrival > done:
                    done = arrival
    port = FIRST_L2 + rates.partitions + (sm if not store else rates.sms + sm)
    port_done = serve(free, port, time, total * rates.sm_fill_cycles_per_byte)
    # The tile streams through the port behind its first bytes.
    return time if store else port_done + (done - time)
