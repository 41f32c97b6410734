"""What an SM's L1 holds: a ring of tiles, in order of use.

What lies nearer than half of its room is found again, and of what lies farther back an ever smaller share:
sets fill unevenly, and what was stored to stays longer than what was only loaded.
Source: ncu on an H200, what flash1 loads again in seeds 0, 1, 3 and 4 of `validate --full`; `benchmarks/l1_hits.cu` has
the same shape for lines that are loaded and stored to (docs/validation/l1-hits-h200-2026-11-23.json).
"""

import numpy as np

from .compiled import compiled, inlined

TAG, BYTES = 0, 1
"""Columns of `l1`; behind the ring the newest element, and bytes that are due to be found."""
L1_ENTRIES = 1024
"""A power of two beyond the reach of 228 KiB of L1 in tiles of 1 KiB: 16 rows of 64 elements of a byte."""
REACH = (0.5, 0.9, 1.2, 1.45, 1.75, 2.3, 2.9)
FOUND = (1.0, 0.61, 0.26, 0.08, 0.07, 0.025, 0.0)
"""Share of a load that hits, by how many times the room was loaded or stored to since, and itself."""
NONE_BEYOND = REACH[-1]


@inlined
def hit_share(distance: float, room: float) -> float:
    """Share of a load that hits. Args: distance: what was moved since, and itself [B]; room: of the L1 [B]."""
    reach = distance / max(room, 1.0)
    share = 1.0 if reach <= REACH[0] else 0.0
    for i in range(1, len(REACH)):
        if REACH[i - 1] < reach <= REACH[i]:
            share = FOUND[i] + (FOUND[i - 1] - FOUND[i]) * (REACH[i] - reach) / (REACH[i] - REACH[i - 1])
    return share


@compiled
def look_up(l1: np.ndarray, room: float, tag: int, size: int, sm: int, store: bool) -> bool:
    """Look a tile up in an SM's L1 and make it the newest. Returns: whether it is found; stores never look for it.

    A tile is the unit: a CTA sweeps whole tiles. Stores are written through, and L1 keeps what is stored.
    """
    newest = l1[sm, L1_ENTRIES, TAG]
    total, reach = size, NONE_BEYOND * room
    for age in range(L1_ENTRIES):
        at = (newest - age) & (L1_ENTRIES - 1)
        here = l1[sm, at, BYTES]
        if here == 0 or total >= reach:
            break
        if l1[sm, at, TAG] == tag and here == size:
            for _ in range(age):
                after = (at + 1) & (L1_ENTRIES - 1)
                l1[sm, at, TAG], l1[sm, at, BYTES] = l1[sm, after, TAG], l1[sm, after, BYTES]
                at = after
            l1[sm, newest, TAG], l1[sm, newest, BYTES] = tag, size
            if store:
                return False
            due = l1[sm, L1_ENTRIES, BYTES] + int(hit_share(total, room) * size)
            found = due >= size
            l1[sm, L1_ENTRIES, BYTES] = due - size if found else due
            return found
        total += here
    newest = (newest + 1) & (L1_ENTRIES - 1)
    l1[sm, newest, TAG] = tag
    l1[sm, newest, BYTES] = size
    l1[sm, L1_ENTRIES, TAG] = newest
    return False
