"""Spilled registers on their way through L2: a slot's own granules, behind those of all tensors.

A step writes all that it touches, without fetching it; what it reads before it has written it must be there.
What the registers take of the links of L2 stands in the costs of the step; here they take room in it,
drive out others, are driven out themselves, and come back from HBM.
"""

from ..jit import inlined
from ..scatter import scatter
from .copies import copy_of, keep_written
from .links import Rates, read_hbm, write_hbm
from .lru import is_present
from .memory import Memory, near_partition


@inlined
def pass_spilled(memory: Memory, rates: Rates, slot: int, sm: int, granules: int, kept: int, time: float) -> float:
    """A slot's granules go to L2, and the first `kept` of them come from there.

    Args:
        granules: of the step.
        kept: of these, read before they are written.

    Returns:
        When those are there.
    """
    l2, free, counter = memory.l2, memory.free, memory.counter
    parts, near = rates.partitions, near_partition(rates, sm)
    done = time
    for i in range(granules):
        granule = rates.spilled_first + slot * rates.spilled_granules + i
        first, last, share = 0, parts, rates.spilled_bytes if parts == 1 else rates.spilled_bytes // 2
        if not rates.interleaved:
            first = scatter(granule) % parts
            last, share = first + 1, rates.spilled_bytes
        for home in range(first, last):
            own = copy_of(parts, granule, home, home)
            if i < kept and not is_present(l2, own) and memory.windows[granule] == 1:
                done = max(done, read_hbm(free, counter, rates, own, share, 1, time) + rates.hbm_latency)
            written = keep_written(l2, parts, granule, near, home, share)
            if written > 0:
                write_hbm(free, counter, rates, written, time)
        memory.windows[granule] = 1
    return done
