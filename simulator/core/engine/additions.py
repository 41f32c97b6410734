"""Additions at L2 (RED, ATOM): each of its slices adds, one addition after the other, what its lines are given.

A slice is a server. An addition takes it a turn for each sector, or longer where it adds to the same place as the
addition before: that one's sum has to be there first. Few lines lie in few slices, and additions to them queue; many
lie in all, which work side by side.
"""

import numpy as np

from ...limits import SECTOR_BYTES
from ..jit import compiled
from .links import Rates, mixed

FREE, LAST = 0, 1
"""Elements of a slice: when it is free, and the granule that it added to last, plus one."""
SLICE_BLOCK_BYTES = 256
"""Bytes that lie together in one slice: of 1, 4, 16, 64, 256, 1024 neighbouring lines of an H200 that warps add to at
random 1, 2, 4, 13, 25 and 49 work side by side (docs/lab/atomics.cu); 96 slices with blocks of two lines drawn at
random: 1, 2, 6, 13, 26, 46 [B]."""


@compiled
def add(slices: np.ndarray, rates: Rates, granule: int, granule_bytes: int, size: int, time: float) -> float:
    """Add to a granule where it is at home.

    Args:
        slices: float64 (slices, 2), changed in place.
        granule_bytes: of a granule of the tensor [B].
        size: that is added to, in whole sectors [B].

    Returns:
        When the last sum is there.
    """
    count, done = len(slices), time
    first = granule * granule_bytes // SLICE_BLOCK_BYTES
    pieces = min(count, max(1, size // SLICE_BLOCK_BYTES))
    turns = size / pieces / SECTOR_BYTES * rates.add_sector
    for piece in range(pieces):
        which = mixed(first + piece) * count >> 32
        again = slices[which, LAST] == granule + 1
        cycles = max(turns, rates.add_again if again else rates.add_least)
        slices[which, FREE] = max(slices[which, FREE], time) + cycles
        slices[which, LAST] = granule + 1
        done = max(done, slices[which, FREE])
    return done
