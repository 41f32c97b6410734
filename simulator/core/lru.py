"""A least-recently-used cache as doubly linked lists over one array.

An *entry* is a number; its links and state are a row of `entry`, so a look-up needs no search and no hashing.
Each list is one set (or one L2 partition); its sentinel is a row behind all entries,
whose AFTER is the most, whose BEFORE the least recently used entry.
The array starts as zeros, which the system maps lazily: entries never touched cost no memory.

Compiled functions take plain arrays, not tuples of arrays:
numba counts a reference for every array that it takes out of a tuple, which costs more than the work here.
"""

import numpy as np

from .compiled import compiled, inlined

BEFORE, AFTER, STATE, SIZE = 0, 1, 2, 3
"""Columns of `entry`."""
ABSENT, CLEAN, DIRTY = 0, 1, 2
"""Values of STATE."""
USED, CAPACITY, DIRTY_SPACE = 0, 1, 2
"""Columns of `lists`: bytes in use, bytes in all, and how many times its size a dirty entry takes."""
EMPTY_TAG = -2
"""An empty way of `run_lines`: clean, and no line's."""


def make_lru(entries: int, lists: int, capacity: float, dirty_space: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """An empty cache.

    Args:
        entries: numbers that may be cached; lists: sets or partitions; capacity: of each list [B];
        dirty_space: how many times its size a dirty entry takes.

    Returns:
        (entry, lists): int32 of shape (entries + lists, 4), float64 of shape (lists, 3).
    """
    entry = np.zeros((entries + lists, 4), dtype=np.int32)
    sentinels = np.arange(entries, entries + lists)
    entry[sentinels, BEFORE] = entry[sentinels, AFTER] = sentinels
    sizes = np.zeros((lists, 3))
    sizes[:, CAPACITY] = capacity
    sizes[:, DIRTY_SPACE] = dirty_space
    return entry, sizes


@inlined
def touch(entry: np.ndarray, sentinel: int, number: int) -> None:
    """An entry that is present has been used: make it the first of its list."""
    first = entry[sentinel, AFTER]
    if first != number:
        behind, ahead = entry[number, BEFORE], entry[number, AFTER]
        entry[behind, AFTER] = ahead
        entry[ahead, BEFORE] = behind
        entry[number, BEFORE] = sentinel
        entry[number, AFTER] = first
        entry[first, BEFORE] = number
        entry[sentinel, AFTER] = number


@inlined
def soil(entry: np.ndarray, lists: np.ndarray, which: int, number: int) -> None:
    """An entry that is present has been written."""
    if entry[number, STATE] != DIRTY:
        entry[number, STATE] = DIRTY
        lists[which, USED] += (lists[which, DIRTY_SPACE] - 1.0) * entry[number, SIZE]


@compiled
def insert(entry: np.ndarray, lists: np.ndarray, which: int, number: int, size: int, state: int) -> int:
    """Bring in an entry that is absent, evicting the least recently used ones. Returns: dirty bytes evicted [B]."""
    written = 0
    sentinel = len(entry) - len(lists) + which
    space = size * lists[which, DIRTY_SPACE] if state == DIRTY else float(size)
    while lists[which, USED] + space > lists[which, CAPACITY]:
        victim = entry[sentinel, BEFORE]
        if victim == sentinel:
            break
        written += drop(entry, lists, which, victim)
    entry[number, STATE] = state
    entry[number, SIZE] = size
    lists[which, USED] += space
    first = entry[sentinel, AFTER]
    entry[number, BEFORE] = sentinel
    entry[number, AFTER] = first
    entry[first, BEFORE] = number
    entry[sentinel, AFTER] = number
    return written


@compiled
def drop(entry: np.ndarray, lists: np.ndarray, which: int, number: int) -> int:
    """Remove an entry. Returns: its bytes if it was dirty, else 0 [B]."""
    behind, ahead = entry[number, BEFORE], entry[number, AFTER]
    entry[behind, AFTER] = ahead
    entry[ahead, BEFORE] = behind
    size = entry[number, SIZE]
    dirty = entry[number, STATE] == DIRTY
    entry[number, STATE] = ABSENT
    lists[which, USED] -= size * lists[which, DIRTY_SPACE] if dirty else float(size)
    return size if dirty else 0


@compiled
def run_lines(tags: np.ndarray, lines: np.ndarray, writes: np.ndarray) -> tuple[int, int]:
    """Feed a stream of line accesses to a set-associative cache, modulo indexing, without `entry`.

    A set is a short array in order of use, most recent first: 16 ways are one line of the CPU that runs this,
    so that shifting them costs less than following links.

    Args:
        tags: int32 of shape (sets, ways), twice the line number plus one where dirty, EMPTY_TAG where empty;
        lines: int64 of shape (n,), below 2^30; writes: uint8 of shape (n,), or of shape (0,) where all are reads.

    Returns:
        (misses, lines written back).
    """
    sets, ways = tags.shape
    misses = 0
    written = 0
    read_only = len(writes) == 0
    for i in range(len(lines)):
        line = lines[i]
        which = line % sets
        dirty = 0 if read_only or writes[i] == 0 else 1
        carried = tags[which, 0]
        if carried >> 1 == line:
            tags[which, 0] = carried | dirty
            continue
        tags[which, 0] = 2 * line + dirty
        for way in range(1, ways):
            here = tags[which, way]
            tags[which, way] = carried
            carried = here
            if here >> 1 == line:
                break
        if carried >> 1 == line:
            tags[which, 0] |= carried & 1
        else:
            misses += 1
            written += carried & 1
    return misses, written


@compiled
def run_linked(entry: np.ndarray, lists: np.ndarray, lines: np.ndarray, writes: np.ndarray) -> tuple[int, int]:
    """The same through the lists that the engine uses, whose cost does not grow with the ways.

    Args:
        entry, lists: one list per set, entries of size 1, its capacity the ways; lines, writes: as above.

    Returns:
        (misses, lines written back).
    """
    misses = 0
    written = 0
    sets = len(lists)
    sentinels = len(entry) - sets
    read_only = len(writes) == 0
    for i in range(len(lines)):
        line = lines[i]
        which = line % sets
        if entry[line, STATE] != ABSENT:
            touch(entry, sentinels + which, line)
        else:
            misses += 1
            written += insert(entry, lists, which, line, 1, CLEAN)
        if not read_only and writes[i] != 0:
            soil(entry, lists, which, line)
    return misses, written
