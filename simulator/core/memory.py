"""The path of a tile: L1, coalescer, near L2 partition, fabric, far partition, HBM; and back.

A *granule* is the unit of residency: a rectangle that all launches touch as a whole (chunks), or a 128-byte line.
A granule is homed in every partition by an equal share (chunks: lines interleave finely) or in one by hash (lines).
An SM reads through its own partition; what is homed elsewhere comes over the fabric and leaves a copy in the near one.
Every link is a server: it takes requests in order of time, one after the other, at its bandwidth.
Entry of the copy in partition p of the share homed in partition h of granule g: (g * P + p) * P + h.
"""

from typing import NamedTuple

import numpy as np

from .compiled import compiled, inlined
from .links import (
    FABRIC,
    FABRIC_LINK,
    FIRST_L2,
    L1_HIT,
    L2_READ,
    L2_WRITE,
    Rates,
    serve,
    transfer,
)
from .lru import ABSENT, CLEAN, DIRTY, STATE, drop, insert, soil, touch

# Columns of `tensors`.
BASE, SLAB_GRANULES, ROW_GRANULES, GRANULE_ROWS, GRANULE_ROW_BYTES, ROWS, ROW_BYTES, PACKED, FOLD = range(9)
# Columns of `tiles`; affine origins are two (variable, coefficient) pairs each, columns in bytes.
TENSOR, SLAB, TILE_ROWS, TILE_ROW_BYTES, ASYNCHRONOUS, ROW_TERMS, COL_TERMS = 0, 1, 2, 3, 4, 5, 9
TILE_COLUMNS = 13
TERMS = 2
# Columns of `pending` and of `l1`.
GRANULE, UNTIL = 0, 1
TAG, BYTES = 0, 1
COALESCER_SLOTS, COALESCER_LINE_SLOTS = 1024, 16384
L1_ENTRIES = 64
LINE_BYTES = 128


class Memory(NamedTuple):
    """Everything that outlives a tile access.

    entry, lists: the L2 (see `lru`); ready: float64 per granule, when its last fill arrives;
    free: float64, when each link is free; pending: float64 (coalescers, slots, 2), reads under way, the slots
    a power of two that hardly ever makes two of them collide;
    l1: int64 (SMs, L1_ENTRIES + 1, 2), a ring of tiles and its newest element; counter: float64, see `links`.
    """

    entry: np.ndarray
    lists: np.ndarray
    ready: np.ndarray
    free: np.ndarray
    pending: np.ndarray
    l1: np.ndarray
    counter: np.ndarray


@compiled
def _fetch(
    entry: np.ndarray,
    lists: np.ndarray,
    free: np.ndarray,
    counter: np.ndarray,
    rates: Rates,
    granule: int,
    near: int,
    home: int,
    share: int,
    cost: float,
    latency: float,
    time: float,
) -> float:
    """Bring a share that the near partition lacks, over the fabric or from HBM. Returns: when it is there."""
    parts = rates.partitions
    sentinel = len(entry) - len(lists) + home
    own = (granule * parts + home) * parts + home
    done = time
    written = 0
    if home != near:
        counter[FABRIC] += share
        done = serve(free, FABRIC_LINK, time, share * rates.fabric_cycles_per_byte) + rates.fabric_latency
    if home != near and entry[own, STATE] != ABSENT:
        touch(entry, sentinel, own)
    else:
        arrival = transfer(free, counter, rates, share, False, cost, time) + latency
        done = max(done, arrival + (rates.fabric_latency if home != near else 0.0))
        written += insert(entry, lists, home, own, share, CLEAN)
    if home != near and entry[own, STATE] != DIRTY:
        written += insert(entry, lists, near, (granule * parts + near) * parts + home, share, CLEAN)
    if written > 0:
        transfer(free, counter, rates, written, True, 1.0, time)
    return done


@inlined
def _hash(granule: int) -> int:
    """Scatters granule numbers: tensors are often powers of two apart (Fibonacci hashing)."""
    return ((granule * 0x9E3779B1) & 0xFFFFFFFF) >> 15


@inlined
def _read_granule(
    entry: np.ndarray,
    lists: np.ndarray,
    ready: np.ndarray,
    free: np.ndarray,
    pending: np.ndarray,
    counter: np.ndarray,
    rates: Rates,
    granule: int,
    size: int,
    cost: float,
    latency: float,
    sm: int,
    time: float,
) -> float:
    """An SM reads a granule through coalescer and L2. Returns: when its data reaches the SM's port."""
    unit = sm // rates.coalescer_sms
    slot = _hash(granule) & (pending.shape[1] - 1)
    if pending[unit, slot, GRANULE] == granule + 1 and pending[unit, slot, UNTIL] > time:
        return pending[unit, slot, UNTIL]
    parts = rates.partitions
    near = 1 if parts * sm >= rates.sms else 0
    counter[L2_READ] += size
    done = serve(free, FIRST_L2 + near, time, size * rates.l2_read_cycles_per_byte)
    first, last, share = 0, parts, size if parts == 1 else size // 2
    if not rates.interleaved:
        first = _hash(granule) % parts
        last, share = first + 1, size
    fetched = False
    for home in range(first, last):
        copy = (granule * parts + near) * parts + home
        if entry[copy, STATE] != ABSENT:
            touch(entry, len(entry) - len(lists) + near, copy)
        else:
            fetched = True
            done = max(
                done, _fetch(entry, lists, free, counter, rates, granule, near, home, share, cost, latency, time)
            )
    # Another SM's fill may still be on its way, also where this one only copies it from the far partition.
    done = max(done, ready[granule])
    if fetched:
        ready[granule] = done
    done += rates.l2_latency
    pending[unit, slot, GRANULE] = granule + 1
    pending[unit, slot, UNTIL] = done
    return done


@compiled
def _write_granule(
    entry: np.ndarray,
    lists: np.ndarray,
    free: np.ndarray,
    counter: np.ndarray,
    rates: Rates,
    granule: int,
    size: int,
    cost: float,
    sm: int,
    time: float,
) -> None:
    """An SM writes a granule to its home; copies of it elsewhere are dropped.

    What this drives out of L2 takes as long to write as this would: it comes from the same stream as a rule.
    """
    parts = rates.partitions
    near = 1 if parts * sm >= rates.sms else 0
    counter[L2_WRITE] += size
    first, last, share = 0, parts, size if parts == 1 else size // 2
    if not rates.interleaved:
        first = _hash(granule) % parts
        last, share = first + 1, size
    for home in range(first, last):
        own = (granule * parts + home) * parts + home
        serve(free, FIRST_L2 + home, time, share * rates.l2_write_cycles_per_byte)
        if home != near:
            counter[FABRIC] += share
            serve(free, FABRIC_LINK, time, share * rates.fabric_cycles_per_byte)
        for other in range(parts):
            copy = (granule * parts + other) * parts + home
            if other != home and entry[copy, STATE] != ABSENT:
                drop(entry, lists, other, copy)
        if entry[own, STATE] != ABSENT:
            touch(entry, len(entry) - len(lists) + home, own)
            soil(entry, lists, home, own)
        else:
            written = insert(entry, lists, home, own, share, DIRTY)
            if written > 0:
                transfer(free, counter, rates, written, True, cost, time)


@compiled
def _l1_hit(l1: np.ndarray, capacity: float, tag: int, size: int, sm: int) -> bool:
    """Look a tile up in an SM's L1 and make it the newest. A tile is the unit: a CTA sweeps whole tiles."""
    newest = l1[sm, L1_ENTRIES, TAG]
    total = size
    for age in range(L1_ENTRIES):
        at = (newest - age) % L1_ENTRIES
        if l1[sm, at, BYTES] == 0 or total > capacity:
            break
        if l1[sm, at, TAG] == tag and l1[sm, at, BYTES] == size:
            for _ in range(age):
                after = (at + 1) % L1_ENTRIES
                l1[sm, at, TAG], l1[sm, at, BYTES] = l1[sm, after, TAG], l1[sm, after, BYTES]
                at = after
            l1[sm, newest, TAG], l1[sm, newest, BYTES] = tag, size
            return True
        total += l1[sm, at, BYTES]
    newest = (newest + 1) % L1_ENTRIES
    l1[sm, newest, TAG] = tag
    l1[sm, newest, BYTES] = size
    l1[sm, L1_ENTRIES, TAG] = newest
    return False


@inlined
def _l1_forget(l1: np.ndarray, tag: int, sm: int) -> None:
    """A tile that an SM stores is no longer in its L1.

    On an H200 flash1 loads O again from L2 where it does so right after the store (99 % of the bytes of two launches
    of one query tile); of slices of 16 query tiles, which fit L1, 40 % of the bytes hit. This counts none.
    """
    for at in range(L1_ENTRIES):
        if l1[sm, at, TAG] == tag:
            l1[sm, at, TAG] = -1


@inlined
def _sectors(size: int) -> int:
    return (size + 31) // 32 * 32


@inlined
def access_tile(
    entry: np.ndarray,
    lists: np.ndarray,
    ready: np.ndarray,
    free: np.ndarray,
    pending: np.ndarray,
    l1: np.ndarray,
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
    which = tiles[tile, TENSOR]
    row = 0
    col = 0
    for term in range(0, 2 * TERMS, 2):
        row += environment[slot, tiles[tile, ROW_TERMS + term]] * tiles[tile, ROW_TERMS + term + 1]
        col += environment[slot, tiles[tile, COL_TERMS + term]] * tiles[tile, COL_TERMS + term + 1]
    rows = min(tiles[tile, TILE_ROWS], tensors[which, ROWS] - row)
    width = min(tiles[tile, TILE_ROW_BYTES], tensors[which, ROW_BYTES] - col)
    if rows <= 0 or width <= 0:
        return time
    whole = tensors[which, PACKED] == 1 and width == tensors[which, ROW_BYTES]
    total = _sectors(rows * width) if whole else rows * _sectors(width)
    high, wide = tensors[which, GRANULE_ROWS], tensors[which, GRANULE_ROW_BYTES]
    per_row, fold = tensors[which, ROW_GRANULES], tensors[which, FOLD]
    slab = environment[slot, tiles[tile, SLAB]] * tensors[which, SLAB_GRANULES]
    base = tensors[which, BASE]
    first_row, first_col, last_col = row // high, 0, 0
    last_row = first_row if row + rows <= (first_row + 1) * high else (row + rows - 1) // high
    if wide < tensors[which, ROW_BYTES]:
        first_col, last_col = col // wide, (col + width - 1) // wide
    tag = (slab + first_row * per_row + first_col) * len(tensors) + which
    if store:
        _l1_forget(l1, tag, sm)
    elif tiles[tile, ASYNCHRONOUS] == 0 and _l1_hit(l1, rates.l1_bytes, tag, total, sm):
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
        for j in range(first_col, last_col + 1):
            part_width = min((j + 1) * wide, col + width) - max(j * wide, col)
            size = _sectors(part_rows * part_width) if whole else part_rows * _sectors(part_width)
            granule = slab + i * per_row + j
            granule = base + (granule if granule < fold else granule % fold)
            if store:
                _write_granule(entry, lists, free, counter, rates, granule, size, cost, sm, time)
            else:
                arrival = _read_granule(
                    entry, lists, ready, free, pending, counter, rates, granule, size, cost, latency, sm, time
                )  # fmt: skip
                if arrival > done:
                    done = arrival
    port = FIRST_L2 + rates.partitions + (sm if not store else rates.sms + sm)
    port_done = serve(free, port, time, total * rates.sm_fill_cycles_per_byte)
    # The tile streams through the port behind its first bytes.
    return time if store else port_done + (done - time)
