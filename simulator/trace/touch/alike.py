"""Which CTAs of one way touch alike: by a few threads of all of them, and by all threads where that is called for.

Where CTAs differ in more ways than can be classes, as in rows that each gathers by data of its own, the accesses that
make them differ are named: these are listed, CTA by CTA (`scattered`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..accesses import COPY
from ..cta.bases import Seen
from ..cta.doubts import Doubts
from ..cta.every_thread import signatures
from ..cta.given import Subject
from ..cta.one_cta import OneCta
from ..cta.sites import Slice
from ..cta.stand_ins import stand_ins
from ..tma.boxes import KINDS
from ..values import Array
from .numbering import number_rows

MOST_MASKS = 32
"""Kinds of CTAs of one way that are classes."""
SOME, MOST_WARPS = 16, 1 << 17
"""CTAs that are looked at thread by thread; and warps, where these differ and all are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marks:
    """What CTAs do, by all of their threads: equal numbers where they touch alike.

    Args:
        of: place -> uint64 (CTAs that were looked at,); row: of each CTA among these, int64 (CTAs,).
    """

    of: Mapping[int, Array]
    row: Array


def told_apart(
    subject: Subject,
    found: Slice,
    one: OneCta,
    members: Array,
    trips: Mapping[int, Array],
    seen: Mapping[int, Seen],
    doubts: Doubts,
    notes: list[str],
    listed: frozenset[int],
    midway: frozenset[int] = frozenset(),
) -> tuple[list[int], Array, frozenset[int]]:
    """Kinds of CTAs that touch alike.

    Args:
        listed: places that tell nothing, as each CTA's accesses are listed;
        midway: those of which all iterations were seen, as their masks change between the ends of a loop.

    Returns:
        Kinds, the commonest first; of which each CTA is; and places where there would be too many kinds.
    """
    probed = _kinds(subject, seen, len(members), listed, midway)
    marks = _marks(subject, found, one, members, trips, probed, doubts, notes, listed)
    scattered: frozenset[int] = frozenset()
    while True:
        left = [place for place in marks.of if place not in scattered]
        total: Array = np.zeros(int(marks.row.max()) + 1, dtype=np.uint64)
        for place in left:
            total = total + marks.of[place] * _weight(place)
        every = total[marks.row] + _kinds(subject, seen, len(members), listed | scattered, midway).astype(np.uint64)
        _, kinds, sizes = np.unique(every, return_inverse=True, return_counts=True)
        if len(sizes) <= MOST_MASKS or not left:
            break
        scattered |= {max(left, key=lambda place: len(np.unique(marks.of[place])))}
    kinds, order = kinds.reshape(-1), np.argsort(-sizes, kind="stable")
    if len(order) > MOST_MASKS:
        notes.append(f"CTAs mask their accesses in {len(order)} different ways; rare ones count as the commonest")
        kinds = np.where(np.isin(kinds, order[:MOST_MASKS]), kinds, order[0])
    return [int(kind) for kind in order[:MOST_MASKS]], kinds, scattered


def _kinds(
    subject: Subject, seen: Mapping[int, Seen], count: int, apart: frozenset[int], midway: frozenset[int]
) -> Array:
    """Of which kind of masks each CTA is, by the threads that were followed.

    Whether copies in loops are made tells nothing: those that run ahead end before the loop does, in a short one at
    once. How boxes are clipped does, but where they are listed anyway.

    Args:
        apart: places that tell nothing, as each CTA's accesses are listed; midway: those of which all iterations tell.
    """
    ahead = {COPY, *KINDS}
    flags = [
        each.active[min(each.active)]
        for place, each in seen.items()
        if each.active
        and place not in apart | midway
        and not (subject.flow.instructions[place].family in ahead and min(each.active))
    ]
    flags += [
        taking for place, each in seen.items() if place in midway - apart for _, taking in sorted(each.active.items())
    ]
    clips = [each.clips[min(each.clips)] for place, each in seen.items() if each.clips and place not in apart]
    return number_rows((column for table in (*flags, *clips) for column in table.T), count)


def _weight(place: int) -> np.uint64:
    """An odd number of its own for each place."""
    return np.uint64((2 * place + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1)


def _marks(
    subject: Subject,
    found: Slice,
    one: OneCta,
    members: Array,
    trips: Mapping[int, Array],
    probed: Array,
    doubts: Doubts,
    notes: list[str],
    listed: frozenset[int],
) -> _Marks:
    """Look at all threads: of some CTAs of each kind that was probed, and of all where these differ.

    Of too many kinds all CTAs are looked at.
    """

    def of(chosen: Array) -> dict[int, Array]:
        lengths = {region: each[chosen] for region, each in trips.items()}
        first, which = stand_ins(subject, found, one, members[chosen], lengths, doubts)
        lengths = {region: each[first] for region, each in lengths.items()}
        marks = signatures(subject, found, one, members[chosen[first]], lengths, doubts, listed)
        return {place: numbers[which] for place, numbers in marks.items()}

    kinds, first = np.unique(probed, return_index=True)
    few = len(kinds) <= MOST_MASKS
    some = np.concatenate([_some(np.flatnonzero(probed == kind)) for kind in kinds]) if few else first
    marks = of(some)
    unlike = [
        kind for kind in kinds if any(len(np.unique(numbers[probed[some] == kind])) > 1 for numbers in marks.values())
    ]
    chosen = np.flatnonzero(np.isin(probed, unlike)) if few else np.arange(len(members))
    row = np.searchsorted(kinds, probed)
    leaders = np.array([int(np.flatnonzero(probed[some] == kind)[0]) for kind in kinds])
    if len(chosen) * subject.called.warps > MOST_WARPS:
        notes.append("CTAs mask their accesses differently: too many to look at each; one stands for all")
        chosen = chosen[:0]
    more = of(chosen) if len(chosen) else {}
    row[chosen] = len(kinds) + np.arange(len(chosen))
    nothing = np.zeros(max(len(some), len(chosen)), dtype=np.uint64)
    both = {
        place: np.concatenate([marks.get(place, nothing)[leaders], more.get(place, nothing)[: len(chosen)]])
        for place in {*marks, *more}
    }
    return _Marks(of=both, row=row)


def _some(alike: Array) -> Array:
    """Some of these CTAs, spread evenly."""
    return np.unique(alike[(np.arange(SOME) * 0.6180339887 % 1.0 * len(alike)).astype(np.int64)])
