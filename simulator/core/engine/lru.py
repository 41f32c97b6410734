"""A least-recently-used cache as doubly linked lists over one array.

An *entry* is a number; its links and state are a row of `entry`, so a look-up needs no search and no hashing.
Each list is one set (or one L2 partition); its sentinel is a row behind all entries,
whose AFTER is the most, whose BEFORE the least recently used entry.
What is dirty is in a second such list, over `dirty`, by when it was written last:
beyond the most that may be dirty, the oldest is written back, and stays as a clean entry.
Dirty bytes that were there before anything ran (`left`) are no entries: they are older than all of these.
The arrays start as zeros, which the system maps lazily: entries never touched cost no memory.
"""

from typing import NamedTuple

import numpy as np

from ..jit import compiled, inlined

BEFORE, AFTER, STATE, SIZE = 0, 1, 2, 3
"""Columns of `Lru.entries`; the first two are those of `Lru.dirty` as well."""
ABSENT, CLEAN, DIRTY, PASSING = 0, 1, 2, 3
"""Values of STATE; the last is dirty too, and the next to leave once it is written back."""
USED, CAPACITY, DIRTY_BYTES, MOST_DIRTY_BYTES, LEFT_BYTES, DRIVEN_SHARE, COLUMNS = 0, 1, 2, 3, 4, 5, 6
"""Columns of `Lru.lists`: bytes in use, bytes in all, dirty bytes of entries, and the most that may be dirty; dirty
bytes left from before, and how many of these each byte that is brought in drives out."""


class Lru(NamedTuple):
    """A cache.

    Args:
        entries: int32 (entries + lists, 4), links, state and size of each entry, then the lists' sentinels.
        dirty: int32 (entries + lists, 2), links of what is dirty.
        lists: float64 (lists, COLUMNS), bytes of each list.
    """

    entries: np.ndarray
    dirty: np.ndarray
    lists: np.ndarray


def make_lru(
    entries: int, capacities: np.ndarray, dirty_fraction: float = 1.0, left_fraction: float = 0.0, driven: float = 0.0
) -> Lru:
    """A cache without entries.

    Args:
        entries: numbers that may be cached.
        capacities: of each list [B].
        dirty_fraction: most of a list that may be dirty; left_fraction: that is dirty from before.
        driven: bytes of these that leave for each byte that is brought in.
    """
    lists = len(capacities)
    lru = Lru(
        entries=np.zeros((entries + lists, 4), dtype=np.int32),
        dirty=np.zeros((entries + lists, 2), dtype=np.int32),
        lists=np.zeros((lists, COLUMNS)),
    )
    sentinels = np.arange(entries, entries + lists)
    for links in (lru.entries, lru.dirty):
        links[sentinels, BEFORE] = links[sentinels, AFTER] = sentinels
    lru.lists[:, CAPACITY] = capacities
    lru.lists[:, MOST_DIRTY_BYTES] = dirty_fraction * lru.lists[:, CAPACITY]
    lru.lists[:, LEFT_BYTES] = left_fraction * lru.lists[:, CAPACITY]
    lru.lists[:, DRIVEN_SHARE] = driven
    return lru


@inlined
def _link(links: np.ndarray, sentinel: int, number: int) -> None:
    first = links[sentinel, AFTER]
    links[number, BEFORE] = sentinel
    links[number, AFTER] = first
    links[first, BEFORE] = number
    links[sentinel, AFTER] = number


@inlined
def _link_last(links: np.ndarray, sentinel: int, number: int) -> None:
    last = links[sentinel, BEFORE]
    links[number, AFTER] = sentinel
    links[number, BEFORE] = last
    links[last, AFTER] = number
    links[sentinel, BEFORE] = number


@inlined
def _unlink(links: np.ndarray, number: int) -> None:
    behind, ahead = links[number, BEFORE], links[number, AFTER]
    links[behind, AFTER] = ahead
    links[ahead, BEFORE] = behind


@inlined
def _sentinel(lru: Lru, which: int) -> int:
    return len(lru.entries) - len(lru.lists) + which


@inlined
def is_present(lru: Lru, number: int) -> bool:
    """Whether an entry is cached."""
    return bool(lru.entries[number, STATE] != ABSENT)


@inlined
def touch(lru: Lru, which: int, number: int) -> None:
    """An entry of list `which` that is present has been used: it becomes the most recently used one."""
    entries, sentinel = lru.entries, _sentinel(lru, which)
    if entries[sentinel, AFTER] != number:
        _unlink(entries, number)
        _link(entries, sentinel, number)


@inlined
def _drive_out(lists: np.ndarray, which: int, most: float) -> int:
    """Write back what is left from before. Args: most: at most so much [B]. Returns: bytes written back."""
    out = max(0.0, min(lists[which, LEFT_BYTES], most))
    lists[which, LEFT_BYTES] -= out
    return int(out)


@inlined
def mark_dirty(lru: Lru, which: int, number: int, passing: bool) -> int:
    """An entry that is present has been written.

    Args:
        passing: it is the next to leave once it is written back.

    Returns:
        Bytes written back of what has been dirty for longest [B].
    """
    entries, lists, sentinel = lru.entries, lru.lists, _sentinel(lru, which)
    if entries[number, STATE] >= DIRTY:
        _unlink(lru.dirty, number)
    else:
        lists[which, DIRTY_BYTES] += entries[number, SIZE]
    entries[number, STATE] = PASSING if passing else DIRTY
    _link(lru.dirty, sentinel, number)
    written = _drive_out(
        lists, which, lists[which, DIRTY_BYTES] + lists[which, LEFT_BYTES] - lists[which, MOST_DIRTY_BYTES]
    )
    while lists[which, DIRTY_BYTES] > lists[which, MOST_DIRTY_BYTES]:
        oldest = lru.dirty[sentinel, BEFORE]
        _unlink(lru.dirty, oldest)
        if entries[oldest, STATE] == PASSING:
            _unlink(entries, oldest)
            _link_last(entries, sentinel, oldest)
        entries[oldest, STATE] = CLEAN
        lists[which, DIRTY_BYTES] -= entries[oldest, SIZE]
        written += entries[oldest, SIZE]
    return written


@compiled
def insert(lru: Lru, which: int, number: int, size: int, passing: bool) -> int:
    """Bring in an entry that is absent, clean, evicting the least recently used.

    Args:
        passing: it is the next to leave.

    Returns:
        Dirty bytes evicted [B].
    """
    entries, lists, sentinel = lru.entries, lru.lists, _sentinel(lru, which)
    written = _drive_out(lists, which, lists[which, DRIVEN_SHARE] * size)
    while lists[which, USED] + size > lists[which, CAPACITY]:
        victim = entries[sentinel, BEFORE]
        if victim == sentinel:
            break
        written += drop(lru, which, victim)
    entries[number, STATE] = CLEAN
    entries[number, SIZE] = size
    lists[which, USED] += size
    if passing:
        _link_last(entries, sentinel, number)
    else:
        _link(entries, sentinel, number)
    return written


@compiled
def drop(lru: Lru, which: int, number: int) -> int:
    """Remove an entry. Returns: its bytes if it was dirty, else 0 [B]."""
    entries, lists = lru.entries, lru.lists
    _unlink(entries, number)
    size = entries[number, SIZE]
    dirty = entries[number, STATE] >= DIRTY
    entries[number, STATE] = ABSENT
    lists[which, USED] -= size
    if not dirty:
        return 0
    _unlink(lru.dirty, number)
    lists[which, DIRTY_BYTES] -= size
    return size
