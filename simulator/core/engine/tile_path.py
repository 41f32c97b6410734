"""The path of a tile: L1, coalescer, near L2 partition, fabric, far partition, HBM; and back.

A *granule* is the unit of residency: a rectangle that all launches touch as a whole (chunks), or a 128-byte line.
Of a tensor with too many granules, one in `sampling_stride` along a row stands for all, in each row another.
A granule is homed in every partition by an equal share (chunks: lines interleave finely) or in one by hash (lines).
An SM reads through its own partition; what is homed elsewhere comes over the fabric and leaves a copy in the near one.
Every link is a server: it takes requests in order of time, one after the other, at its bandwidth.
"""

import numpy as np

from ...limits import LINE_BYTES, SECTOR_BYTES
from ..jit import compiled, inlined
from .additions import add
from .copies import (
    BEFORE,
    BEHIND,
    FETCHED_BEFORE,
    FETCHED_BEHIND,
    OF_ROWS,
    renew,
)
from .fetching import fetch_to_add, read_granule, write_granule
from .l1 import look_up
from .links import (
    FIRST_L2,
    L1_HIT,
    Rates,
    reading_of,
    serve,
)
from .memory import Memory, near_partition
from .program import COEFFICIENT, COL, LIST, ROW, TERMS, VARIABLE, Program
from .slices import TENSOR_BYTES
from .translations import translate
from .walk import Ctas


@inlined
def access_tile(
    memory: Memory, rates: Rates, program: Program, number: int, ctas: Ctas, slot: int, time: float, store: bool
) -> float:
    """Move one tile, which has a number, between the SM of a slot and memory.

    Returns:
        When the whole tile is at the SM (loads), or `time` (stores: nobody waits).
    """
    environment, sm = ctas.environment, ctas.slots[slot].sm
    row = col = 0
    for term in range(TERMS):
        by_row, by_col = program.origins[number, ROW, term], program.origins[number, COL, term]
        row += environment[slot, by_row[VARIABLE]] * by_row[COEFFICIENT]
        col += environment[slot, by_col[VARIABLE]] * by_col[COEFFICIENT]
    through_l1 = program.tiles[number].through_l1 == 1
    return _access_at(memory, rates, program, number, environment, slot, sm, time, store, row, col, through_l1, False)


@compiled
def access_listed(
    memory: Memory, rates: Rates, program: Program, number: int, ctas: Ctas, slot: int, time: float, store: bool
) -> float:
    """The same for a tile in pieces, whose origins are listed."""
    environment, sm = ctas.environment, ctas.slots[slot].sm
    tile = program.tiles[number]
    through_l1 = tile.through_l1 == 1
    row = col = 0
    at = tile.lists_base + environment[slot, tile.lists_at]
    for term in range(TERMS):
        by_row, by_col = program.origins[number, ROW, term], program.origins[number, COL, term]
        by_list = program.origins[number, LIST, term]
        row += environment[slot, by_row[VARIABLE]] * by_row[COEFFICIENT]
        col += environment[slot, by_col[VARIABLE]] * by_col[COEFFICIENT]
        at += environment[slot, by_list[VARIABLE]] * by_list[COEFFICIENT]
    done = time
    first = program.lists[at, 0]
    for piece in range(first, first + program.lists[at, 1]):
        arrival = _access_at(
            memory, rates, program, number, environment, slot, sm, time, store,
            row + program.lists[piece, 0], col + program.lists[piece, 1], through_l1,
            program.lists[at, 1] > 1 and tile.gathered == 1,
        )  # fmt: skip
        done = max(done, arrival)
    return done


@inlined
def _access_at(
    memory: Memory, rates: Rates, program: Program, number: int, environment: np.ndarray, slot: int, sm: int,
    time: float, store: bool, row: int, col: int, through_l1: bool, one_of_several: bool,
) -> float:  # fmt: skip
    """Move a tile's extent from a row and a column [B] on. Args: one_of_several: extents that the tile consists of."""
    tile = program.tiles[number]
    tensor = program.tensors[tile.tensor]
    rows = min(tile.rows, tensor.rows - row)
    width = min(tile.row_bytes, tensor.row_bytes - col)
    if rows <= 0 or width <= 0 or row < 0 or col < 0:
        return time
    whole = tensor.packed == 1 and width == tensor.row_bytes
    slab_row = environment[slot, tile.slab] * tensor.rows + row
    begin = slab_row * tensor.pitch_bytes + col
    total = _in_sectors_from(begin, rows * width) if whole else rows * _in_sectors_from(begin, width)
    uneven = tensor.pitch_bytes % SECTOR_BYTES != 0
    if not whole and rows > 1 and uneven:
        for other in range(1, rows):
            total += _in_sectors_from(begin + other * tensor.pitch_bytes, width) - _in_sectors_from(begin, width)
    row_bytes = _in_sectors_from(begin, width) if rows == 1 or not whole else _in_sectors_from(col, width)
    high, wide = tensor.granule_rows, tensor.granule_row_bytes
    per_row, fold, stride = tensor.row_granules, tensor.fold, tensor.sampling_stride
    slab = environment[slot, tile.slab] * tensor.slab_granules
    first_row, first_col, last_col = row // high, 0, 0
    last_row = first_row if row + rows <= (first_row + 1) * high else (row + rows - 1) // high
    if wide < tensor.row_bytes:
        first_col, last_col = col // wide, (col + width - 1) // wide
    # L1 tells extents apart by where they begin, also those of one granule.
    start = slab_row * (_in_sectors(tensor.row_bytes) // SECTOR_BYTES) + col // SECTOR_BYTES
    tag = start * len(program.tensors) + tile.tensor
    if through_l1:
        # A line takes its room whole, however little of it is there.
        room = _in_lines(0, rows * width) if whole else rows * _in_lines(col, width)
        if look_up(memory.l1, rates.l1_curve, rates.l1_bytes, tag, room, sm, store):
            memory.counter[L1_HIT] += total
            return time + rates.l1_latency
    done = time
    # HBM is slower with pieces of rows: their neighbours come at another time.
    cost = read_cost = grown = 1.0
    pieces = 0.0
    if width < tensor.row_bytes:
        if rows > 1 or one_of_several:
            pieces = max(1.0, min(rows, high) * min(1.0, tensor.row_bytes / rates.hbm_place_bytes))
        # CTAs beside each other come at the same time.
        beside = max(width, tile.beside)
        cost += rates.hbm_piece_write_bytes / beside
        # Of rows that begin and end within lines HBM moves parts of lines. Places in a flat tensor say which these are.
        in_part = 1.0 if beside < LINE_BYTES else 0.0
        if in_part == 0.0 and tensor.rows == 1:
            in_part = min(1.0, (-col % LINE_BYTES + (col + width) % LINE_BYTES) / width)
        # Rows no longer than what HBM fetches at once come line by line, however little of each is asked for.
        if tensor.row_bytes > rates.hbm_fetch_bytes:
            read_cost += in_part * rates.hbm_part_line_cost
        if beside >= LINE_BYTES and tile.part > 0 and tile.adds == 0:
            cost += in_part * rates.hbm_part_line_cost
        if in_part == 0.0 and beside < 2 * LINE_BYTES:
            read_cost += rates.hbm_single_line_cost
        if one_of_several or (rows > 1 and tile.alone == 1):
            # Nothing else reads or writes beside it while it is in L2.
            unit = SECTOR_BYTES if wide == SECTOR_BYTES and stride == 1 else row_bytes
            grown = (unit + rates.hbm_fetch_bytes - 1) // rates.hbm_fetch_bytes * rates.hbm_fetch_bytes / unit
        if one_of_several:
            cost = max(cost, rates.hbm_lone_write_bytes / width)
    # L2 serves each row of a tile in a turn of its own, however little it is, in as many granules as it may lie.
    # Sectors that are stored to in part are read first, and those that warps share are stored to by each.
    turn = row_bytes * (1.0 + (rates.part_turn_share * tile.part if store and tile.adds == 0 else 0.0))
    if not whole:
        turn = max(turn, rates.turn_bytes)
    part = 1.0 if width < SECTOR_BYTES else tile.part
    passing, near = tile.passing == 1, near_partition(rates, sm)
    how = reading_of(rates, read_cost, total, pieces, grown, passing)
    # In one column of granules, those that stand for others are so many rows apart.
    apart = stride if first_col == last_col else 1
    for i in range(first_row + (-(first_row + first_col)) % apart, last_row + 1, apart):
        part_rows = min((i + 1) * high, row + rows) - max(i * high, row)
        skipped = 0 if stride == 1 else (-(i + first_col)) % stride
        left = stride * total * part_rows // rows
        for j in range(first_col + skipped, last_col + 1, stride):
            part_width = min((j + 1) * wide, col + width) - max(j * wide, col)
            address = tensor.address + (slab_row - row + max(i * high, row)) * tensor.pitch_bytes + max(j * wide, col)
            length = part_rows * part_width if whole else part_width
            follows = j > first_col or (whole and i > first_row)
            sectors = _in_sectors_from(address, length)
            if follows and address % SECTOR_BYTES != 0:
                sectors -= SECTOR_BYTES  # asked for with the part before it
            size = stride * (sectors if whole else part_rows * sectors)
            next_to = 0
            if part_rows > 1 and not whole and uneven:
                # Each row begins elsewhere within a sector: what reads beside them shares their first and last ones.
                size = min(left, stride * part_rows * _in_sectors(length))
                if not follows and stride == 1:
                    next_to = max(0, left - part_rows * _in_sectors(width)) // SECTOR_BYTES << OF_ROWS
                    size += (next_to >> OF_ROWS) * SECTOR_BYTES
                left -= size
            turns = int(size * turn / row_bytes)
            granule = slab + i * per_row + (j if stride == 1 else j // stride)
            window = 0
            if granule >= fold:
                window = granule // fold
                granule -= window * fold
            place = granule * high * wide + (max(i * high, row) - i * high) * wide + max(j * wide, col) - j * wide
            place += tensor.base * TENSOR_BYTES
            granule += tensor.base
            if stride == 1 and (whole or high == 1):
                # What lies in a sector together with the granule before it, or behind it, comes with either.
                goes_back = (tensor.packed == 1 or j > 0) and granule > tensor.base
                goes_on = (tensor.packed == 1 or j + 1 < per_row) and granule + 1 < tensor.base + fold
                if tensor.folded == 1:  # numbers beside this one may be those of data far away
                    goes_back = goes_back and memory.windows[granule - 1] == window
                    goes_on = goes_on and memory.windows[granule + 1] == window
                starts = col <= j * wide and (high == 1 or row <= i * high)
                ends = col + width >= min((j + 1) * wide, tensor.row_bytes)
                ends = ends and row + rows >= min((i + 1) * high, tensor.rows)
                if address % SECTOR_BYTES != 0 and not follows and goes_back and starts:
                    next_to |= BEFORE
                if (address + length) % SECTOR_BYTES != 0 and goes_on and ends:
                    next_to |= BEHIND
                # A sector that lies alone brings the other one of its fetch.
                if grown > 1.0 and wide == SECTOR_BYTES and rates.interleaved:
                    if address % rates.hbm_fetch_bytes >= SECTOR_BYTES:
                        next_to |= FETCHED_BEFORE if goes_back else 0
                    else:
                        next_to |= FETCHED_BEHIND if goes_on else 0
            if tensor.folded == 1 and memory.windows[granule] != window:
                renew(memory.l2, memory.ready, memory.free, memory.counter, rates, granule, time)
                memory.windows[granule] = window
            known = translate(memory.translated, memory.free, rates, address, time)
            if store:
                if tile.adds == 1:
                    added_to = reading_of(rates, 1.0, total, pieces, grown, passing)
                    fetch_to_add(memory, rates, granule, size, stride, added_to, time)
                    if tile.added == 0:
                        add(memory.slices, rates, place, size, part, tile.integers == 1, near, time)
                # The port has taken what atomics that give back bring.
                write_granule(
                    memory.l2, memory.ready, memory.free, memory.counter, rates, granule, size,
                    turns * (1 - tile.added), cost, sm, time, passing, next_to,
                )  # fmt: skip
            else:
                gives_back = tile.adds == 1
                arrival = read_granule(
                    memory, rates, granule, place, size, turns, stride, how, sm, time, gives_back, next_to
                )  # fmt: skip
                if gives_back:
                    known = max(known, add(memory.slices, rates, place, size, part, tile.integers == 1, near, time))
                done = max(done, arrival, known + rates.l2_latency)
    port = FIRST_L2 + 2 * rates.partitions + (sm if not store else rates.sms + sm)
    port_done = serve(memory.free, port, time, total * rates.sm_fill_cycles_per_byte)
    # The tile streams through the port behind its first bytes.
    return time if store else port_done + (done - time)


@inlined
def _in_sectors(size: int) -> int:
    """Bytes of the sectors that so many bytes fill [B]."""
    return (size + SECTOR_BYTES - 1) // SECTOR_BYTES * SECTOR_BYTES


@inlined
def _in_sectors_from(begin: int, size: int) -> int:
    """Bytes of the sectors that a stretch of a row touches [B]. Args: begin: in the row [B]; size: [B]."""
    return ((begin + size - 1) // SECTOR_BYTES - begin // SECTOR_BYTES + 1) * SECTOR_BYTES


@inlined
def _in_lines(begin: int, size: int) -> int:
    """Bytes of the lines that so many bytes touch [B]. Args: begin: of them [B]."""
    return ((begin + size - 1) // LINE_BYTES - begin // LINE_BYTES + 1) * LINE_BYTES
