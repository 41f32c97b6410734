"""The path of a granule: coalescer, near L2 partition, fabric, far partition, HBM; and back.

A *granule* is the unit of residency: a rectangle that all launches touch as a whole (chunks), or a 128-byte line.
A granule is homed in every partition by an equal share (chunks: lines interleave finely) or in one by hash (lines).
An SM reads through its own partition; what is homed elsewhere comes over the fabric and leaves a copy in the near one.
Every link is a server: it takes requests in order of time, one after the other, at its bandwidth.
Entry of the copy in partition p of the share homed in partition h of granule g: (g * P + p) * P + h.
"""

from typing import NamedTuple

import numpy as np

from ...limits import LINE_BYTES
from ..jit import compiled, inlined
from ..scatter import scatter
from .copies import keep_written, list_of
from .links import (
    FABRIC,
    FABRIC_LINK,
    FIRST,
    FIRST_L2,
    HBM_READ,
    L2_READ,
    L2_WRITE,
    TOUCHED,
    Rates,
    read_hbm,
    serve,
    write_hbm,
)
from .lru import ABSENT, DIRTY, STATE, insert, touch

# Elements of a slot of a coalescer.
ASKED, ARRIVES = 0, 1
COALESCER_SLOTS, COALESCER_LINE_SLOTS = 1024, 16384
"""Slots of a coalescer for chunks and for lines: powers of two that hardly ever make two reads under way collide."""


class Memory(NamedTuple):
    """Everything that outlives a tile access.

    entry, dirt, lists: the L2 (see `lru`); ready: float64 per granule, when its last fill arrives, or when it was
    touched first;
    windows: int32 per granule, which of those that share its number it is, or whether spilled registers were written;
    free: float64, when each link is free; asked: float64, (slots, coalescers, 2), reads under way: their granule, plus
    one, and when they arrive; the slots a power of two that hardly ever makes two of them collide;
    ring, seen, stamps: the L1 of each SM (see `l1`); counter: float64, see `links`.
    """

    entry: np.ndarray
    dirt: np.ndarray
    lists: np.ndarray
    ready: np.ndarray
    windows: np.ndarray
    free: np.ndarray
    asked: np.ndarray
    ring: np.ndarray
    seen: np.ndarray
    stamps: np.ndarray
    counter: np.ndarray


@compiled
def _fetch(
    entry: np.ndarray,
    dirt: np.ndarray,
    lists: np.ndarray,
    free: np.ndarray,
    counter: np.ndarray,
    rates: Rates,
    granule: int,
    near: int,
    home: int,
    share: int,
    apart: int,
    cost: float,
    latency: float,
    time: float,
) -> float:
    """Bring a share that the near partition lacks, over the fabric or from HBM. Returns: when it is there."""
    parts = rates.partitions
    group = list_of(lists, parts, home, granule)
    own = (granule * parts + home) * parts + home
    done = time
    written = 0
    if home != near:
        counter[FABRIC] += share
        done = serve(free, FABRIC_LINK, time, share * rates.fabric_cycles_per_byte) + rates.fabric_latency
    if home != near and entry[own, STATE] != ABSENT:
        touch(entry, len(entry) - len(lists) + group, own)
    else:
        # Lines that lie together come from one channel, as a chunk's do.
        block = own if rates.interleaved else granule * LINE_BYTES // (parts * rates.hbm_channel_bytes) * parts + home
        arrival = read_hbm(free, counter, rates, block, share, apart, cost, time) + latency
        done = max(done, arrival + (rates.fabric_latency if home != near else 0.0))
        written += insert(entry, dirt, lists, group, own, share)
    if home != near and entry[own, STATE] != DIRTY:
        copies = list_of(lists, parts, near, granule)
        written += insert(entry, dirt, lists, copies, (granule * parts + near) * parts + home, share)
    if written > 0:
        write_hbm(free, counter, rates, written, 1.0, time)
    return done


@inlined
def read_granule(
    entry: np.ndarray,
    dirt: np.ndarray,
    lists: np.ndarray,
    ready: np.ndarray,
    free: np.ndarray,
    asked: np.ndarray,
    counter: np.ndarray,
    rates: Rates,
    granule: int,
    size: int,
    apart: int,
    cost: float,
    latency: float,
    sm: int,
    time: float,
) -> float:
    """An SM reads a granule through coalescer and L2. Returns: when its data reaches the SM's port."""
    unit = sm // rates.coalescer_sms
    slot = scatter(granule) & (len(asked) - 1)
    if asked[slot, unit, ASKED] == granule + 1 and asked[slot, unit, ARRIVES] > time:
        return asked[slot, unit, ARRIVES]
    parts = rates.partitions
    near = 1 if parts * sm >= rates.sms else 0
    counter[L2_READ] += size
    done = serve(free, FIRST_L2 + near, time, size * rates.l2_read_cycles_per_byte)
    first, last, share = 0, parts, size if parts == 1 else size // 2
    if not rates.interleaved:
        first = scatter(granule) % parts
        last, share = first + 1, size
    fetched, touched_before, brought = False, ready[granule] >= rates.after_begin, counter[HBM_READ]
    for home in range(first, last):
        copy = (granule * parts + near) * parts + home
        if entry[copy, STATE] != ABSENT:
            touch(entry, len(entry) - len(lists) + list_of(lists, parts, near, granule), copy)
        else:
            fetched = True
            arrival = _fetch(
                entry, dirt, lists, free, counter, rates, granule, near, home, share, apart, cost, latency, time
            )
            done = max(done, arrival)
    # Another SM's fill may still be on its way, also where this one only copies it from the far partition.
    done = max(done, ready[granule])
    if not touched_before:
        counter[TOUCHED] += size
        counter[FIRST] += counter[HBM_READ] - brought
        ready[granule] = max(time, rates.after_begin)
    if fetched:
        ready[granule] = done
    done += rates.l2_latency
    asked[slot, unit, ASKED] = granule + 1
    asked[slot, unit, ARRIVES] = done
    return done


@compiled
def write_granule(
    entry: np.ndarray,
    dirt: np.ndarray,
    lists: np.ndarray,
    ready: np.ndarray,
    free: np.ndarray,
    counter: np.ndarray,
    rates: Rates,
    granule: int,
    size: int,
    cost: float,
    sm: int,
    time: float,
) -> None:
    """An SM writes a granule to its home, and keeps a copy in its own partition; other copies are dropped.

    What this drives out of L2 takes as long to write as this would: it comes from the same stream as a rule.
    """
    parts = rates.partitions
    near = 1 if parts * sm >= rates.sms else 0
    ready[granule] = max(ready[granule], rates.after_begin)  # not for the launch to fetch
    counter[L2_WRITE] += size
    first, last, share = 0, parts, size if parts == 1 else size // 2
    if not rates.interleaved:
        first = scatter(granule) % parts
        last, share = first + 1, size
    for home in range(first, last):
        serve(free, FIRST_L2 + home, time, share * rates.l2_write_cycles_per_byte)
        if home != near:
            counter[FABRIC] += share
            serve(free, FABRIC_LINK, time, share * rates.fabric_cycles_per_byte)
        written = keep_written(entry, dirt, lists, parts, granule, near, home, share)
        if written > 0:
            write_hbm(free, counter, rates, written, cost, time)
