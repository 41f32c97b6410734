"""Scattered accesses: those that are elsewhere in every CTA, thread by thread, as gathered rows or masks by data.

All threads of all CTAs are followed, and the sectors of each iteration listed, CTA by CTA. Accesses of one iteration
and one use share sectors as elsewhere (`find_uses`); hits in L1 between iterations are left out.

What the lanes of a warp add to one word is added in as many *passes* over its sector, each of which L2 is sent and
counts by itself (measured: docs/lab/scattered_adds.cu).
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ...limits import SECTOR_BYTES
from ..accesses import bytes_of
from ..alike.narrowed import by_tensor, narrowed
from ..alike.stand_ins import stand_ins
from ..cta.cta_run import CtaRun, Iteration, Position, blocks_of
from ..cta.every_thread import every_access
from ..cta.given import Subject
from ..cta.group import CtaGroup
from ..cta.sites import Slice, Tracer
from ..paths import OUTSIDE
from ..values import Array
from .cta_class import CtaClass
from .footprints import Rectangle
from .listing import MOST_PIECES, MOST_RECTANGLES, Listing
from .phases import Part
from .use_keys import BY_WARP, PAST_L1, Prologue, UseKey, key_of, path_of
from .uses import Uneven, Use

Sectors = dict[Iteration, list[Array]]
"""What one use touches, by iteration: int64, one number for each CTA and sector: rank << SECTOR_BITS | sector."""
MOST_SECTORS = 1 << 24
"""Sectors of all accesses that may be sorted: 128 MiB of numbers, and a few times that while they are sorted. Pieces
are fewer: of a gathered row many sectors make one."""
AT_LEAST, SECOND = 2.0, (1,)
"""So many times as many have to be foreseen to give up; and the iteration that they are foreseen from."""
SECTOR_BITS = 33
"""Twice the sectors of 128 GiB, half of them for what would lie in front of a tensor; the bits above number lists."""
SECTOR_MASK = (1 << SECTOR_BITS) - 1


def scattered_uses(tracer: Tracer, cta_class: CtaClass, places: frozenset[int]) -> list[Use] | None:
    """Uses of the accesses at some places, as lists of sectors.

    Args:
        places: of the accesses in the code.

    Returns:
        None where there would be too many pieces.
    """
    group = cta_class.group
    listed = _Listed(cta_class, _parts_of(tracer.code_slice, group.representative))
    try:
        for some in by_tensor(tracer, group.representative, places):
            listed.add(narrowed(tracer, group.representative, some), some)
    except _TooMany:
        return None
    return listed.uses()


@dataclass(frozen=True, slots=True)
class _UseSectors:
    """What one use touches.

    Args:
        which: number of the CTA whose sectors they are, of each CTA, int64 (CTAs,); by_iteration: of those CTAs;
        passes: of atomics, over parts of sectors, and all.
    """

    which: Array
    by_iteration: Sectors = field(default_factory=lambda: defaultdict(list))
    passes: list[int] = field(default_factory=lambda: [0, 0])


class _Listed:
    """Sectors that CTAs of a class touch. Args: parts: place of an access -> the part of the code that it is in."""

    def __init__(self, cta_class: CtaClass, parts: Mapping[int, Part]) -> None:
        self._class, self._parts = cta_class, parts
        self._by_key: dict[UseKey, _UseSectors] = {}
        self._total, self._foreseen = 0, _Foreseen(cta_class.group, parts)

    def add(self, tracer: Tracer, places: frozenset[int]) -> None:
        """Follow all threads through all iterations. Args: places: of accesses to one tensor. Raises: _TooMany."""
        subject, group, code = self._class.subject, self._class.group, self._class.subject.flow.instructions
        # How often an atomic adds to a part of a sector is counted CTA by CTA.
        atomic = any(path_of(code[place]) == "atomic" for place in places)
        first, which = (np.arange(len(group)),) * 2 if atomic else stand_ins(tracer, group, same_places=True)
        copies = np.bincount(which)

        def record(place: int, iteration: Iteration, at: int, addresses: Array, active: Array) -> None:
            if place not in places or not active.any():
                return
            instruction = code[place]
            storage = subject.memory.number_of(int(addresses[active].flat[0]))
            key = key_of(instruction, self._parts[place], self._class.phases, place, storage)
            use_key, use_iteration = _joined(key, place, iteration, self._class.prologues)
            use = self._by_key.setdefault(use_key, _UseSectors(which))
            offsets, size_bytes = addresses - _begin(subject, storage), bytes_of(instruction)
            if key.path == "atomic":
                touched, in_part = added_to(offsets, active, size_bytes)
                use.passes[:] = use.passes[0] + in_part, use.passes[1] + len(touched)
            else:
                touched = _touched(offsets, active, size_bytes, key.path in BY_WARP)
            touched = touched + (at << SECTOR_BITS)
            standing = copies[at : at + len(addresses)]
            count = int(copies[touched >> SECTOR_BITS].sum())
            self._total += count
            foreseen = self._foreseen.add(place, iteration, int(standing.sum()), count)
            if self._total > MOST_SECTORS or foreseen > AT_LEAST * MOST_SECTORS:
                raise _TooMany
            use.by_iteration[use_iteration].append(touched)

        every_access(tracer, group.subset(first), record)

    def uses(self) -> list[Use] | None:
        """Uses of what was followed; None where there would be too many pieces."""
        sizes = {key: _sizes(use.by_iteration, key.part, self._class) for key, use in self._by_key.items()}
        if any(len(self._class.group) * prod(trips) >> 63 - SECTOR_BITS for trips in sizes.values()):
            return None
        uses = [_use(key, use, sizes[key], self._class) for key, use in self._by_key.items()]
        pieces = sum(len(listing.starts) for use in uses for listing in use.listings)
        return uses if pieces <= MOST_PIECES else None


class _TooMany(Exception):
    """More sectors than may be sorted."""


class _Foreseen:
    """Sectors that all CTAs will touch in a loop, by what the first of them touch in its second iteration.

    Args:
        group: the CTAs; parts: place of an access -> the part of the code that it is in.
    """

    def __init__(self, group: CtaGroup, parts: Mapping[int, Part]) -> None:
        self._group, self._parts = group, parts
        self._by_place: dict[int, float] = {}

    def add(self, place: int, iteration: Iteration, ctas: int, touched: int) -> float:
        """Sectors of all accesses so far, as far as they are foreseen. Args: ctas: that touch so many."""
        region = self._parts[place][0]
        if iteration == SECOND and region in self._group.trips and place not in self._by_place:
            self._by_place[place] = touched / ctas * float(self._group.trips[region].sum())
        return sum(self._by_place.values())


def _begin(subject: Subject, storage: int) -> int:
    """Address that sectors of a storage are numbered from [B]."""
    known = subject.memory.storages.get(storage)
    first = known.address // SECTOR_BYTES if known else 0
    return (first - (1 << SECTOR_BITS - 1)) * SECTOR_BYTES


def _sizes(sectors: Sectors, part: Part, cta_class: CtaClass) -> Iteration:
    """Iterations of each loop around, of the CTA that runs most, also those in which nothing is touched."""
    region, trips = part[0], cta_class.group.trips
    lengths: list[int] = []
    while region != OUTSIDE:
        lengths.insert(0, int(trips[region].max()) if region in trips else 0)
        region = cta_class.representative.paths.regions[region].parent
    touched = (max(numbers) + 1 for numbers in zip(*sectors, strict=True))
    return tuple(max(pair) for pair in zip(touched, lengths, strict=True))


def _parts_of(code_slice: Slice, run: CtaRun) -> dict[int, Part]:
    """Place of an access -> the part of the code that it is in."""
    positions: dict[int, Position] = {}
    for warp in range(len(run.blocks)):
        for block, position in blocks_of(run.paths, warp):
            positions.setdefault(block, position)
    return {place: (at.region, at.piece) for block, at in positions.items() for place in code_slice.places[block]}


def _joined(
    key: UseKey, place: int, iteration: Iteration, prologues: Mapping[UseKey, Prologue]
) -> tuple[UseKey, Iteration]:
    """Key and iteration of an access, where copies ahead of a loop are its first iterations."""
    if key in prologues:
        return key, (*iteration[:-1], iteration[-1] + prologues[key].depth)
    for into, prologue in prologues.items():
        if prologue.before == key:
            return into, (*iteration, prologue.stage.get(place, 0))
    return key, iteration


def _touched(addresses: Array, active: Array, size_bytes: int, by_warp: bool) -> Array:
    """CTAs and the sectors that they touch, as in `Sectors`, once each; by_warp: once for each warp that touches it.

    Args:
        addresses, active: (CTAs, warps, lanes); size_bytes: that a lane touches.
    """
    ctas, warps = active.shape[:2]
    owners = np.arange(ctas * warps if by_warp else ctas).reshape(ctas, -1, 1) << SECTOR_BITS
    where, owners = addresses[active], np.broadcast_to(owners, active.shape)[active]
    steps = (*range(0, size_bytes, SECTOR_BYTES), size_bytes - 1)
    # Neighbouring lanes mostly touch the same sectors: these are dropped before numbers are sorted.
    parts = [_without_repeats(owners + (where + step) // SECTOR_BYTES) for step in steps]
    touched = _without_repeats(np.sort(np.concatenate(parts)))
    if by_warp:
        touched = (touched >> SECTOR_BITS) // warps << SECTOR_BITS | touched & SECTOR_MASK
    return touched


def added_to(addresses: Array, active: Array, size_bytes: int) -> tuple[Array, int]:
    """CTAs and the sectors that they add to, as in `Sectors`, once for each pass; and passes over a part of a sector.

    Args:
        addresses, active: (CTAs, warps, lanes); size_bytes: that a lane adds to, at most a sector.
    """
    ctas, warps, lanes = np.nonzero(active)
    where, words = addresses[ctas, warps, lanes], max(1, SECTOR_BYTES // size_bytes)
    owners = ctas * active.shape[1] + warps << SECTOR_BITS
    word, adds = np.unique(
        (owners + where // SECTOR_BYTES) * words + where % SECTOR_BYTES // size_bytes, return_counts=True
    )
    numbers = word // words
    begins = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
    passes = np.maximum.reduceat(adds, begins)
    # All words are added to in as many passes as the rarest of them, if it is there at all.
    filled = np.where(np.diff(np.r_[begins, len(numbers)]) == words, np.minimum.reduceat(adds, begins), 0)
    touched = np.repeat(numbers[begins], passes)
    return (touched >> SECTOR_BITS) // active.shape[1] << SECTOR_BITS | touched & SECTOR_MASK, int(
        (passes - filled).sum()
    )


def _without_repeats(numbers: Array) -> Array:
    """Numbers without those that equal the one before."""
    kept: Array = numbers[np.r_[True, numbers[1:] != numbers[:-1]]]
    return kept


def _use(key: UseKey, sectors: _UseSectors, sizes: Iteration, cta_class: CtaClass) -> Use:
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
        numbers = _without_repeats(numbers)
        layers = layers[: len(numbers)]
    begins, lengths = _runs(numbers, layers)
    starts = (begins & SECTOR_MASK) * SECTOR_BYTES + _begin(cta_class.subject, key.storage)
    return Use(
        part=key.part,
        phase=key.phase,
        storage=key.storage,
        kind=key.kind,
        path=key.path,
        integers=key.integers,
        runs=(),
        base=np.zeros(ctas, dtype=np.int64),
        strides=(0,) * len(sizes),
        ahead=prologues[key].depth if key in prologues else 0,
        uneven=Uneven(origins=np.zeros((ctas, 0), dtype=np.int64), shapes=(), sizes=sizes),
        listings=_listings(begins >> SECTOR_BITS, starts, lengths, lists, sectors),
    )


def _runs(numbers: Array, layers: Array) -> tuple[Array, Array]:
    """Runs of neighbouring sectors of one list: first number and length of each.

    Args:
        numbers: int64, rising within each layer; layers: of each.
    """
    begins = np.flatnonzero(np.r_[True, (np.diff(numbers) != 1) | (np.diff(layers) != 0)])
    return numbers[begins], np.diff(np.r_[begins, len(numbers)])


def _listings(lists: Array, starts: Array, lengths: Array, per_cta: int, sectors: _UseSectors) -> tuple[Listing, ...]:
    """Listings of runs, one for each length, or of their longest common piece where there would be too many.

    Args:
        lists: index of the list of each run, rising; starts: its address [B]; lengths: in sectors;
        per_cta: lists of a CTA; sectors: that the runs are made of.
    """
    kinds = np.unique(lengths)
    if len(kinds) > MOST_RECTANGLES:
        width = int(np.gcd.reduce(kinds))
        pieces = lengths // width
        inside = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        lists, starts = np.repeat(lists, pieces), np.repeat(starts, pieces) + inside * width * SECTOR_BYTES
        lengths, kinds = np.full(len(lists), width), np.array([width])
    which, (part, passes) = sectors.which, sectors.passes
    followed = int(which.max()) + 1
    at = np.arange(len(which), dtype=np.int64) * per_cta
    listings = []
    for length in kinds.tolist():
        of_length = lengths == length
        counts = np.bincount(lists[of_length], minlength=followed * per_cta).reshape(followed, per_cta)
        sums = counts.sum(axis=1)
        begins, pieces, counts = (np.cumsum(sums) - sums)[which], sums[which], counts[which].reshape(-1)
        chosen = np.repeat(begins - (np.cumsum(pieces) - pieces), pieces) + np.arange(pieces.sum())
        listings.append(
            Listing(
                starts=starts[of_length][chosen],
                piece=Rectangle(0, 1, 0, length * SECTOR_BYTES),
                spans=np.stack([np.cumsum(counts) - counts, counts], axis=1),
                at=at,
                until=at + per_cta,
                part_fraction=part / passes if passes else 0.0,
            )
        )
    return tuple(listings)
