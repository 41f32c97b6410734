"""Copies of a granule in L2: which list each stands in, and what becomes of them when it is written or renamed.

Partition p may hold a copy of the share that is homed in partition h: entry (granule * P + p) * P + h.
"""

import numpy as np

from ..jit import compiled, inlined
from .links import Rates, write_hbm
from .lru import Lru, drop, insert, is_present, mark_dirty, touch


@inlined
def copy_of(parts: int, granule: int, partition: int, home: int) -> int:
    """The entry of a partition's copy of the share that another one is home to."""
    return (granule * parts + partition) * parts + home


@inlined
def list_of(l2: Lru, parts: int, partition: int, granule: int) -> int:
    """The group of sets that a granule falls into: neighbours are spread evenly (golden ratio)."""
    groups = len(l2.lists) // parts
    return partition * groups + (((granule * 0x9E3779B1) & 0xFFFFFFFF) * groups >> 32)


@compiled
def renew(
    l2: Lru, ready: np.ndarray, free: np.ndarray, counter: np.ndarray, rates: Rates, granule: int, time: float
) -> None:
    """A granule's number now means another one, of which L2 holds nothing (see `engine.lower`)."""
    parts = rates.partitions
    ready[granule] = 0.0
    written = 0
    for partition in range(parts):
        for home in range(parts):
            copy = copy_of(parts, granule, partition, home)
            if is_present(l2, copy):
                written += drop(l2, list_of(l2, parts, partition, granule), copy)
    if written > 0:
        write_hbm(free, counter, rates, written, time)


@inlined
def keep_written(l2: Lru, parts: int, granule: int, near: int, home: int, share: int) -> int:
    """L2 keeps a share that was written: at home, dirty, and a copy on the writer's side.

    Args:
        parts: partitions.
        near: the writer's.
        home: of the share.
        share: its bytes [B].

    Returns:
        Dirty bytes that this drives out [B].
    """
    written = 0
    for other in range(parts):
        copy, group = copy_of(parts, granule, other, home), list_of(l2, parts, other, granule)
        if other != home and other != near:
            if is_present(l2, copy):
                drop(l2, group, copy)
        elif is_present(l2, copy):
            touch(l2, group, copy)
        else:
            written += insert(l2, group, copy, share)
    return written + mark_dirty(l2, list_of(l2, parts, home, granule), copy_of(parts, granule, home, home))
