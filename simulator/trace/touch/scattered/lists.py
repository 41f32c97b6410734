"""Uses of scattered accesses: lists of the sectors that each CTA touches in each iteration.

Accesses of one iteration and one use share sectors as elsewhere (`find_patterns`); what L1 still has from iterations
before is left out where all accesses of a loop are listed (`again`). CTAs of one control path are followed together,
whatever they mask: each kind of them then gets its part.

What the lanes of a warp add to one word is added in as many *passes* over its sector, each of which L2 is sent and
counts by itself (measured: validate/lab/scattered_adds.cu).
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import cached_property
from math import prod

import numpy as np

from ....emulator.thread_values import Array
from ....limits import SECTOR_BYTES
from ...cta.address_slice import Tracer
from ...nests import OUTSIDE
from ...positions import Iteration
from ..access_keys import PAST_L1, AccessKey, path_of
from ..access_patterns import AccessPattern, IrregularAddresses
from ..address_list import MOST_PIECES, AddressList, by_length
from ..cta_class import CtaClass
from ..phases import Part
from .again import without_hits
from .sectors import (
    SECTOR_BITS,
    SECTOR_MASK,
    BySectors,
    Sectors,
    TooMany,
    UseSectors,
    begin_of,
    sectors_of,
    without_repeats,
)

ATTEMPTS = 4
"""Numbers of CTAs that are tried to follow: all, and fewer."""
NEARLY = 0.9
"""Of the pieces that may be listed, which are aimed at."""


class Scattered:
    """Scattered accesses of CTAs of one control path.

    Args:
        cta_class: all of these CTAs; places: of the accesses in the code; notes: gets remarks, one line each;
        follow: gives what CTAs touch, as `sectors_of`.
    """

    def __init__(
        self,
        tracer: Tracer,
        cta_class: CtaClass,
        places: frozenset[int],
        notes: list[str],
        follow: Callable[[Tracer, CtaClass, frozenset[int], int], BySectors] = sectors_of,
    ) -> None:
        self.places, self._follow = places, follow
        self._tracer, self._all, self._notes = tracer, cta_class, notes

    def uses_of(self, cta_class: CtaClass) -> list[AccessPattern] | None:
        """Uses of some of the CTAs, as lists of sectors. Returns: None where there would be too many pieces.

        Where that is so of all CTAs, the first ones are followed, and the others touch the same again, in turn.
        """
        if not self.places:
            return []
        count, followed = len(cta_class.group), 0
        for _ in range(ATTEMPTS):
            try:
                by_key = without_hits(self._part(cta_class, followed), cta_class, self.places)
            except TooMany as error:
                followed = min(error.followed, (followed or count) // 2)
            else:
                sizes = {key: _sizes(use.by_iteration, key.part, cta_class) for key, use in by_key.items()}
                if any(count * prod(trips) >> 63 - SECTOR_BITS for trips in sizes.values()):
                    return None
                uses = [_use(key, use, sizes[key], cta_class) for key, use in by_key.items()]
                pieces = sum(len(listing.starts) for use in uses for listing in use.listings)
                if pieces <= MOST_PIECES:
                    self._note(followed, count)
                    return uses
                followed = int((followed or count) * NEARLY * MOST_PIECES / pieces)
            if not followed:
                return None
        return None

    def _note(self, followed: int, count: int) -> None:
        if followed:
            self._notes.append(
                f"kernel {self._tracer.subject.kernel.name}: its CTAs gather or scatter at too many places to list;"
                f" those of {followed:,} CTAs stand for those of all {count:,}, in turn"
            )

    def _part(self, cta_class: CtaClass, followed: int) -> BySectors:
        """What some of the CTAs touch. Args: followed: CTAs, 0: all of these. Raises: TooMany."""
        together = cta_class.representative.paths == self._all.representative.paths
        if followed or not together or self._of_all is None:
            return self._follow(self._tracer, cta_class, self.places, followed)
        ranks = np.searchsorted(self._all.group.ctas, cta_class.group.ctas)
        parts = ((key, use.of(ranks)) for key, use in self._of_all.items())
        return {key: part for key, part in parts if part.by_iteration}

    @cached_property
    def _of_all(self) -> BySectors | None:
        """What all CTAs touch; None where that is too much, or adds, which is counted by the CTAs of a kind."""
        code = self._all.subject.flow.instructions
        if any(path_of(code[place]) == "atomic" for place in self.places):
            return None
        try:
            return self._follow(self._tracer, self._all, self.places, 0)
        except TooMany:
            return None


def _sizes(sectors: Sectors, part: Part, cta_class: CtaClass) -> Iteration:
    """Iterations of each loop around, of the CTA that runs most, also those in which nothing is touched."""
    region, trips = part[0], cta_class.group.trips
    lengths: list[int] = []
    while region != OUTSIDE:
        lengths.insert(0, int(trips[region].max()) if region in trips else 0)
        region = cta_class.representative.paths.regions[region].parent
    touched = (max(numbers) + 1 for numbers in zip(*sectors, strict=True))
    return tuple(max(pair) for pair in zip(touched, lengths, strict=True))


def _use(key: AccessKey, sectors: UseSectors, sizes: Iteration, cta_class: CtaClass) -> AccessPattern:
    """The use of a key: lists of what each CTA touches in each iteration. Args: sizes: iterations of each loop."""
    lists, ctas, prologues = prod(sizes), len(cta_class.group), cta_class.prologues
    parts = []
    for iteration, touched in sectors.by_iteration.items():
        number = int(np.ravel_multi_index(iteration, sizes)) if sizes else 0
        parts += [((part >> SECTOR_BITS) * lists + number << SECTOR_BITS) + (part & SECTOR_MASK) for part in touched]
    numbers = np.sort(np.concatenate(parts))
    # A layer holds each sector of a list once.
    layers = np.zeros(len(numbers), dtype=np.int64)
    if key.path in PAST_L1:
        # Each access fetches its sectors, even those that others have fetched.
        index = np.arange(len(numbers))
        new = np.r_[True, numbers[1:] != numbers[:-1]]
        layers = index - np.maximum.accumulate(np.where(new, index, 0))
        order = np.lexsort((layers, numbers >> SECTOR_BITS))
        numbers, layers = numbers[order], layers[order]
    else:
        numbers = without_repeats(numbers)
        layers = layers[: len(numbers)]
    begins, lengths = _runs(numbers, layers)
    starts = (begins & SECTOR_MASK) * SECTOR_BYTES + begin_of(cta_class.subject, key.storage)
    return AccessPattern(
        **asdict(key),
        runs=(),
        base=np.zeros(ctas, dtype=np.int64),
        strides=(0,) * len(sizes),
        ahead=prologues[key].depth if key in prologues else 0,
        uneven=IrregularAddresses(origins=np.zeros((ctas, 0), dtype=np.int64), shapes=(), sizes=sizes),
        listings=_listings(begins >> SECTOR_BITS, starts, lengths, lists, sectors),
    )


def _runs(numbers: Array, layers: Array) -> tuple[Array, Array]:
    """Runs of neighbouring sectors of one list: first number and length of each.

    Args:
        numbers: int64, rising within each layer; layers: of each.
    """
    begins = np.flatnonzero(np.r_[True, (np.diff(numbers) != 1) | (np.diff(layers) != 0)])
    return numbers[begins], np.diff(np.r_[begins, len(numbers)])


def _listings(
    lists: Array, starts: Array, lengths: Array, per_cta: int, sectors: UseSectors
) -> tuple[AddressList, ...]:
    """Listings of runs, as of `by_length`.

    Args:
        lists: index of the list of each run, rising; starts: its address [B]; lengths: in sectors;
        per_cta: lists of a CTA; sectors: that the runs are made of.
    """
    which, (part, passes) = sectors.which, sectors.passes
    at = which * per_cta
    fraction = part / passes if passes else 0.0
    listed = by_length(lists, starts, lengths, (int(which.max()) + 1) * per_cta)
    return tuple(AddressList(**pieces, at=at, until=at + per_cta, part_fraction=fraction) for pieces in listed)
