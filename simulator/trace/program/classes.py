"""CTAs of a launch by what they do: those that run the same blocks go the same way; of these, those that mask alike.

One CTA of each class is followed for all of it. Lengths of loops, and where things begin, are each CTA's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..accesses import COPY
from ..values import Array
from ..ways import OUTSIDE
from .bases import Seen, bases
from .doubts import Doubts
from .given import Subject
from .one_cta import OneCta, follow_cta
from .phases import Part, Phases, find_phases
from .sites import Slice
from .uses import Use, uses_of
from .work import blocks_of

MOST_WAYS, MOST_MASKS = 8, 8
"""Ways that are told apart, and kinds of masks on one of them; the rest counts as the commonest."""


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
        in_l1: place of a load -> share that L1 serves; instructions: that all of its CTAs issue.
    """

    one: OneCta
    phases: Phases
    masked: tuple[Masked, ...]
    trips: Mapping[int, Array]
    in_l1: Mapping[int, float]
    instructions: int

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
    trips = _trips(subject, one, counts)
    own = {region: each[members] for region, each in trips.items()}
    seen = bases(subject, found, one, members, own, doubts)
    kinds, kind_of = _kinds(subject, seen, len(members), notes)
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
            if _shape(leader) != _shape(one):
                others += _ways(subject, found, counts, members[alike], room_bytes, doubts, notes)
                continue
        inside = {place: _only(each, alike) for place, each in seen.items()}
        lengths = {region: int(each[at]) for region, each in own.items()}
        uses, shares, told = uses_of(
            subject, leader, phases, inside, int(np.flatnonzero(alike == at)[0]), lengths, room_bytes
        )
        notes += [line for line in told if line not in notes]
        masked.append(Masked(members=members[alike], uses=tuple(uses)))
        in_l1 = in_l1 or shares
    counted = counts[one.cta]
    with np.errstate(divide="ignore", invalid="ignore"):
        issued = np.where(counted > 0, one.issued / counted, 0.0)
        again = np.where(counted > 0, one.rejoined / counted, 0.0)
    own_members = np.concatenate([kind.members for kind in masked])
    times = counts[own_members].sum(axis=0)
    way = OneWay(
        one=one,
        phases=phases,
        masked=tuple(masked),
        trips=trips,
        in_l1=in_l1,
        instructions=round(float(times @ (issued * sizes + again))),
    )
    return [way, *others]


def _shape(one: OneCta) -> tuple[tuple[int, bool], ...]:
    return tuple((region.parent, region.leaf) for region in one.ways.regions)


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


def _kinds(subject: Subject, seen: Mapping[int, Seen], count: int, notes: list[str]) -> tuple[list[int], Array]:
    """Kinds of masks, the commonest first, and of which each CTA is.

    Copies in loops tell nothing: those that run ahead end before the loop does, in a short one at once.
    """
    flags = [
        each.active[min(each.active)]
        for place, each in seen.items()
        if each.active and not (subject.flow.instructions[place].family == COPY and min(each.active))
    ]
    if not flags:
        return [0], np.zeros(count, dtype=np.int64)
    packed = np.packbits(np.concatenate(flags, axis=1), axis=1)
    _, kind_of, sizes = np.unique(packed, axis=0, return_inverse=True, return_counts=True)
    kind_of = kind_of.reshape(-1)
    order = np.argsort(-sizes, kind="stable")
    if len(order) > MOST_MASKS:
        notes.append(f"CTAs mask their accesses in {len(order)} different ways; rare ones count as the commonest")
        kind_of = np.where(np.isin(kind_of, order[:MOST_MASKS]), kind_of, order[0])
    return [int(kind) for kind in order[:MOST_MASKS]], kind_of


def _only(seen: Seen, chosen: Array) -> Seen:
    return Seen({at: each[chosen] for at, each in seen.addresses.items()}, {})
