"""What holds data beside HBM, as arrays: L1 of each SM, the coalescers, and L2."""

from typing import NamedTuple

import numpy as np

from ..jit import inlined
from .l1 import L1
from .links import Rates
from .lru import Lru

ASKED, ARRIVES = 0, 1
"""Elements of a slot of a coalescer: a granule's number plus one, and when it arrives."""
COALESCER_SLOTS, COALESCER_LINE_SLOTS = 1024, 16384
"""Slots of a coalescer for chunks and for lines: powers of two that hardly ever make two reads in flight collide."""


class Memory(NamedTuple):
    """Everything that outlives a tile access.

    Args:
        l2: entries as in `copies`.
        l1: of each SM.
        ready: float64 per granule, when its last fill arrives, or when it was touched first.
        windows: int32 per granule, which of those that share its number it is, or whether spilled registers were
            written.
        free: float64, when each link is free, see `links`.
        slices: float64 (slices, 2), of L2, see `slices`; none: what they take does not queue.
        translated: int64 (entries,), of the TLB, see `translations`; none: it reaches all tensors.
        asked: float64 (slots, coalescers, 2), reads in flight.
        counter: float64, see `links`.
    """

    l2: Lru
    l1: L1
    ready: np.ndarray
    windows: np.ndarray
    free: np.ndarray
    slices: np.ndarray
    translated: np.ndarray
    asked: np.ndarray
    counter: np.ndarray


@inlined
def near_partition(rates: Rates, sm: int) -> int:
    """The L2 partition that an SM reads through."""
    return 1 if rates.partitions * sm >= rates.sms else 0
