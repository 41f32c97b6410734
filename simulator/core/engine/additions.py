"""Additions at L2 (RED, ATOM): each of its slices adds, one addition after the other, what its lines are given.

A slice is a server. An addition takes it a turn for each sector, more where only a part of the sector is added to, and
longer where it adds floats to the same place as the addition before: that one's sum has to be there first. What an SM
of the other partition adds has come through a slice of that partition, and has taken a turn there.

Few lines lie in few slices (`slices`), and additions to them queue; many lie in all, which work side by side.
"""

import numpy as np

from ...limits import SECTOR_BYTES
from ..jit import compiled
from .links import Rates
from .slices import FREE, LAST, home_of


@compiled
def add(
    slices: np.ndarray, rates: Rates, place: int, size: int, part: float, integers: bool, near: int, time: float
) -> float:
    """Add to a part of a granule where it is at home.

    Args:
        slices: float64 (slices, 2), changed in place: those of the first partition, then those of the second.
        place: where it begins: an address in a memory of all granules [B].
        size: that is added to, in whole sectors [B].
        part: share of the sectors that are added to in part only; integers: whether these are added to.
        near: the partition that the SM is in.

    Returns:
        When the last sum is there.
    """
    count, done = len(slices), time
    if count == 0:
        return done
    pieces = min(count, max(1, size >> rates.slice_block_bits))
    sectors = size / pieces / SECTOR_BYTES
    turns = sectors * (rates.add_sector_cycles + part * (rates.add_part_cycles - rates.add_sector_cycles))
    for piece in range(pieces):
        begin = place + (piece << rates.slice_block_bits)
        which = home_of(begin, count, rates)
        if rates.partitions > 1 and which * rates.partitions // count != near:
            through = (which + count // 2) % count
            slices[through, FREE] = max(slices[through, FREE], time) + sectors * rates.add_far_cycles
        sector = begin // SECTOR_BYTES + 1
        again = slices[which, LAST] == sector and not integers
        cycles = max(turns, rates.add_again_cycles) if again else turns
        slices[which, FREE] = max(slices[which, FREE], time) + cycles
        slices[which, LAST] = sector
        done = max(done, slices[which, FREE])
    return done
