"""CTAs of a launch by what they do: those that run the same blocks go the same way; of these, those that mask alike.

One CTA of each class is followed for all of it. Lengths of loops, and where things begin, are each CTA's own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ..cta.bases import Seen, bases, only
from ..cta.doubts import Doubts
from ..cta.given import Subject
from ..cta.one_cta import MOST_ACCESSES, OneCta, blocks_of, follow_cta, follow_ctas
from ..cta.sites import Slice
from ..paths import OUTSIDE
from ..values import Array
from .alike import told_apart
from .bounds import check_bounds, farthest
from .listed_boxes import listings_of_boxes
from .listing import listings_of
from .midway import masked_midway
from .numbering import number_rows
from .phases import Part, Phases, find_phases
from .scattered import scattered_uses
from .sorted_accesses import Prologue, Sort, find_prologues
from .uses import Use, uses_of

MOST_WAYS = 8
"""CtaPaths that are told apart; the rest counts as the commonest."""


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
    way_of = number_rows((column > 0 for column in counts.T), len(counts))
    sizes = np.bincount(way_of)
    order = np.argsort(-sizes, kind="stable")
    if len(order) > MOST_WAYS:
        notes.append(
            f"CTAs go {len(order)} different ways; {len(order) - MOST_WAYS} of them count as the one that most go"
        )
        way_of = np.where(np.isin(way_of, order[:MOST_WAYS]), way_of, order[0])
    ways: list[OneWay] = []
    checked: set[int] = set()
    for number in order[:MOST_WAYS]:
        members = np.flatnonzero(way_of == number)
        ways += _ways(subject, found, counts, members, room_bytes, doubts, notes, checked)
    return ways


def _ways(
    subject: Subject,
    found: Slice,
    counts: Array,
    members: Array,
    room_bytes: float,
    doubts: Doubts,
    notes: list[str],
    checked: set[int],
    leader: OneCta | None = None,
) -> list[OneWay]:
    """Classes of CTAs that run the same blocks; some of few iterations may have fewer loops.

    Args:
        checked: gets numbers of CTAs of which it has been seen that they stay within their tensors;
        leader: the CTA of most instructions among them, where it has been followed already.
    """
    sizes = np.array([block.stop - block.first for block in subject.flow.blocks], dtype=np.int64)
    total = counts[members] @ sizes
    rank = int(np.argmax(total))
    one = leader or follow_cta(subject, found, int(members[rank]), doubts)
    check_bounds(subject, one)
    checked.add(one.cta)
    trips = _trips(subject, one, counts)
    own = {region: each[members] for region, each in trips.items()}
    midway = masked_midway(one, own, max(1, subject.called.num_stages))
    seen = bases(subject, found, one, members, own, doubts, frozenset(midway.values()))
    phases = find_phases(one.ways, tuple(blocks_of(one.ways, 0)))
    prologues = find_prologues(subject, one, phases)
    listed = _listed_places(subject, found, one, phases, seen, rank, len(members), own, room_bytes, prologues)
    kinds, kind_of, scattered = told_apart(
        subject, found, one, members, own, seen, doubts, notes, listed, frozenset(midway)
    )
    masked: list[Masked] = []
    others: list[OneWay] = []
    in_l1: dict[int, float] = {}
    ranks = {kind: np.flatnonzero(kind_of == kind) for kind in kinds}
    leaders = {
        kind: rank if kind_of[rank] == kind else int(alike[np.argmax(total[alike])]) for kind, alike in ranks.items()
    }
    followed = _followed(subject, found, one, [int(members[at]) for at in leaders.values()], doubts)
    for kind in kinds:
        alike, at = ranks[kind], leaders[kind]
        leader = next(followed)
        if leader is not one:
            check_bounds(subject, leader)
            checked.add(leader.cta)
            if _shape(leader) != _shape(one):
                others += _ways(subject, found, counts, members[alike], room_bytes, doubts, notes, checked, leader)
                continue
        inside = {place: only(each, alike) for place, each in seen.items()}
        lengths = {region: int(each[at]) for region, each in own.items()}
        place = int(np.flatnonzero(alike == at)[0])
        nearby = {region: each[alike] for region, each in own.items()}
        lists = (
            scattered_uses(subject, found, leader, phases, members[alike], nearby, doubts, prologues, scattered)
            if scattered
            else []
        )
        apart = scattered if lists is not None else frozenset()
        if lists is None:
            notes.append("accesses of CTAs lie apart in too many ways to be listed; one CTA stands for all")
        done = uses_of(
            subject, leader, phases, inside, place, len(alike), lengths, room_bytes, prologues, scattered=apart
        )
        if done.uneven:
            inside = (
                inside
                if found.shared and leader.ways == one.ways
                else bases(subject, found, leader, members[alike], nearby, doubts, done.uneven)
            )
            done = uses_of(
                subject, leader, phases, inside, place, len(alike), lengths, room_bytes, prologues, done.uneven, apart
            )
        uses = [*(_listed(use, leader, nearby, subject, notes) for use in done.uses), *(lists or ())]
        others_of = members[alike[sorted(farthest(uses, nearby, subject))]].tolist()
        for other in _followed(subject, found, one, [cta for cta in others_of if cta not in checked], doubts):
            check_bounds(subject, other)
            checked.add(other.cta)
        notes += [line for line in done.notes if line not in notes]
        masked.append(Masked(members=members[alike], uses=tuple(uses)))
        in_l1 = in_l1 or dict(done.in_l1)
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


def _followed(subject: Subject, found: Slice, one: OneCta, ctas: list[int], doubts: Doubts) -> Iterator[OneCta]:
    """CTAs that are followed, several at a time where each makes few accesses. Args: one: a CTA that has been."""
    left = [cta for cta in ctas if cta != one.cta]
    together = max(1, MOST_ACCESSES // 4 // (subject.called.warps * max(1, len(one.accesses))))
    parts = (follow_ctas(subject, found, left[at : at + together], doubts) for at in range(0, len(left), together))
    others = (other for part in parts for other in part)
    return (one if cta == one.cta else next(others) for cta in ctas)


def _listed_places(
    subject: Subject,
    found: Slice,
    one: OneCta,
    phases: Phases,
    seen: Mapping[int, Seen],
    rank: int,
    count: int,
    trips: Mapping[int, Array],
    room_bytes: float,
    prologues: Mapping[Sort, Prologue],
) -> frozenset[int]:
    """Places of copies by TMA that go on unevenly: each CTA's are listed as they are."""
    if not found.copying:
        return frozenset()
    lengths = {region: int(each[rank]) for region, each in trips.items()}
    return uses_of(subject, one, phases, seen, rank, count, lengths, room_bytes, prologues).listed


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
    uneven = use.uneven
    if uneven.boxes is not None:
        listings = listings_of_boxes(uneven.boxes, done, prod(uneven.sizes))
    else:
        listings = listings_of(uneven.origins, list(uneven.shapes), done, max(1, subject.called.num_stages))
    if not listings:
        name = subject.memory.storages[use.storage].name
        notes.append(f"kernel {subject.called.name}: {use.kind}s of {name} are too uneven to be listed; taken as even")
    return replace(use, uneven=uneven if listings else None, listings=listings)


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
