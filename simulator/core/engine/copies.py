"""Copies of a granule in L2: which list each stands in, and what becomes of them when it is written or renamed.

Entries are numbered as `tile_path` says.
"""

import numpy as np

from ..jit import compiled, inlined
from .links import Rates, write_hbm
from .lru import ABSENT, STATE, drop, insert, soil, touch


@inlined
def list_of(lists: np.ndarray, parts: int, partition: int, granule: int) -> int:
    """The group of sets that a granule falls into: neighbours are spread evenly (golden ratio)."""
    groups = len(lists) // parts
    return partition * groups + (((granule * 0x9E3779B1) & 0xFFFFFFFF) * groups >> 32)


@compiled
def renew(
    entry: np.ndarray,
    dirt: np.ndarray,
    lists: np.ndarray,
    ready: np.ndarray,
    free: np.ndarray,
    counter: np.ndarray,
    rates: Rates,
    granule: int,
    time: float,
) -> None:
    """A granule's number now means another one, of which L2 holds nothing (see `lower`)."""
    parts = rates.partitions
    ready[granule] = 0.0
    written = 0
    for partition in range(parts):
        for home in range(parts):
            copy = (granule * parts + partition) * parts + home
            if entry[copy, STATE] != ABSENT:
                written += drop(entry, dirt, lists, list_of(lists, parts, partition, granule), copy)
    if written > 0:
        write_hbm(free, counter, rates, written, 1.0, time)


@inlined
def keep_written(
    entry: np.ndarray, dirt: np.ndarray, lists: np.ndarray, parts: int, granule: int, near: int, home: int, share: int
) -> int:
    """L2 keeps a share that was written: at home, dirty, and a copy on the writer's side. Returns: bytes driven out."""
    written = 0
    for other in range(parts):
        copy, group = (granule * parts + other) * parts + home, list_of(lists, parts, other, granule)
        if other != home and other != near:
            if entry[copy, STATE] != ABSENT:
                drop(entry, dirt, lists, group, copy)
        elif entry[copy, STATE] != ABSENT:
            touch(entry, len(entry) - len(lists) + group, copy)
        else:
            written += insert(entry, dirt, lists, group, copy, share)
    own = (granule * parts + home) * parts + home
    return written + soil(entry, dirt, lists, list_of(lists, parts, home, granule), own)
