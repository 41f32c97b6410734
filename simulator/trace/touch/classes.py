"""CTAs of a launch by what they do: those that run the same blocks go the same way; of these, those that mask alike.

One CTA of each class is followed for all of it. Lengths of loops, and where things begin, are each CTA's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ..accesses import COPY
from ..cta.bases import Seen, bases, signatures
from ..cta.doubts import Doubts
from ..cta.given import Subject
from ..cta.one_cta import OneCta, blocks_of, follow_cta
from ..cta.sites import Slice
from ..paths import OUTSIDE
from ..values import Array
from .bounds import check_bounds, farthest
from .listing import listing_of
from .phases import Part, Phases, find_phases
from .uses import Use, uses_of

MOST_WAYS, MOST_MASKS = 8, 32
"""CtaPaths that are told apart, and kinds of masks on one of them; the rest counts as the commonest."""
SOME, MOST_WARPS = 16, 1 << 17
"""CTAs that are looked at thread by thread; and warps, where these differ and all are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """CTAs of one way that take part alike. Args: members: their numbers, int64 (CTAs,); uses: what they touch."""

    members: Array
    uses: tuple[Use, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWay:
    """CTAs that go the same way.

    Args:
        one: the CTA that was followed; phases: how its way is cut; masked: by kind of mask;
        trips: region -> iterations of each stay there, by number of the CTA, int64 (CTAs of the launch,);
        in_l1: place of a load -> share that L1 serves;
        issued: float64 (instructions of the code,), how often all of its CTAs issue each.
    """

    one: OneCta
    phases: Phases
    masked: tuple[Masked, ...]
    trips: Mapping[int, Array]
    in_l1: Mapping[int, float]
    issued: Array

    @property
    def instructions(self) -> int:
        """Instructions that all of its CTAs issue."""
        return round(float(self.issued.sum()))

    @property
    def parts(self) -> dict[Part, tuple[int, ...]]:
        """Parts of its way -> instructions of each of their phases."""
        return dict(self.phases.sizes)


def classes_of(
    subject: Subject, found: Slice, counts: Array, room_bytes: float, doubts: Doubts, notes: list[str]
) -> list[OneWay]:
    """Follow one CTA of each class.

    Args:
        counts: executions of each block, int64 (CTAs, blocks); room_bytes: of L1 for each CTA of an SM.
        notes: gets remarks, one line each.
    """
    ran = np.packbits(counts > 0, axis=1)
    _, way_of, sizes = np.unique(ran, axis=0, return_inverse=True, return_counts=True)
    way_of = way_of.reshape(-1)
    order = np.argsort(-sizes, kind="stable")
    if len(order) > MOST_WAYS:
        notes.append(
            f"CTAs go {len(order)} different ways; {len(order) - MOST_WAYS} of them count as the one that most go"
        )
        way_of = np.where(np.isin(way_of, order[:MOST_WAYS]), way_of, order[0])
    ways = []
    for number in order[:MOST_WAYS]:
        members = np.flatnonzero(way_of == number)
        ways += _ways(subject, found, counts, members, room_bytes, doubts, notes)
    return ways


def _ways(
    subject: Subject, found: Slice, counts: Array, members: Array, room_bytes: float, doubts: Doubts, notes: list[str]
) -> list[OneWay]:
    """Classes of CTAs that run the same blocks; some of few iterations may have fewer loops."""
    sizes = np.array([block.stop - block.first for block in subject.flow.blocks], dtype=np.int64)
    total = counts[members] @ sizes
    rank = int(np.argmax(total))
    one = follow_cta(subject, found, int(members[rank]), doubts)
    check_bounds(subject, one)
    trips = _trips(subject, one, counts)
    own = {region: each[members] for region, each in trips.items()}
    seen = bases(subject, found, one, members, own, doubts)
    kind_of = _kinds(subject, seen, len(members))
    kinds, kind_of = _told_apart(subject, found, one, members, own, kind_of, doubts, notes)
    masked: list[Masked] = []
    others: list[OneWay] = []
    in_l1: dict[int, float] = {}
    phases = find_phases(one.ways, tuple(blocks_of(one.ways, 0)))
    for kind in kinds:
        alike = np.flatnonzero(kind_of == kind)
        leader, at = one, rank
        if kind_of[rank] != kind:
            at = int(alike[np.argmax(total[alike])])
            leader = follow_cta(subject, found, int(members[at]), doubts)
            check_bounds(subject, leader)
            if _shape(leader) != _shape(one):
                others += _ways(subject, found, counts, members[alike], room_bytes, doubts, notes)
                continue
        inside = {place: _only(each, alike) for place, each in seen.items()}
        lengths = {region: int(each[at]) for region, each in own.items()}
        place = int(np.flatnonzero(alike == at)[0])
        uses, shares, told, uneven = uses_of(subject, leader, phases, inside, place, lengths, room_bytes)
        if uneven:
            nearby = {region: each[alike] for region, each in own.items()}
            inside = bases(subject, found, leader, members[alike], nearby, doubts, uneven)
            uses, shares, told, _ = uses_of(subject, leader, phases, inside, place, lengths, room_bytes, uneven)
        nearby = {region: each[alike] for region, each in own.items()}
        uses = [_listed(use, leader, nearby, subject, notes) for use in uses]
        for other in sorted(farthest(uses, nearby, subject)):
            check_bounds(subject, follow_cta(subject, found, int(members[alike[other]]), doubts))
        notes += [line for line in told if line not in notes]
        masked.append(Masked(members=members[alike], uses=tuple(uses)))
        in_l1 = in_l1 or shares
    counted = counts[one.cta]
    with np.errstate(divide="ignore", invalid="ignore"):
        issued = np.where(counted > 0, one.issued / counted, 0.0)
        again = np.where(counted > 0, one.rejoined / counted, 0.0)
    own_members = np.concatenate([kind.members for kind in masked])
    times = counts[own_members].sum(axis=0)
    places = np.repeat(times * issued, sizes)
    places[[block.first for block in subject.flow.blocks]] += times * again
    way = OneWay(
        one=one,
        phases=phases,
        masked=tuple(masked),
        trips=trips,
        in_l1=in_l1,
        issued=places,
    )
    return [way, *others]


def _shape(one: OneCta) -> tuple[tuple[int, bool], ...]:
    return tuple((region.parent, region.leaf) for region in one.ways.regions)


def _listed(use: Use, one: OneCta, trips: Mapping[int, Array], subject: Subject, notes: list[str]) -> Use:
    """A use that goes on unevenly, with its lists; as if it went on evenly where there would be too many."""
    if use.uneven is None:
        return use
    region = use.part[0]
    while one.ways.regions[region].parent != OUTSIDE:
        region = one.ways.regions[region].parent
    done = np.minimum(trips[region] * prod(use.uneven.sizes[1:]), use.uneven.origins.shape[1])
    listing = listing_of(use.uneven.origins, list(use.uneven.shapes), done, max(1, subject.called.num_stages))
    if listing is None:
        name = subject.memory.storages[use.storage].name
        notes.append(f"kernel {subject.called.name}: {use.kind}s of {name} are too uneven to be listed; taken as even")
    return replace(use, uneven=None if listing is None else use.uneven, listing=listing)


def _trips(subject: Subject, one: OneCta, counts: Array) -> dict[int, Array]:
    """Region -> iterations of each stay, for all CTAs."""
    found: dict[int, Array] = {}
    totals: dict[int, Array] = {OUTSIDE: np.ones(len(counts), dtype=np.int64)}
    for regions in one.ways.region_of:
        for loop, number in regions.items():
            totals.setdefault(number, counts[:, subject.flow.loops[loop].header])
    for number, region in enumerate(one.ways.regions):
        around = totals[region.parent]
        found[number] = np.where(around > 0, -(-totals[number] // np.maximum(around, 1)), 0)
    return found


def _kinds(subject: Subject, seen: Mapping[int, Seen], count: int) -> Array:
    """Of which kind of masks each CTA is, by the threads that were followed.

    Copies in loops tell nothing: those that run ahead end before the loop does, in a short one at once.
    """
    flags = [
        each.active[min(each.active)]
        for place, each in seen.items()
        if each.active and not (subject.flow.instructions[place].family == COPY and min(each.active))
    ]
    if not flags:
        return np.zeros(count, dtype=np.int64)
    packed = np.packbits(np.concatenate(flags, axis=1), axis=1)
    return np.unique(packed, axis=0, return_inverse=True)[1].reshape(-1)


def _told_apart(
    subject: Subject,
    found: Slice,
    one: OneCta,
    members: Array,
    trips: Mapping[int, Array],
    kind_of: Array,
    doubts: Doubts,
    notes: list[str],
) -> tuple[list[int], Array]:
    """The same by all threads: of some CTAs of each kind, and of all where these differ.

    Returns:
        Kinds, the commonest first; and of which each CTA is.
    """
    apart = kind_of.astype(np.uint64)
    for kind in np.unique(kind_of):
        alike = np.flatnonzero(kind_of == kind)
        some = np.unique(alike[(np.arange(SOME) * 0.6180339887 % 1.0 * len(alike)).astype(np.int64)])
        told = _signatures_of(subject, found, one, members, trips, some, doubts)
        if np.all(told == told[0]):
            continue
        if len(alike) * subject.called.warps > MOST_WARPS:
            notes.append("CTAs mask their accesses differently: too many to look at each; one stands for all")
            continue
        apart[alike] = _signatures_of(subject, found, one, members, trips, alike, doubts)
    _, kinds, sizes = np.unique(apart, return_inverse=True, return_counts=True)
    kinds = kinds.reshape(-1)
    order = np.argsort(-sizes, kind="stable")
    if len(order) > MOST_MASKS:
        notes.append(f"CTAs mask their accesses in {len(order)} different ways; rare ones count as the commonest")
        kinds = np.where(np.isin(kinds, order[:MOST_MASKS]), kinds, order[0])
    return [int(kind) for kind in order[:MOST_MASKS]], kinds


def _signatures_of(
    subject: Subject,
    found: Slice,
    one: OneCta,
    members: Array,
    trips: Mapping[int, Array],
    chosen: Array,
    doubts: Doubts,
) -> Array:
    lengths = {region: each[chosen] for region, each in trips.items()}
    return signatures(subject, found, one, members[chosen], lengths, doubts)


def _only(seen: Seen, chosen: Array) -> Seen:
    return Seen({at: each[chosen] for at, each in seen.addresses.items()}, {})
