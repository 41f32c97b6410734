"""Spilled registers in L2: each slot has granules of its own, numbered behind those of all tensors.

A step reloads granules, which must be present, and stores others, which it does not fetch first.
Registers lie at fixed places, and an execution touches those of the last; an array is gone round, place by place.
The time that this traffic takes on the links of L2 is part of the step's cost; here it takes room in L2,
evicts other data, is evicted itself, and is fetched again from HBM.
"""

import numpy as np

from ..jit import inlined
from ..scatter import scatter
from .copies import copy_of, keep_written, list_of
from .links import Rates, hbm_latency, read_hbm, reading_of, write_hbm
from .lru import insert, is_present, touch
from .memory import Memory, near_partition

ROUNDING = 1e-6
"""Share of a granule that sums of turns may be off by."""


@inlined
def turn(at: float, moved: float, granules: int) -> int:
    """What an execution touches of an array that it goes round, a bit for each granule.

    Args:
        at: how far it has gone; moved: how far it goes; granules: of the array.
    """
    touched = 0
    for i in range(int(at + ROUNDING), int(np.ceil(at + moved - ROUNDING)) if moved > 0.0 else 0):
        touched |= 1 << (i % granules)
    return touched


@inlined
def pass_spilled(
    memory: Memory, rates: Rates, slot: int, sm: int, spilled: int, reloaded: int, time: float
) -> float:  # fmt: skip
    """Store and reload the spilled registers of the step of a slot.

    Args:
        spilled, reloaded: a bit for each granule that the step writes, and that it reads before.

    Returns:
        When the reloaded granules have arrived.
    """
    l2, free, counter = memory.l2, memory.free, memory.counter
    parts, near = rates.partitions, near_partition(rates, sm)
    how = reading_of(rates, 1.0, rates.spilled_granules * rates.spilled_bytes, 0.0, 1.0, False)
    done = time
    for i in range(rates.spilled_granules):
        writes, reads = spilled >> i & 1, reloaded >> i & 1
        granule = rates.spilled_first + slot * rates.spilled_granules + i
        # What nobody has written yet is not there to be read.
        if not writes and not (reads and memory.windows[granule] == 1):
            continue
        first, last, share = 0, parts, rates.spilled_bytes if parts == 1 else rates.spilled_bytes // 2
        if not rates.interleaved:
            first = scatter(granule) % parts
            last, share = first + 1, rates.spilled_bytes
        for home in range(first, last):
            home_copy, group = copy_of(parts, granule, home, home), list_of(l2, parts, home, granule)
            written = 0
            if reads and not is_present(l2, home_copy) and memory.windows[granule] == 1:
                served = read_hbm(free, counter, rates, home_copy, share, 1, how.cost, time)
                done = max(done, served + hbm_latency(counter, rates, granule, 1, how, time))
                if not writes:
                    written += insert(l2, group, home_copy, share, False)
            elif not writes:
                touch(l2, group, home_copy)
            if writes:
                written += keep_written(l2, parts, granule, near, home, share, False)
            if written > 0:
                write_hbm(free, counter, rates, written, 1.0, time)
        if writes:
            memory.windows[granule] = 1
    return done
