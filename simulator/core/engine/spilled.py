"""Spilled registers on their way through L2: a slot's own granules, behind those of all tensors.

A step writes granules without fetching them; those that it reads before must be there.
What the registers take of the links of L2 stands in the costs of the step; here they take room in it,
drive out others, are driven out themselves, and come back from HBM.
"""

from ..jit import inlined
from ..scatter import scatter
from .copies import copy_of, keep_written, list_of
from .links import Rates, read_hbm, write_hbm
from .lru import insert, is_present, touch
from .memory import Memory, near_partition


@inlined
def pass_spilled(
    memory: Memory, rates: Rates, slot: int, sm: int, spilled: int, reloaded: int, time: float
) -> float:  # fmt: skip
    """Granules of a slot go to L2, and come from there.

    Args:
        spilled, reloaded: a bit for each granule that the step writes, and that it reads before.

    Returns:
        When those are there that it reads.
    """
    l2, free, counter = memory.l2, memory.free, memory.counter
    parts, near = rates.partitions, near_partition(rates, sm)
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
            own, group = copy_of(parts, granule, home, home), list_of(l2, parts, home, granule)
            written = 0
            if reads and not is_present(l2, own) and memory.windows[granule] == 1:
                done = max(done, read_hbm(free, counter, rates, own, share, 1, 1.0, 1.0, time) + rates.hbm_latency)
                if not writes:
                    written += insert(l2, group, own, share)
            elif not writes:
                touch(l2, group, own)
            if writes:
                written += keep_written(l2, parts, granule, near, home, share)
            if written > 0:
                write_hbm(free, counter, rates, written, 1.0, time)
        if writes:
            memory.windows[granule] = 1
    return done
