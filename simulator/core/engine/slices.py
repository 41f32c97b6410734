"""Slices of L2: which one a line lies in, and how they take the requests of loads, one after the other.

Blocks lie in two slices in turns; what is next to them lies in two others, of either partition, and in a stretch of
memory none comes twice (validate/lab/scattered_adds.cu). Many lines lie in all slices, which work side by side;
few lie in few, and requests for them queue, on either side of L2 at a copy of its own (validate/lab/hot_lines.cu).
"""

import numpy as np

from ...limits import LINE_BYTES
from ..jit import inlined
from .links import Rates, mixed

FREE, LAST = 0, 1
"""Elements of a slice: when it is free, and the sector that it added to last, plus one."""
TENSOR_BYTES = 1 << 20
"""Apart from which the places of tensors begin, for each granule before them: whole stretches of slices."""
STEPS = (7, 11, 13, 17, 19, 23)
"""From a pair's slices to the next one's; none divides the pairs of a partition, of which there are 20 or 24."""


@inlined
def home_of(place: int, count: int, rates: Rates) -> int:
    """The slice that a place lies in. Args: place: its address [B]; count: of slices."""
    half, pairs = count >> 1, count >> 2
    block = place >> rates.slice_block_bits
    if pairs == 0:
        return mixed(block) * count >> 32
    group = place >> rates.slice_group_bits
    turn = group >> 1
    drawn = mixed((turn << rates.slice_group_bits + 1) >> rates.slice_stretch_bits)
    partition = (group + mixed(turn)) & 1
    drawn = drawn >> 16 * partition & 0xFFFF
    pair = (STEPS[drawn % len(STEPS)] * turn + drawn) % pairs
    return partition * half + pair * 2 + (block & 1)


@inlined
def request(slices: np.ndarray, rates: Rates, place: int, size: int, near: int, time: float) -> float:
    """An SM asks the slices of its partition for a part of a granule, also where others have asked for the same.

    Args:
        slices: as in `additions.add`; place: where it begins [B]; size: that is asked for [B];
        near: the partition that the SM is in.

    Returns:
        When the last slice has taken its request.
    """
    count, done = len(slices), time
    if count == 0 or size > rates.request_most_bytes:
        return done
    side = count // rates.partitions
    group, block = 1 << rates.slice_group_bits, 1 << rates.slice_block_bits
    for begin in range(place, place + size, group):
        part = min(group, place + size - begin)
        which = home_of(begin, count, rates)
        which += near * side if which < side else (near - 1) * side
        cycles = (part + LINE_BYTES - 1) // LINE_BYTES * rates.request_cycles
        if part > block:
            cycles /= 2.0
            slices[which ^ 1, FREE] = max(slices[which ^ 1, FREE], time) + cycles
            done = max(done, slices[which ^ 1, FREE])
        slices[which, FREE] = max(slices[which, FREE], time) + cycles
        done = max(done, slices[which, FREE])
    return done
