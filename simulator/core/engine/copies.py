"""Copies of a granule in L2: which list each stands in, and what becomes of them when it is written or renamed.

Partition p may hold a copy of the share that is homed in partition h: entry (granule * P + p) * P + h.
"""

import numpy as np

from ...limits import SECTOR_BYTES
from ..jit import compiled, inlined
from ..scatter import scatter
from .links import Rates, write_hbm
from .lru import DIRTY, STATE, Lru, drop, insert, is_present, mark_dirty, touch

BEFORE, BEHIND, FETCHED_BEFORE, FETCHED_BEHIND = 1, 2, 4, 8
"""Granules beside one that have a part of its first sector, or of its last, or that HBM gives in the same fetch."""
OF_ROWS = 4
"""Bits above which sectors are counted that rows of a granule share with what lies beside them."""


@inlined
def copy_of(parts: int, granule: int, partition: int, home: int) -> int:
    """The entry of a partition's copy of the share that another one is home to."""
    return (granule * parts + partition) * parts + home


@inlined
def list_of(l2: Lru, parts: int, partition: int, granule: int) -> int:
    """The group of sets that a granule falls into: neighbours are spread evenly (golden ratio)."""
    groups = len(l2.lists) // parts
    return partition * groups + (((granule * 0x9E3779B1) & 0xFFFFFFFF) * groups >> 32)


@inlined
def brought_along(l2: Lru, parts: int, interleaved: bool, granule: int, home: int, next_to: int, written: bool) -> int:
    """Bytes of a share that granules beside it have brought with theirs [B].

    Args:
        interleaved: as in `leave`; written: whether what is written counts, not what was only read.
    """
    shared = (next_to >> OF_ROWS) * SECTOR_BYTES // (parts if interleaved else 1)
    for bit, other in ((BEFORE, granule - 1), (BEHIND, granule + 1)):
        if next_to & bit:
            at = home if interleaved else scatter(other) % parts
            copy = copy_of(parts, other, at, at)
            if is_present(l2, copy) and (not written or l2.entries[copy, STATE] >= DIRTY):
                shared += SECTOR_BYTES // parts if interleaved else SECTOR_BYTES
    return shared


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
        write_hbm(free, counter, rates, written, 1.0, time)


@inlined
def keep_written(l2: Lru, parts: int, granule: int, near: int, home: int, share: int, passing: bool) -> int:
    """L2 keeps a share that was written: at home, dirty, and a copy on the writer's side.

    Args:
        parts: partitions.
        near: the writer's.
        home: of the share.
        share: its bytes [B].
        passing: L2 drops it before all else.

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
            written += insert(l2, group, copy, share, passing and other != home)
    return written + mark_dirty(l2, list_of(l2, parts, home, granule), copy_of(parts, granule, home, home), passing)


@inlined
def keep_read(l2: Lru, parts: int, granule: int, near: int, home: int, share: int) -> None:
    """L2 keeps a share that was read: at home, and of what is clean a copy on the reader's side. Args: as above."""
    copy, home_copy = copy_of(parts, granule, near, home), copy_of(parts, granule, home, home)
    if is_present(l2, copy):
        touch(l2, list_of(l2, parts, near, granule), copy)
        return
    if is_present(l2, home_copy):
        touch(l2, list_of(l2, parts, home, granule), home_copy)
    else:
        insert(l2, list_of(l2, parts, home, granule), home_copy, share, False)
    if home != near and l2.entries[home_copy, STATE] < DIRTY:
        insert(l2, list_of(l2, parts, near, granule), copy, share, False)


@compiled
def leave(l2: Lru, parts: int, interleaved: bool, streams: np.ndarray) -> None:
    """What a kernel leaves in L2 that goes through several runs of granules at the same pace, on both sides in turns.

    Args:
        parts: partitions; interleaved: whether all of them are home to each granule.
        streams: int64 (runs, 4), of each its first granule, how many, the bytes of one, and whether it is written.
    """
    turns = 0
    for stream in streams:
        turns = max(turns, stream[1])
    for turn in range(turns):
        for first, count, size, written in streams:
            for granule in range(first + turn * count // turns, first + (turn + 1) * count // turns):
                home, until, share = 0, parts, size // parts
                if not interleaved:
                    home = scatter(granule) % parts
                    until, share = home + 1, size
                while home < until:
                    if written:
                        keep_written(l2, parts, granule, turn % parts, home, share, False)
                    else:
                        keep_read(l2, parts, granule, turn % parts, home, share)
                    home += 1
