"""What SMs read of L2 and write: what a partition lacks comes over the fabric, or from HBM, and may drive out data."""

import numpy as np

from ...limits import LINE_BYTES, SECTOR_BYTES
from ..jit import compiled, inlined
from ..scatter import scatter
from .copies import (
    BEFORE,
    BEHIND,
    FETCHED_BEFORE,
    FETCHED_BEHIND,
    OF_ROWS,
    brought_along,
    copy_of,
    keep_written,
    list_of,
)
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
    Reading,
    hbm_latency,
    read_hbm,
    serve,
    write_hbm,
)
from .lru import DIRTY, STATE, Lru, insert, is_present, touch
from .memory import ARRIVES, ASKED, Memory, near_partition
from .slices import request


@compiled
def fetch(
    l2: Lru, free: np.ndarray, counter: np.ndarray, rates: Rates, granule: int, near: int, home: int, share: int,
    stride: int, how: Reading, time: float,
) -> float:  # fmt: skip
    """Bring a share that the near partition lacks, over the fabric or from HBM.

    Args:
        near, home: partitions, of the SM and of the share.
        share: its bytes [B].
        stride: granules that this one stands for.
        how: HBM gives the tile.

    Returns:
        When it is there.
    """
    parts = rates.partitions
    group, home_copy = list_of(l2, parts, home, granule), copy_of(parts, granule, home, home)
    done = time
    written = 0
    if home != near:
        counter[FABRIC] += share
        done = serve(free, FABRIC_LINK, time, share * rates.fabric_cycles_per_byte) + rates.fabric_latency
    if home != near and is_present(l2, home_copy):
        touch(l2, group, home_copy)
    else:
        # Lines that lie together come from one channel, as a chunk's do.
        block = (
            home_copy if rates.interleaved else granule * LINE_BYTES // (parts * rates.hbm_channel_bytes) * parts + home
        )
        arrival = read_hbm(free, counter, rates, block, share, stride, how.cost, time)
        arrival += hbm_latency(counter, rates, granule, stride, how, time)
        done = max(done, arrival + (rates.fabric_latency if home != near else 0.0))
        written += insert(l2, group, home_copy, share, how.passing)
    if home != near and l2.entries[home_copy, STATE] < DIRTY:
        written += insert(
            l2, list_of(l2, parts, near, granule), copy_of(parts, granule, near, home), share, how.passing
        )
    if written > 0:
        write_hbm(free, counter, rates, written, 1.0, time)
    return done


@inlined
def fetch_to_add(memory: Memory, rates: Rates, granule: int, size: int, stride: int, how: Reading, time: float) -> None:
    """Bring home what an SM adds to, where L2 lacks it; nobody waits for that."""
    parts = rates.partitions
    first, last, share = 0, parts, size if parts == 1 else size // 2
    if not rates.interleaved:
        first = scatter(granule) % parts
        last, share = first + 1, size
    share = int(share * how.grown)
    for home in range(first, last):
        if not is_present(memory.l2, copy_of(parts, granule, home, home)):
            fetch(
                memory.l2, memory.free, memory.counter, rates, granule, home, home, share, stride, how, time
            )  # fmt: skip


@inlined
def _has_been_read(l2: Lru, copy: int) -> bool:
    """Whether a copy is there that came from HBM: what a store left brings nothing of what lies beside it."""
    return is_present(l2, copy) and l2.entries[copy, STATE] < DIRTY


@inlined
def read_granule(
    memory: Memory, rates: Rates, granule: int, place: int, size: int, turns: int, stride: int, how: Reading, sm: int,
    time: float, gives_back: bool, next_to: int,
) -> float:  # fmt: skip
    """An SM reads a granule through coalescer and L2.

    Args:
        as `fetch`; place: as of `additions.add`; turns: bytes that L2 could give in the time [B];
        gives_back: whether atomics do, which nobody else gets; next_to: granules that bring a part, see `copies`.

    Returns:
        When it arrives at the SM's port.
    """
    l2, ready, free, asked, counter = memory.l2, memory.ready, memory.free, memory.asked, memory.counter
    unit = sm // rates.coalescer_sms
    slot = scatter(granule) & (len(asked) - 1)
    parts, near = rates.partitions, near_partition(rates, sm)
    taken = time if gives_back else request(memory.slices, rates, place, size // stride, near, time)
    # What is asked for sector by sector is hardly ever joined (counted: a tenth of what could be).
    joins = turns <= size and not gives_back
    if joins and asked[slot, unit, ASKED] == granule + 1 and asked[slot, unit, ARRIVES] > time:
        return max(asked[slot, unit, ARRIVES], taken + rates.l2_latency)
    counter[L2_READ] += size
    cycles = size * rates.given_back_cycles_per_byte if gives_back else turns * rates.l2_read_cycles_per_byte
    # Its request goes where stores go, behind those that came before; atomics keep that port until they give back.
    asking = cycles if gives_back else turns * rates.l2_read_cycles_per_byte * rates.l2_request_share
    begins = serve(free, FIRST_L2 + parts + near, time, asking) - asking
    done = serve(free, FIRST_L2 + near, begins, cycles)
    first, last, share = 0, parts, size if parts == 1 else size // 2
    if not rates.interleaved:
        first = scatter(granule) % parts
        last, share = first + 1, size
    share = int(share * how.grown)
    known = next_to >> OF_ROWS
    known += int(next_to & BEFORE and ready[granule - 1] >= rates.after_begin)
    known += int(next_to & BEHIND and ready[granule + 1] >= rates.after_begin)
    fetched, touched_before, brought = False, ready[granule] >= rates.after_begin, counter[HBM_READ]
    if touched_before:
        next_to -= next_to & BEHIND  # what has been read before has brought its last sector itself, and lost it
    fellow = granule - 1 if next_to & FETCHED_BEFORE else granule + 1 if next_to & FETCHED_BEHIND else -1
    for home in range(first, last):
        copy = copy_of(parts, granule, near, home)
        if is_present(l2, copy):
            if not how.passing:
                touch(l2, list_of(l2, parts, near, granule), copy)
        elif fellow >= 0 and _has_been_read(l2, copy_of(parts, fellow, home, home)):
            counter[FABRIC] += share if home != near else 0
            done = max(done, ready[fellow])
        else:
            fetched = True
            missing = share
            if next_to:
                missing -= min(share, brought_along(l2, parts, rates.interleaved, granule, home, next_to, False))
            arrival = fetch(l2, free, counter, rates, granule, near, home, missing, stride, how, time)
            done = max(done, arrival)
    # Another SM's fill may still be on its way, also where this one only copies it from the far partition.
    done = max(done, ready[granule])
    if not touched_before:
        counter[TOUCHED] += max(0, size - known * SECTOR_BYTES)
        counter[FIRST] += counter[HBM_READ] - brought
        ready[granule] = max(time, rates.after_begin)
    if fetched:
        ready[granule] = done
    done = max(done, taken) + rates.l2_latency
    asked[slot, unit, ASKED] = granule + 1
    asked[slot, unit, ARRIVES] = done
    return done


@compiled
def write_granule(
    l2: Lru, ready: np.ndarray, free: np.ndarray, counter: np.ndarray, rates: Rates, granule: int, size: int,
    turns: int, cost: float, sm: int, time: float, passing: bool, next_to: int,
) -> None:  # fmt: skip
    """An SM writes a granule to its home, and keeps a copy in its own partition; other copies are dropped.

    What this evicts from L2 is written to HBM at the same cost, as it usually belongs to the same stream of stores.

    Args:
        size: of the granule [B].
        turns: bytes that L2 could take in the time [B].
        cost: how many times as long as in one long row HBM takes.
        passing: L2 drops it before all else; next_to: as of `read_granule`.
    """
    parts, near = rates.partitions, near_partition(rates, sm)
    if ready[granule] >= rates.after_begin:
        next_to -= next_to & BEHIND
    ready[granule] = max(ready[granule], rates.after_begin)  # not for the launch to fetch
    counter[L2_WRITE] += size
    first, last, share = 0, parts, size if parts == 1 else size // 2
    if not rates.interleaved:
        first = scatter(granule) % parts
        last, share = first + 1, size
    for home in range(first, last):
        serve(free, FIRST_L2 + parts + home, time, turns / (last - first) * rates.l2_write_cycles_per_byte)
        if home != near:
            counter[FABRIC] += share
            serve(free, FABRIC_LINK, time, share * rates.fabric_cycles_per_byte)
        kept = share
        if next_to:
            kept -= min(share, brought_along(l2, parts, rates.interleaved, granule, home, next_to, True))
        written = keep_written(l2, parts, granule, near, home, kept, passing)
        if written > 0:
            write_hbm(free, counter, rates, written, cost, time)
