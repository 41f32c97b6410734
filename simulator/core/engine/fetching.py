"""Fetching: what an L2 partition lacks comes over the fabric, or from HBM, and may drive out other data."""

import numpy as np

from ...limits import LINE_BYTES
from ..jit import compiled, inlined
from ..scatter import scatter
from .copies import copy_of, list_of
from .links import FABRIC, FABRIC_LINK, Rates, Reading, hbm_latency, read_hbm, serve, write_hbm
from .lru import DIRTY, STATE, Lru, insert, is_present, touch
from .memory import Memory


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
