"""What an SM's L1 holds: a ring of tiles, in order of use.

A load of what was last used within half of the room hits; of what lies farther back an ever smaller share does: sets
fill unevenly, and what was stored to stays longer than what was only loaded.
How large a share is a *curve* of the GPU's own, float64 (2, points): the reuse distance, in rooms of L1, rising; and
the share of a load that then hits.
"""

from typing import NamedTuple

import numpy as np

from ...limits import SECTOR_BYTES
from ..jit import compiled, inlined
from ..scatter import scatter

TAG, BYTES = 0, 1
"""Columns of `L1.ring`."""
L1_ENTRIES = 1024
"""A power of two beyond the reach of 228 KiB of L1 in tiles of 1 KiB: 16 rows of 64 elements of a byte."""
L1_APART = 4
"""Elements between the rings of two SMs: rings that were powers of two apart would drive each other out of the cache of
the CPU that runs this, since SMs go on together."""
NEWEST, DUE, NEW = range(3)
"""Columns of `L1.seen`: newest element of the ring, bytes that are due to be found, sectors of tiles that were new."""
SEEN_COLUMNS = 4
"""One more than there are: rows of a power of two."""
STAMPS, STAMP_SECTORS = 1 << 10, 32
"""Elements of `L1.stamps` of an SM, by a hash of the tag: how many times so many sectors, modulo 2^16, had been new
when a tile of that hash was last used. What was new since lies nearer than the tile, so that most of those that miss
need not be looked for; where two tiles share a stamp, or the number has come round, one is looked for in vain."""
RUN = 64
"""Tags that have stamps side by side: CTAs sweep tiles, whose stamps the CPU that runs this then has at hand."""
REACH, HIT = 0, 1
"""Rows of the curve."""


class L1(NamedTuple):
    """The L1 of each SM.

    Args:
        ring: int64 (SMs, L1_ENTRIES + L1_APART, 2), tiles in order of use.
        seen: int32 (SMs, SEEN_COLUMNS).
        stamps: uint16 (SMs, STAMPS).
    """

    ring: np.ndarray
    seen: np.ndarray
    stamps: np.ndarray


def make_l1(sms: int) -> L1:
    """As many empty ones."""
    return L1(
        ring=np.zeros((sms, L1_ENTRIES + L1_APART, 2), dtype=np.int64),
        seen=np.zeros((sms, SEEN_COLUMNS), dtype=np.int32),
        stamps=np.zeros((sms, STAMPS), dtype=np.uint16),
    )


@inlined
def hit_share(distance: float, room: float, curve: np.ndarray) -> float:
    """Share of a load that hits.

    Args:
        distance: what was moved since, and itself [B].
        room: of the L1 [B].
        curve: see above.
    """
    reach = distance / max(room, 1.0)
    share: float = curve[HIT, 0] if reach <= curve[REACH, 0] else 0.0
    for i in range(1, curve.shape[1]):
        before, after = curve[REACH, i - 1], curve[REACH, i]
        if before < reach <= after:
            share = curve[HIT, i] + (curve[HIT, i - 1] - curve[HIT, i]) * (after - reach) / (after - before)
    return share


@compiled
def look_up(l1: L1, curve: np.ndarray, room: float, tag: int, size: int, sm: int, store: bool) -> bool:
    """Look a tile up in an SM's L1 and make it the newest. Returns: whether it is found; stores never look for it.

    A tile is the unit: a CTA sweeps whole tiles. Stores are written through, and L1 keeps what is stored.

    Args:
        curve: share of hits, see above.
        room: of the L1 [B].
        tag: that tells tiles apart.
        size: of the lines of the tile [B].
    """
    ring, seen, stamps = l1.ring, l1.seen, l1.stamps
    newest, new, mark = seen[sm, NEWEST], seen[sm, NEW], (tag + scatter(tag // RUN)) & (STAMPS - 1)
    total, reach = size, int(np.ceil(curve[REACH, -1] * room))
    # Both numbers are rounded down, so that one more may lie between them than between what they stand for.
    since = ((new // STAMP_SECTORS - stamps[sm, mark]) & 0xFFFF) - 1
    oldest = L1_ENTRIES if since * STAMP_SECTORS * SECTOR_BYTES + size < reach else 0
    stamps[sm, mark] = new // STAMP_SECTORS
    for age in range(oldest):
        at = (newest - age) & (L1_ENTRIES - 1)
        here = ring[sm, at, BYTES]
        if here == 0 or total >= reach:
            break
        if ring[sm, at, TAG] == tag and here == size:
            for _ in range(age):
                after = (at + 1) & (L1_ENTRIES - 1)
                ring[sm, at, TAG], ring[sm, at, BYTES] = ring[sm, after, TAG], ring[sm, after, BYTES]
                at = after
            ring[sm, newest, TAG], ring[sm, newest, BYTES] = tag, size
            if store:
                return False
            due = seen[sm, DUE] + int(hit_share(total, room, curve) * size)
            hits = due >= size
            seen[sm, DUE] = due - size if hits else due
            return hits
        total += here
    newest = (newest + 1) & (L1_ENTRIES - 1)
    ring[sm, newest, TAG], ring[sm, newest, BYTES] = tag, size
    seen[sm, NEWEST] = newest
    seen[sm, NEW] = new + size // SECTOR_BYTES
    stamps[sm, mark] = (new + size // SECTOR_BYTES) // STAMP_SECTORS
    return False
