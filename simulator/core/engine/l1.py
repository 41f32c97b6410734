"""What an SM's L1 holds: a ring of tiles, in order of use; tags and bytes of a block are looked through at once.

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

L1_ENTRIES = 1024
"""A power of two beyond the reach of 228 KiB of L1 in tiles of 1 KiB: 16 rows of 64 elements of a byte."""
BLOCK = 64
"""Elements of the ring that are looked through at once, which a CPU does with a few vectors."""
L1_APART = 8
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
        tags, sizes: int64 (SMs, L1_ENTRIES + L1_APART), tiles in order of use, and their bytes.
        seen: int32 (SMs, SEEN_COLUMNS).
        stamps: uint16 (SMs, STAMPS).
    """

    tags: np.ndarray
    sizes: np.ndarray
    seen: np.ndarray
    stamps: np.ndarray


def make_l1(sms: int) -> L1:
    """As many empty ones."""
    return L1(
        tags=np.zeros((sms, L1_ENTRIES + L1_APART), dtype=np.int64),
        sizes=np.zeros((sms, L1_ENTRIES + L1_APART), dtype=np.int64),
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
    seen, stamps = l1.seen, l1.stamps
    tags, sizes = l1.tags[sm], l1.sizes[sm]
    newest, new, mark = seen[sm, NEWEST], seen[sm, NEW], (tag + scatter(tag // RUN)) & (STAMPS - 1)
    reach = int(np.ceil(curve[REACH, -1] * room))
    # Both numbers are rounded down, so that one more may lie between them than between what they stand for.
    since = ((new // STAMP_SECTORS - stamps[sm, mark]) & 0xFFFF) - 1
    stamps[sm, mark] = new // STAMP_SECTORS
    if since * STAMP_SECTORS * SECTOR_BYTES + size < reach:
        at, total = _find(tags, sizes, newest, tag, size, reach)
        if at >= 0:
            _to_front(tags, at, newest)
            _to_front(sizes, at, newest)
            if store:
                return False
            due = seen[sm, DUE] + int(hit_share(total, room, curve) * size)
            hits = due >= size
            seen[sm, DUE] = due - size if hits else due
            return hits
    newest = (newest + 1) & (L1_ENTRIES - 1)
    tags[newest], sizes[newest] = tag, size
    seen[sm, NEWEST] = newest
    seen[sm, NEW] = new + size // SECTOR_BYTES
    stamps[sm, mark] = (new + size // SECTOR_BYTES) // STAMP_SECTORS
    return False


@inlined
def _find(tags: np.ndarray, sizes: np.ndarray, newest: int, tag: int, size: int, reach: int) -> tuple[int, int]:
    """The newest element of a tile within reach, -1 where there is none; and the bytes from it on, its own too [B]."""
    total, left, at = size, L1_ENTRIES, newest
    while left > 0:
        count = min(at % BLOCK + 1, left)
        first = at - count + 1
        moved = alike = 0
        block_tags, block_sizes = tags[first : at + 1], sizes[first : at + 1]
        for i in range(len(block_tags)):
            moved += block_sizes[i]
            alike |= int((block_tags[i] ^ tag) | (block_sizes[i] ^ size) == 0)
        if alike > 0:
            while tags[at] != tag or sizes[at] != size:
                total += sizes[at]
                at -= 1
            return (at, total) if total < reach else (-1, total)
        total += moved
        if total >= reach or sizes[first] == 0:
            break
        left -= count
        at = (first - 1) & (L1_ENTRIES - 1)
    return -1, total


@inlined
def _to_front(values: np.ndarray, at: int, newest: int) -> None:
    """An element becomes the newest, and those that were newer move back by one."""
    value = values[at]
    if at > newest:
        _move_back(values[at:L1_ENTRIES])
        values[L1_ENTRIES - 1] = values[0]
        at = 0
    _move_back(values[at : newest + 1])
    values[newest] = value


@inlined
def _move_back(values: np.ndarray) -> None:
    """Each but the last becomes what the one after it is."""
    for i in range(len(values) - 1):
        values[i] = values[i + 1]
