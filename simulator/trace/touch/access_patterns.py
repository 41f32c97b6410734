"""Uses: what a part of the code does to one storage, over all iterations and all CTAs of a class.

The bytes of a use are runs of one iteration, which move by a stride with each iteration of each loop around, from a
base of each CTA. Where no strides give the addresses, the use lists them, iteration by iteration.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from ...emulator.thread_values import Array
from .access_keys import AccessKey
from .address_list import AddressList, listings_of
from .footprints import Runs
from .listed_boxes import ListedBoxes, listings_of_boxes


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPattern(AccessKey):
    """What a phase of the code does to a storage.

    Args:
        runs: of one iteration, relative to the base; base: of the first iteration in each CTA, int64 (CTAs,) [B];
        strides: of each loop around, outermost first [B];
        first, last: range of iterations of the innermost loop that have the use; last: one past it, -1: to the end;
        ahead: iterations that the use is ahead of its own, as in a software pipeline;
        zero_bytes: that TMA adds for rows of boxes outside of their tensor, in one iteration;
        part_fraction: share of the sectors that atomics add to in part only; of stores, turns beyond one a sector;
        uneven: addresses of each iteration, where they are no affine function of it; listings: the same as lists.
    """

    runs: Runs
    base: Array
    strides: tuple[int, ...]
    first: int = 0
    last: int = -1
    ahead: int = 0
    zero_bytes: int = 0
    part_fraction: float = 0.0
    uneven: "IrregularAddresses | None" = None
    listings: tuple[AddressList, ...] = ()

    @property
    def skipped_bytes(self) -> int:
        """From the base to where the first iteration that has the use begins, which is within the storage [B]."""
        return self.first * self.strides[-1] if self.strides else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IrregularAddresses:
    """What a use touches in each iteration of the loops around, in order; or in each of the outer loops alone.

    Args:
        origins: what the runs of an iteration are relative to, int64 (CTAs, iterations) [B]; shapes: its runs;
        sizes: iterations of each loop, outermost first;
        stride: of the innermost loop [B], where the outer loops alone are listed; None: all loops are;
        boxes: clipped boxes of each CTA, instead of origins and shapes;
        masks: of the probe threads of each CTA in each iteration, equal where these are, uint64 as origins; None: not
        known.
    """

    origins: Array
    shapes: tuple[Runs, ...]
    sizes: tuple[int, ...]
    stride: int | None = None
    boxes: ListedBoxes | None = None
    masks: Array | None = None

    def listings(self, rounds: Array, tail: int, rank: int) -> tuple[AddressList, ...]:
        """Its lists; none where there would be too many pieces.

        Args:
            rounds: of the outermost loop in each CTA, int64 (CTAs,); tail, rank: as of `listings_of`.
        """
        done = np.minimum(rounds * prod(self.sizes[1:]), self.origins.shape[1])
        if self.boxes is not None:
            return listings_of_boxes(self.boxes, done, prod(self.sizes))
        return listings_of(self.origins, list(self.shapes), done, tail, self.masks, rank)
