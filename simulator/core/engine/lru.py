"""A least-recently-used cache as doubly linked lists over one array.

An *entry* is a number; its links and state are a row of `entry`, so a look-up needs no search and no hashing.
Each list is one set (or one L2 partition); its sentinel is a row behind all entries,
whose AFTER is the most, whose BEFORE the least recently used entry.
What is dirty is in a second such list, over `dirt`, by when it was written last:
beyond the most that may be dirty, the oldest is written back, and stays as a clean entry.
The arrays start as zeros, which the system maps lazily: entries never touched cost no memory.

Compiled functions take plain arrays, not tuples of arrays:
numba counts a reference for every array that it takes out of a tuple, which costs more than the work here.
"""

import numpy as np

from ..jit import compiled, inlined

BEFORE, AFTER, STATE, SIZE = 0, 1, 2, 3
"""Columns of `entry`."""
ABSENT, CLEAN, DIRTY = 0, 1, 2
"""Values of STATE."""
USED, CAPACITY, SOILED, MOST_SOILED = 0, 1, 2, 3
"""Columns of `lists`: bytes in use, bytes in all, dirty bytes, and the most of them."""


def make_lru(
    entries: int, capacities: np.ndarray, dirty_fraction: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An empty cache.

    Args:
        entries: numbers that may be cached; capacities: of each list [B];
        dirty_fraction: most of a list that may be dirty.

    Returns:
        (entry, dirt, lists): int32 of shapes (entries + lists, 4) and (entries + lists, 2), float64 (lists, 4).
    """
    lists = len(capacities)
    entry = np.zeros((entries + lists, 4), dtype=np.int32)
    dirt = np.zeros((entries + lists, 2), dtype=np.int32)
    sentinels = np.arange(entries, entries + lists)
    for links in (entry, dirt):
        links[sentinels, BEFORE] = links[sentinels, AFTER] = sentinels
    sizes = np.zeros((lists, 4))
    sizes[:, CAPACITY] = capacities
    sizes[:, MOST_SOILED] = dirty_fraction * sizes[:, CAPACITY]
    return entry, dirt, sizes


@inlined
def _link(links: np.ndarray, sentinel: int, number: int) -> None:
    first = links[sentinel, AFTER]
    links[number, BEFORE] = sentinel
    links[number, AFTER] = first
    links[first, BEFORE] = number
    links[sentinel, AFTER] = number


@inlined
def _unlink(links: np.ndarray, number: int) -> None:
    behind, ahead = links[number, BEFORE], links[number, AFTER]
    links[behind, AFTER] = ahead
    links[ahead, BEFORE] = behind


@inlined
def touch(entry: np.ndarray, sentinel: int, number: int) -> None:
    """An entry that is present has been used: make it the first of its list."""
    if entry[sentinel, AFTER] != number:
        _unlink(entry, number)
        _link(entry, sentinel, number)


@inlined
def soil(entry: np.ndarray, dirt: np.ndarray, lists: np.ndarray, which: int, number: int) -> int:
    """An entry that is present has been written. Returns: bytes written back of what has been dirty for longest [B]."""
    sentinel = len(entry) - len(lists) + which
    if entry[number, STATE] == DIRTY:
        _unlink(dirt, number)
    else:
        entry[number, STATE] = DIRTY
        lists[which, SOILED] += entry[number, SIZE]
    _link(dirt, sentinel, number)
    written = 0
    while lists[which, SOILED] > lists[which, MOST_SOILED]:
        oldest = dirt[sentinel, BEFORE]
        _unlink(dirt, oldest)
        entry[oldest, STATE] = CLEAN
        lists[which, SOILED] -= entry[oldest, SIZE]
        written += entry[oldest, SIZE]
    return written


@compiled
def insert(entry: np.ndarray, dirt: np.ndarray, lists: np.ndarray, which: int, number: int, size: int) -> int:
    """Bring in an entry that is absent, clean, evicting the least recently used. Returns: dirty bytes evicted [B]."""
    written = 0
    sentinel = len(entry) - len(lists) + which
    while lists[which, USED] + size > lists[which, CAPACITY]:
        victim = entry[sentinel, BEFORE]
        if victim == sentinel:
            break
        written += drop(entry, dirt, lists, which, victim)
    entry[number, STATE] = CLEAN
    entry[number, SIZE] = size
    lists[which, USED] += size
    _link(entry, sentinel, number)
    return written


@compiled
def drop(entry: np.ndarray, dirt: np.ndarray, lists: np.ndarray, which: int, number: int) -> int:
    """Remove an entry. Returns: its bytes if it was dirty, else 0 [B]."""
    _unlink(entry, number)
    size = entry[number, SIZE]
    dirty = entry[number, STATE] == DIRTY
    entry[number, STATE] = ABSENT
    lists[which, USED] -= size
    if not dirty:
        return 0
    _unlink(dirt, number)
    lists[which, SOILED] -= size
    return size
