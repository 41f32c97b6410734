"""What an SM's L1 holds: a ring of tiles, in order of use."""

import numpy as np

from .compiled import compiled, inlined

TAG, BYTES = 0, 1
"""Columns of `l1`."""
L1_ENTRIES = 64


@compiled
def look_up(l1: np.ndarray, capacity: float, tag: int, size: int, sm: int) -> bool:
    """Look a tile up in an SM's L1 and make it the newest. A tile is the unit: a CTA sweeps whole tiles."""
    newest = l1[sm, L1_ENTRIES, TAG]
    total = size
    for age in range(L1_ENTRIES):
        at = (newest - age) % L1_ENTRIES
        if l1[sm, at, BYTES] == 0 or total > capacity:
            break
        if l1[sm, at, TAG] == tag and l1[sm, at, BYTES] == size:
            for _ in range(age):
                after = (at + 1) % L1_ENTRIES
                l1[sm, at, TAG], l1[sm, at, BYTES] = l1[sm, after, TAG], l1[sm, after, BYTES]
                at = after
            l1[sm, newest, TAG], l1[sm, newest, BYTES] = tag, size
            return True
        total += l1[sm, at, BYTES]
    newest = (newest + 1) % L1_ENTRIES
    l1[sm, newest, TAG] = tag
    l1[sm, newest, BYTES] = size
    l1[sm, L1_ENTRIES, TAG] = newest
    return False


@inlined
def forget(l1: np.ndarray, tag: int, sm: int) -> None:
    """A tile that an SM stores is no longer in its L1.

    On an H200 flash1 loads O again from L2 where it does so right after the store (99 % of the bytes of two launches
    of one query tile); of slices of 16 query tiles, which fit L1, 40 % of the bytes hit. This counts none.
    """
    for at in range(L1_ENTRIES):
        if l1[sm, at, TAG] == tag:
            l1[sm, at, TAG] = -1
