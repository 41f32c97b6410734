"""What an SM's L1 holds: a list of tiles in order of use, and a hash table that finds a tile in it.

Distance in bytes between two uses is a sum over the list, by blocks; a look-up costs the same however full L1 is.

A load of what was last used within half of the room hits; of what lies farther back an ever smaller share does: sets
fill unevenly, and what was stored to stays longer than what was only loaded.
How large a share is a *curve* of the GPU's own, float64 (2, points): the reuse distance, in rooms of L1, rising; and
the share of a load that then hits.
"""

from typing import NamedTuple

import numpy as np

from ..jit import compiled, inlined
from ..scatter import scatter

L1_ENTRIES = 1024
"""A power of two beyond the reach of 228 KiB of L1 in tiles of 1 KiB: 16 rows of 64 elements of a byte."""
SLOTS, FEWEST_SLOTS = 2 * L1_ENTRIES, 128
"""Slots of the list, and those in use at first. A tile that is used again leaves its slot empty and takes the next one;
when all are taken, the newest tiles that may hit move to the front; where these are more than half, twice as many slots
are used: large tiles need few, which the cache of the CPU that runs this holds for all SMs."""
BLOCK = 64
"""Slots whose bytes are summed up in `L1.sums`."""
TABLE = 2 * SLOTS
"""Rows of the hash table from tiles to slots (open addressing, linear probing)."""
APART = 8
"""Elements between the arrays of two SMs: arrays that were powers of two apart would drive each other out of the cache
of the CPU that runs this, since SMs go on together."""
TILE_COUNT = 1 << 40
"""One tile, added to its bytes: a sum of sizes then counts tiles in its upper bits, bytes in its lower ones."""
USED, DUE, GROWN = range(3)
"""Columns of `L1.seen`: slots taken, bytes that are due to be found, how often the slots in use have been doubled."""
SEEN_COLUMNS = 4
"""More than there are: rows of a power of two."""
REACH, HIT = 0, 1
"""Rows of the curve."""


class L1(NamedTuple):
    """The L1 of each SM.

    Args:
        tags: int64 (SMs, SLOTS + APART), tiles in order of use.
        sizes: int64 (SMs, SLOTS + APART), `TILE_COUNT` plus the bytes of each; 0: an empty slot.
        sums: int64 (SMs, SLOTS / BLOCK + APART), sizes of each block.
        table: int16 (SMs, TABLE + APART), slot of a tile plus one; 0: none.
        seen: int32 (SMs, SEEN_COLUMNS).
    """

    tags: np.ndarray
    sizes: np.ndarray
    sums: np.ndarray
    table: np.ndarray
    seen: np.ndarray


def make_l1(sms: int) -> L1:
    """As many empty ones."""
    return L1(
        tags=np.zeros((sms, SLOTS + APART), dtype=np.int64),
        sizes=np.zeros((sms, SLOTS + APART), dtype=np.int64),
        sums=np.zeros((sms, SLOTS // BLOCK + APART), dtype=np.int64),
        table=np.zeros((sms, TABLE + APART), dtype=np.int16),
        seen=np.zeros((sms, SEEN_COLUMNS), dtype=np.int32),
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
    seen, tags, sizes, sums, table = l1.seen, l1.tags[sm], l1.sizes[sm], l1.sums[sm], l1.table[sm]
    reach = int(np.ceil(curve[REACH, -1] * room))
    if seen[sm, USED] == FEWEST_SLOTS << seen[sm, GROWN]:
        _move_to_front(seen[sm], tags, sizes, sums, table, reach)
    newest, mine = seen[sm, USED], TILE_COUNT + size
    row = _row_of(tags, sizes, table, tag, mine, 2 * FEWEST_SLOTS << seen[sm, GROWN])
    last = table[row] - 1
    table[row], seen[sm, USED] = newest + 1, newest + 1
    tags[newest], sizes[newest] = tag, mine
    sums[newest // BLOCK] += mine
    if last < 0:
        return False
    newer = -mine  # the blocks below hold this use as well
    for block in range(last // BLOCK + 1, newest // BLOCK + 1):
        newer += sums[block]
    for slot in range(last + 1, (last // BLOCK + 1) * BLOCK):
        newer += sizes[slot]
    sizes[last] = 0
    sums[last // BLOCK] -= mine
    total = size + (newer & (TILE_COUNT - 1))
    if store or newer // TILE_COUNT >= L1_ENTRIES or total >= reach:
        return False
    due = seen[sm, DUE] + int(hit_share(total, room, curve) * size)
    hits = due >= size
    seen[sm, DUE] = due - size if hits else due
    return hits


@inlined
def _row_of(tags: np.ndarray, sizes: np.ndarray, table: np.ndarray, tag: int, size: int, rows: int) -> int:
    """The row of the hash table that holds a tile, or an empty one. Args: size: with `TILE_COUNT`; rows: in use."""
    row = scatter(tag + size) & (rows - 1)
    while table[row] > 0 and (tags[table[row] - 1] != tag or sizes[table[row] - 1] != size):
        row = (row + 1) & (rows - 1)
    return row


@compiled
def _move_to_front(
    seen: np.ndarray, tags: np.ndarray, sizes: np.ndarray, sums: np.ndarray, table: np.ndarray, reach: int
) -> None:
    """Keep the newest `L1_ENTRIES` tiles that may hit, side by side, drop the others. Args: reach: as in `look_up`."""
    end = FEWEST_SLOTS << seen[GROWN]
    first, kept = end, 0
    while first > 0 and kept // TILE_COUNT < L1_ENTRIES and kept & (TILE_COUNT - 1) < reach:
        first -= 1
        kept += sizes[first]
    while 2 * (kept // TILE_COUNT) > FEWEST_SLOTS << seen[GROWN]:
        seen[GROWN] += 1
    rows = 2 * FEWEST_SLOTS << seen[GROWN]
    table[:rows] = 0
    sums[: end // BLOCK] = 0
    count = 0
    for slot in range(first, end):
        if sizes[slot] > 0:
            tags[count], sizes[count] = tags[slot], sizes[slot]
            sums[count // BLOCK] += sizes[count]
            table[_row_of(tags, sizes, table, tags[count], sizes[count], rows)] = count + 1
            count += 1
    sizes[count:end] = 0
    seen[USED] = count
