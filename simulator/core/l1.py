"""What an SM's L1 holds: a ring of tiles, in order of use.

What lies nearer than half of its room is found again, what lies beyond one and a half is not, and of what is between
a share that falls evenly: sets fill unevenly, and the cache does not quite drop what it used longest ago.
Source: ncu on an H200, seeds 0, 1, 3 and 4 of `validate --full`: of what flash1 and launches with spills load again
beyond r times the room, 0.97 hits at r = 0.5, 0.73 to 0.89 at 0.8, 0.4 to 0.6 at 1.0, 0.25 to 0.4 at 1.2, 0 to 0.36
at 1.4, 0.08 at 1.75.
"""

import numpy as np

from .compiled import compiled, inlined

TAG, BYTES = 0, 1
"""Columns of `l1`; behind the ring the newest element, and hits that are due, in `WHOLE` parts."""
L1_ENTRIES = 256
WHOLE = 1 << 20
NONE_BEYOND = 1.5


@inlined
def hit_share(distance: float, room: float) -> float:
    """Share of a load that hits. Args: distance: what was loaded since, and itself [B]; room: of the L1 [B]."""
    if distance >= NONE_BEYOND * room:
        return 0.0
    return min(1.0, NONE_BEYOND - distance / room)


@compiled
def look_up(l1: np.ndarray, room: float, tag: int, size: int, sm: int) -> bool:
    """Look a tile up in an SM's L1 and make it the newest. A tile is the unit: a CTA sweeps whole tiles."""
    newest = l1[sm, L1_ENTRIES, TAG]
    total = size
    for age in range(L1_ENTRIES):
        at = (newest - age) % L1_ENTRIES
        if l1[sm, at, BYTES] == 0 or total >= NONE_BEYOND * room:
            break
        if l1[sm, at, TAG] == tag and l1[sm, at, BYTES] == size:
            for _ in range(age):
                after = (at + 1) % L1_ENTRIES
                l1[sm, at, TAG], l1[sm, at, BYTES] = l1[sm, after, TAG], l1[sm, after, BYTES]
                at = after
            l1[sm, newest, TAG], l1[sm, newest, BYTES] = tag, size
            due = l1[sm, L1_ENTRIES, BYTES] + int(hit_share(total, room) * WHOLE)
            l1[sm, L1_ENTRIES, BYTES] = due % WHOLE
            return due >= WHOLE
        total += l1[sm, at, BYTES]
    newest = (newest + 1) % L1_ENTRIES
    l1[sm, newest, TAG] = tag
    l1[sm, newest, BYTES] = size
    l1[sm, L1_ENTRIES, TAG] = newest
    return False
