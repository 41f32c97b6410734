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
    if count == 0:
        return done
    first = granule * granule_bytes // rates.slice_block_bytes
    pieces = min(count, max(1, size // rates.slice_block_bytes))
    turns = size / pieces / SECTOR_BYTES * rates.add_sector_cycles
    for piece in range(pieces):
        which = mixed(first + piece) * count >> 32
        again = slices[which, LAST] == granule + 1
        cycles = max(turns, rates.add_again_cycles if again else rates.add_least_cycles)
        slices[which, FREE] = max(slices[which, FREE], time) + cycles
        slices[which, LAST] = granule + 1
        done = max(done, slices[which, FREE])
    return done
