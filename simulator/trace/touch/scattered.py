"""What accesses touch that lie elsewhere in every CTA, thread by thread: gathered rows, masks by the CTA's own data.

All threads of all CTAs are followed, and the sectors of each iteration listed, CTA by CTA. Accesses of one iteration
that make one use share sectors as those of one CTA do (`uses`); of what a loop comes back to nothing is found in L1.
"""

from collections import defaultdict
from collections.abc import Mapping
from math import prod

import numpy as np

from ...limits import SECTOR_BYTES
from ..cta.doubts import Doubts
from ..cta.every_thread import every_access
from ..cta.given import Subject
from ..cta.kinds import width_of
from ..cta.one_cta import OneCta, Position, blocks_of
from ..cta.sites import Slice
from ..paths import OUTSIDE
from ..values import Array
from .footprints import Rectangle
from .listing import MOST_PIECES, MOST_RECTANGLES, Listing
from .phases import Part, Phases
from .sorted_accesses import PAST_L1, Prologue, Sort, sort_of
from .uses import Uneven, Use

At = tuple[int, ...]
Keys = dict[At, list[Array]]
"""What one sort of accesses touches, by iteration: for each CTA and sector one int64, sectors in the lower bits."""
MOST_SECTORS = 1 << 24
"""Sectors of all accesses that are sorted at most: 128 MiB of keys, and a few times that while they are; of rows that
are gathered many make one piece."""
SECTOR_BITS = 33
"""Twice the sectors of 128 GiB, half of them for what would lie in front of a tensor; the bits above number lists."""


def scattered_uses(
    subject: Subject,
    found: Slice,
    one: OneCta,
    phases: Phases,
    members: Array,
    trips: Mapping[int, Array],
    doubts: Doubts,
    prologues: Mapping[Sort, Prologue],
    places: frozenset[int],
) -> list[Use] | None:
    """Uses of the accesses at some places, as lists of sectors.

    Args:
        one: a CTA of the class; members: numbers of all of them, int64 (CTAs,); trips: region -> iterations of a stay,
            int64 (CTAs,); prologues: what runs ahead of itself; places: in the code.

    Returns:
        None where there would be too many pieces.
    """
    parts = _parts_of(found, one)
    made: dict[Sort, Keys] = defaultdict(lambda: defaultdict(list))
    total = 0

    def note(place: int, at: At, first: int, addresses: Array, active: Array) -> None:
        nonlocal total
        if place not in places or total > MOST_SECTORS or not active.any():
            return
        instruction = subject.flow.instructions[place]
        storage = subject.memory.number_of(int(addresses[active].flat[0]))
        key = sort_of(instruction, parts[place], phases, place, storage)
        where = addresses - _begin(subject, storage)
        touched = _touched(where, active, width_of(instruction), key.path == "async") + (first << SECTOR_BITS)
        total += len(touched)
        key, at = _joined(key, place, at, prologues)
        made[key][at].append(touched)

    every_access(subject, found, one, members, trips, doubts, note)
    sizes = {key: _sizes(keys, key.part, one, trips) for key, keys in made.items()}
    if total > MOST_SECTORS or any(len(members) * prod(each) >> 63 - SECTOR_BITS for each in sizes.values()):
        return None
    uses = [_use(subject, key, keys, sizes[key], len(members), prologues) for key, keys in made.items()]
    pieces = sum(len(listing.starts) for use in uses for listing in use.listings)
    return uses if pieces <= MOST_PIECES else None


def _begin(subject: Subject, storage: int) -> int:
    """What sectors of a storage are counted from [B]."""
    known = subject.memory.storages.get(storage)
    first = known.address // SECTOR_BYTES if known else 0
    return (first - (1 << SECTOR_BITS - 1)) * SECTOR_BYTES


def _sizes(keys: Keys, part: Part, one: OneCta, trips: Mapping[int, Array]) -> At:
    """Iterations of each loop around: of the CTA that makes most, also those in which nothing is touched."""
    region = part[0]
    lengths: list[int] = []
    while region != OUTSIDE:
        lengths.insert(0, int(trips[region].max()) if region in trips else 0)
        region = one.ways.regions[region].parent
    seen = (max(along) + 1 for along in zip(*keys, strict=True))
    return tuple(max(pair) for pair in zip(seen, lengths, strict=True))


def _parts_of(found: Slice, one: OneCta) -> dict[int, Part]:
    """Place of an access -> the part of the code that it is in."""
    positions: dict[int, Position] = {}
    for warp in range(len(one.paths)):
        for block, position in blocks_of(one.ways, warp):
            positions.setdefault(block, position)
    return {place: (at.region, at.piece) for block, at in positions.items() for place in found.places[block]}


def _joined(key: Sort, place: int, at: At, prologues: Mapping[Sort, Prologue]) -> tuple[Sort, At]:
    """A sort and an iteration, where copies ahead of a loop are its first iterations."""
    if key in prologues:
        return key, (*at[:-1], at[-1] + prologues[key].depth)
    for into, prologue in prologues.items():
        if prologue.before == key:
            return into, (*at, prologue.stage.get(place, 0))
    return key, at


def _touched(addresses: Array, active: Array, size_bytes: int, by_warp: bool) -> Array:
    """CTAs and sectors that they touch, as `Keys`, once each, or as often as warps touch it."""
    ctas, warps, lanes = np.nonzero(active)
    where = addresses[ctas, warps, lanes]
    owners = (ctas << SECTOR_BITS) if not by_warp else ctas * active.shape[1] + warps << SECTOR_BITS
    steps = (*range(0, size_bytes, SECTOR_BYTES), size_bytes - 1)
    # Neighbouring lanes touch the same sectors as a rule: those fall away before anything is sorted.
    keys = np.unique(np.concatenate([_changes(owners + (where + step) // SECTOR_BYTES) for step in steps]))
    if by_warp:
        keys = (keys >> SECTOR_BITS) // active.shape[1] << SECTOR_BITS | keys & _SECTOR
    return keys


def _changes(keys: Array) -> Array:
    """Keys without those that equal the one before."""
    kept: Array = keys[np.r_[True, keys[1:] != keys[:-1]]]
    return kept


_SECTOR = (1 << SECTOR_BITS) - 1


def _use(subject: Subject, key: Sort, keys: Keys, sizes: At, ctas: int, prologues: Mapping[Sort, Prologue]) -> Use:
    """The use of a sort: lists of what each CTA touches in each iteration. Args: sizes: iterations of each loop."""
    lists = prod(sizes)
    parts = []
    for at, touched in keys.items():
        number = int(np.ravel_multi_index(at, sizes)) if sizes else 0
        parts += [((part >> SECTOR_BITS) * lists + number << SECTOR_BITS) + (part & _SECTOR) for part in touched]
    every = np.sort(np.concatenate(parts))
    layers = [_changes(every)]
    if key.path in PAST_L1:
        # Whoever fetches what others have fetched fetches it again.
        place = np.arange(len(every))
        new = np.r_[True, every[1:] != every[:-1]]
        again = place - np.maximum.accumulate(np.where(new, place, 0))
        layers += [every[again == layer] for layer in range(1, int(again.max()) + 1)]
    runs = [_runs(layer) for layer in layers]
    begins, lengths = (np.concatenate([run[which] for run in runs]) for which in (0, 1))
    order = np.argsort(begins, kind="stable")
    begins, lengths = begins[order], lengths[order]
    starts = (begins & _SECTOR) * SECTOR_BYTES + _begin(subject, key.storage)
    return Use(
        part=key.part,
        phase=key.phase,
        storage=key.storage,
        kind=key.kind,
        path=key.path,
        runs=(),
        base=np.zeros(ctas, dtype=np.int64),
        strides=(0,) * len(sizes),
        ahead=prologues[key].depth if key in prologues else 0,
        uneven=Uneven(origins=np.zeros((ctas, 0), dtype=np.int64), shapes=(), sizes=sizes),
        listings=_listings(begins >> SECTOR_BITS, starts, lengths, ctas, lists),
    )


def _runs(keys: Array) -> tuple[Array, Array]:
    """Runs of neighbouring sectors of one list: the first of each, and how many. Args: keys: rising, int64."""
    begins = np.flatnonzero(np.r_[True, np.diff(keys) != 1])
    return keys[begins], np.diff(np.r_[begins, len(keys)])


def _listings(lists: Array, starts: Array, lengths: Array, ctas: int, per_cta: int) -> tuple[Listing, ...]:
    """Runs as lists of pieces of equal length. Args: lists: of each; lengths: of each, in sectors."""
    kinds = np.unique(lengths)
    if len(kinds) > MOST_RECTANGLES:
        width = int(np.gcd.reduce(kinds))
        pieces = lengths // width
        inside = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        lists, starts = np.repeat(lists, pieces), np.repeat(starts, pieces) + inside * width * SECTOR_BYTES
        lengths, kinds = np.full(len(lists), width), np.array([width])
    at = np.arange(ctas, dtype=np.int64) * per_cta
    found = []
    for length in kinds.tolist():
        own = lengths == length
        counts = np.bincount(lists[own], minlength=ctas * per_cta)
        found.append(
            Listing(
                starts=starts[own],
                piece=Rectangle(0, 1, 0, length * SECTOR_BYTES),
                spans=np.stack([np.cumsum(counts) - counts, counts], axis=1),
                at=at,
                until=at + per_cta,
            )
        )
    return tuple(found)
