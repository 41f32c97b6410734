"""Sectors of accesses that are elsewhere in every CTA, thread by thread, as gathered rows or masks by data.

All threads of all CTAs are followed, but for CTAs that touch the same as others (`stand_ins`). Where that is too much,
the first CTAs are, and the others touch the same again, in turn: no L2 holds what so many touch.

What the lanes of a warp add to one word is added in as many *passes* over its sector, each of which L2 is sent and
counts by itself (measured: validate/lab/scattered_adds.cu).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ....emulator.storage import STORAGE_SHIFT
from ....emulator.thread_values import Array
from ....limits import SECTOR_BYTES
from ....refusal import CannotFollow
from ....sass.memory_instructions import bytes_of
from ...alike.per_tensor_slices import by_tensor, narrowed
from ...alike.representative_ctas import stand_ins
from ...cta.address_slice import AddressSlice, Tracer
from ...cta.cta_run import CtaRun
from ...cta.every_thread import RecordAll, every_access
from ...cta.group import CtaGroup
from ...cta.traced_kernel import TracedKernel
from ...positions import Iteration, Position, blocks_of
from ..access_keys import BY_WARP, AccessKey, Prologue, joined_ahead, key_of, path_of
from ..cta_class import CtaClass
from ..phases import Part

Sectors = dict[Iteration, list[Array]]
"""What one use touches, by iteration: int64, one number for each CTA and sector: rank << SECTOR_BITS | sector."""
MOST_SECTORS = 1 << 24
"""Sectors of accesses that may be sorted: 128 MiB of numbers, and a few times that while they are sorted. Pieces
are fewer: of a gathered row many sectors make one."""
ENOUGH_SECTORS = 1 << 23
"""Sectors of CTAs that others repeat: 256 MiB, twice what the largest L2 of the catalogue holds."""
AT_LEAST, SECOND = 2.0, (1,)
"""So many times as many have to be foreseen to give up; and the iteration that they are foreseen from."""
SECTOR_BITS = 33
"""Twice the sectors of 128 GiB, half of them for what would lie in front of a tensor; the bits above number lists."""
SECTOR_MASK = (1 << SECTOR_BITS) - 1


@dataclass(frozen=True, slots=True)
class UseSectors:
    """What one use touches.

    Args:
        which: number of the CTA whose sectors they are, of each CTA, int64 (CTAs,); by_iteration: of those CTAs;
        passes: of atomics, over parts of sectors, and all.
    """

    which: Array
    by_iteration: Sectors = field(default_factory=lambda: defaultdict(list))
    passes: list[int] = field(default_factory=lambda: [0, 0])

    def of(self, ranks: Array) -> "UseSectors":
        """The same of some CTAs, with the passes of all. Args: ranks: of the CTAs."""
        some, which = np.unique(self.which[ranks], return_inverse=True)
        number = np.full(int(self.which.max()) + 1, -1, dtype=np.int64)
        number[some] = np.arange(len(some))
        kept = UseSectors(which.reshape(-1), passes=self.passes)
        for iteration, parts in self.by_iteration.items():
            for part in parts:
                owners = number[part >> SECTOR_BITS]
                of_some = owners >= 0
                if of_some.any():
                    kept.by_iteration[iteration].append(owners[of_some] << SECTOR_BITS | part[of_some] & SECTOR_MASK)
        return kept


BySectors = dict[AccessKey, UseSectors]
"""What each use touches."""


def sectors_of(tracer: Tracer, cta_class: CtaClass, places: frozenset[int], followed: int = 0) -> BySectors:
    """Sectors that CTAs of a class touch, use by use.

    Args:
        places: of the accesses in the code; followed: how many CTAs are, 0: all.

    Raises:
        TooMany: more sectors than may be sorted; it says how many CTAs may be followed.
    """
    run = cta_class.representative
    code = tracer.subject.flow.instructions

    def outside(place: int, _: int) -> None:
        raise Astray(
            "threads branch on data, differently in other warps: an address would lie outside its tensor",
            code[place].address,
        )

    listed = Listed(cta_class, _parts_of(tracer.code_slice, run), followed, outside)
    for some in by_tensor(tracer, run, places):
        listed.add(narrowed(tracer, run, some), some)
    return listed.by_key


class Listed:
    """Sectors that CTAs of a class touch: `by_key`.

    Args:
        parts: place of an access -> the part of the code that it is in; followed: CTAs, 0: all;
        outside: gets the place of an access outside of its tensor, and the rank of a CTA that makes it; it raises.
    """

    def __init__(
        self, cta_class: CtaClass, parts: Mapping[int, Part], followed: int, outside: Callable[[int, int], None]
    ) -> None:
        self._class, self._parts, self._followed, self._outside = cta_class, parts, followed, outside
        self.by_key: BySectors = {}
        self._total, self._before, self._foreseen = 0, 0, _Foreseen(cta_class.group, parts)
        self._per_cta = 0.0

    def add(self, tracer: Tracer, places: frozenset[int]) -> None:
        """Follow all threads through all iterations. Args: places: of accesses to one tensor. Raises: TooMany."""
        group, code = self._class.group, self._class.subject.flow.instructions
        # How often an atomic adds to a part of a sector is counted CTA by CTA.
        if self._followed or any(path_of(code[place]) == "atomic" for place in places):
            first, which = self.in_turn()
        else:
            first, which = stand_ins(tracer, group, same_places=True)
        every_access(tracer, group.subset(first), self.recorder(places, first, which))
        self._per_cta += (self._total - self._before) / len(first)

    def in_turn(self) -> tuple[Array, Array]:
        """Ranks of the first CTAs, which are followed, and which of these each CTA does as, as of `stand_ins`."""
        first = np.arange(self._followed or len(self._class.group))
        return first, np.arange(len(self._class.group)) % len(first)

    def recorder(self, places: frozenset[int], first: Array, which: Array) -> RecordAll:
        """What takes accesses. Args: places: in the code, that count; first, which: as of `stand_ins`."""
        subject, code = self._class.subject, self._class.subject.flow.instructions
        self._before = self._total
        last: dict[int, tuple[Array, Array, Array]] = {}

        def touched_in(place: int, offsets: Array, active: Array, by_warp: bool) -> Array:
            """As `sectors_touched`; from what the iteration before touches where this one is as far on everywhere."""
            move = 1
            if place in last and (active is last[place][1] or np.array_equal(active, last[place][1])):
                moves = offsets - last[place][0]
                move = int(moves.flat[0]) if (moves == moves.flat[0]).all() else 1
            if move % SECTOR_BYTES == 0:
                touched = last[place][2] + move // SECTOR_BYTES
            else:
                touched = sectors_touched(offsets, active, bytes_of(code[place]), by_warp)
            last[place] = offsets, active, touched
            return touched

        def record(place: int, iteration: Iteration, at: int, addresses: Array, active: Array) -> None:
            if place not in places or not active.any():
                return
            taken = addresses[active]
            owners = taken >> STORAGE_SHIFT
            if owners.min() != owners.max():  # pointers that differ by CTA: a use for each tensor
                for owner in np.unique(owners):
                    record(place, iteration, at, addresses, active & (addresses >> STORAGE_SHIFT == owner))
                return
            instruction = code[place]
            storage = subject.memory.number_of(int(taken[0]))
            key, use_iteration = self._key(place, iteration, storage)
            use = self.by_key.setdefault(key, UseSectors(which))
            offsets = addresses - begin_of(subject, storage)
            known = subject.memory.storages.get(storage)
            if known and not known.address <= taken.min() <= taken.max() < known.address + known.size_bytes:
                astray = active & ((addresses < known.address) | (addresses >= known.address + known.size_bytes))
                self._outside(place, int(first[at + int(np.argmax(astray.any(axis=(1, 2))))]))
            if key.path == "atomic":
                touched, in_part = added_to(offsets, active, bytes_of(instruction))
                use.passes[:] = use.passes[0] + in_part, use.passes[1] + len(touched)
            else:
                touched = touched_in(place, offsets, active, key.path in BY_WARP)
            touched = touched + (at << SECTOR_BITS)
            self._total += len(touched)
            foreseen = self._foreseen.add(place, iteration, len(touched) / len(addresses), first)
            if self._total > MOST_SECTORS or foreseen > AT_LEAST * MOST_SECTORS:
                sectors = max((self._total - self._before) / (at + len(addresses)), foreseen / len(first))
                raise TooMany(int(ENOUGH_SECTORS / (self._per_cta + sectors)))
            use.by_iteration[use_iteration].append(touched)

        return record

    def _key(self, place: int, iteration: Iteration, storage: int) -> tuple[AccessKey, Iteration]:
        """Key of an access, and the iteration that it counts in. Args: storage: number of the one that it touches."""
        instruction = self._class.subject.flow.instructions[place]
        key = key_of(instruction, self._parts[place], self._class.phases, place, storage)
        key, iteration = _joined(key, place, iteration, self._class.prologues)
        # Warps that run a loop once have it as straight code, others go round it.
        depth = len(self._class.nest_of(key.part[0]))
        return key, (*iteration, *(0,) * depth)[:depth]


class Astray(CannotFollow):
    """Threads that follow the control path of others come to addresses that they would not."""


class TooMany(Exception):
    """More sectors than may be sorted. Args: followed: CTAs that touch enough."""

    def __init__(self, followed: int) -> None:
        super().__init__(followed)
        self.followed = followed


class _Foreseen:
    """Sectors that all CTAs will touch in a loop, by what the first of them touch in its second iteration.

    Args:
        group: the CTAs; parts: place of an access -> the part of the code that it is in.
    """

    def __init__(self, group: CtaGroup, parts: Mapping[int, Part]) -> None:
        self._group, self._parts = group, parts
        self._by_place: dict[int, float] = {}

    def add(self, place: int, iteration: Iteration, touched: float, followed: Array) -> float:
        """Sectors of all accesses so far, as far as they are foreseen.

        Args:
            touched: by a CTA; followed: ranks of the CTAs that are.
        """
        region = self._parts[place][0]
        if iteration == SECOND and region in self._group.trips and place not in self._by_place:
            self._by_place[place] = touched * float(self._group.trips[region][followed].sum())
        return sum(self._by_place.values())


def begin_of(subject: TracedKernel, storage: int) -> int:
    """Address that sectors of a storage are numbered from [B]."""
    known = subject.memory.storages.get(storage)
    first = known.address // SECTOR_BYTES if known else 0
    return (first - (1 << SECTOR_BITS - 1)) * SECTOR_BYTES


def _parts_of(code_slice: AddressSlice, run: CtaRun) -> dict[int, Part]:
    """Place of an access -> the part of the code that it is in."""
    positions: dict[int, Position] = {}
    for warp in range(len(run.blocks)):
        for block, position in blocks_of(run.paths, warp):
            positions.setdefault(block, position)
    return {place: (at.region, at.piece) for block, at in positions.items() for place in code_slice.places[block]}


def _joined(
    key: AccessKey, place: int, iteration: Iteration, prologues: Mapping[AccessKey, Prologue]
) -> tuple[AccessKey, Iteration]:
    """Key and iteration of an access, where copies ahead of a loop are its first iterations."""
    if key in prologues:
        return key, (*iteration[:-1], iteration[-1] + joined_ahead(prologues, key))
    for into, prologue in prologues.items():
        if prologue.before == key and place in prologue.stage and not prologue.apart:
            return into, (*iteration, prologue.stage[place])
    return key, iteration


def sectors_touched(addresses: Array, active: Array, size_bytes: int, by_warp: bool) -> Array:
    """CTAs and the sectors that they touch, as in `Sectors`, once each; by_warp: once for each warp that touches it.

    Args:
        addresses, active: (CTAs, warps, lanes); size_bytes: that a lane touches.
    """
    ctas, warps = active.shape[:2]
    owners = np.arange(ctas * warps if by_warp else ctas).reshape(ctas, -1, 1) << SECTOR_BITS
    where, owners = addresses[active], np.broadcast_to(owners, active.shape)[active]
    steps = (*range(0, size_bytes, SECTOR_BYTES), size_bytes - 1)
    # Neighbouring lanes mostly touch the same sectors: these are dropped before numbers are sorted.
    parts = [without_repeats(owners + (where + step) // SECTOR_BYTES) for step in steps]
    touched = without_repeats(np.sort(np.concatenate(parts)))
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


def without_repeats(numbers: Array) -> Array:
    """Numbers without those that equal the one before."""
    kept: Array = numbers[np.r_[True, numbers[1:] != numbers[:-1]]]
    return kept
