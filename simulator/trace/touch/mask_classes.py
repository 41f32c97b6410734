"""Kinds of CTAs among those that run the same blocks: CTAs of one kind touch alike, but for where their bases lie.

Probe threads of all CTAs tell kinds apart, and all threads of some CTAs; all threads of all CTAs where these differ.
Where there would be too many kinds, as in rows that each CTA gathers by indices of its own, the accesses that make
CTAs differ are left to `scattered`, which lists them CTA by CTA.

In a loop the first iteration counts. But where trip counts are equal in all CTAs and the representative masks an access
from some iteration on, as for groups of unequal length, all iterations do (`changing_masks`).
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...emulator.storage import STORAGE_SHIFT
from ...emulator.thread_values import Array
from ...sass.memory_instructions import BOX_COPIES, COPY
from ..alike.per_tensor_slices import by_tensor, narrowed
from ..alike.representative_ctas import stand_ins
from ..cta.address_slice import Tracer
from ..cta.bases import Bases, even_stretches
from ..cta.every_thread import signatures
from ..cta.group import CtaGroup
from ..numbering import number_rows
from ..positions import Iteration
from .cta_class import CtaClass

MOST_KINDS = 32
"""Kinds of CTAs that become classes of their own."""
SAMPLED_CTAS, MOST_WARPS, LOOKED_AT = 16, 1 << 17, 128
"""CTAs of a kind that are followed by all threads; warps of those CTAs that are, where the sampled ones differ;
and CTAs of these that are first, which tell accesses that make too many kinds already."""
TOGETHER = 256
"""CTAs from which on it saves time to look for stand-ins, tensor by tensor."""
MOST_ITERATIONS = 1 << 21
"""Iterations of a loop, those of all CTAs added up, that are followed."""
RUN_AHEAD = frozenset({COPY, *BOX_COPIES})
"""Families of copies that a loop makes ahead of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskClasses:
    """Kinds of CTAs.

    Args:
        kinds: their numbers, the commonest first; of_cta: kind of each CTA, int64 (CTAs,);
        scattered: places of accesses that would make too many kinds.
    """

    kinds: list[int]
    of_cta: Array
    scattered: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signatures:
    """Signatures of CTAs by all of their threads.

    Args:
        by_place: uint64 (rows,); row: of each CTA, int64 (CTAs,); scattered: places that make too many kinds by
        themselves, and are left out.
    """

    by_place: Mapping[int, Array]
    row: Array
    scattered: frozenset[int]


def find_mask_kinds(
    tracer: Tracer,
    cta_class: CtaClass,
    notes: list[str],
    listed: frozenset[int],
    changing: frozenset[int] = frozenset(),
) -> MaskClasses:
    """Kinds of the CTAs of a class.

    Args:
        notes: gets remarks, one line each; listed: places that do not count, as each CTA's accesses are listed;
        changing: places whose masks change within a loop: all of their iterations were followed, and count.
    """
    by_probes = _kinds_by_probes(cta_class, listed, changing)
    even = even_stretches(tracer.subject.flow, cta_class.representative, cta_class.bases)
    by_threads = _find_signatures(tracer, cta_class.group, by_probes, notes, listed, even)
    scattered = by_threads.scattered
    while True:
        places = [place for place in by_threads.by_place if place not in scattered]
        total: Array = np.zeros(int(by_threads.row.max()) + 1, dtype=np.uint64)
        for place in places:
            total = total + by_threads.by_place[place] * _weight(place)
        probes = _kinds_by_probes(cta_class, listed | scattered, changing).astype(np.uint64)
        _, of_cta, sizes = np.unique(total[by_threads.row] + probes, return_inverse=True, return_counts=True)
        if len(sizes) <= MOST_KINDS or not places:
            break
        scattered |= {max(places, key=lambda place: len(np.unique(by_threads.by_place[place])))}
    of_cta, order = of_cta.reshape(-1), np.argsort(-sizes, kind="stable")
    if len(order) > MOST_KINDS:
        notes.append(
            f"kernel {tracer.subject.kernel.name}: {len(order)} different masks among its CTAs; the"
            f" {len(order) - MOST_KINDS} rarest are approximated by the most common one"
        )
        of_cta = np.where(np.isin(of_cta, order[:MOST_KINDS]), of_cta, order[0])
    return MaskClasses(kinds=[int(kind) for kind in order[:MOST_KINDS]], of_cta=of_cta, scattered=scattered)


def _kinds_by_probes(cta_class: CtaClass, ignored: frozenset[int], changing: frozenset[int]) -> Array:
    """Kind of each CTA by its probe threads, int64 (CTAs,): which take part, in which tensors, how boxes are cut.

    Copies in loops do not count: those that run ahead end before the loop does, in a short loop at once. How their
    boxes are clipped does.

    Args:
        ignored: places that do not count; changing: places of which all iterations count, not the first alone.
    """
    code = cta_class.subject.flow.instructions
    active = [
        bases.active[min(bases.active)]
        for (place, _), bases in cta_class.bases.items()
        if bases.active
        and place not in ignored | changing
        and not (code[place].family in RUN_AHEAD and min(bases.active))
    ]
    active += [
        taking
        for (place, _), bases in cta_class.bases.items()
        if place in changing - ignored
        for _, taking in sorted(bases.active.items())
    ]
    clips = [
        bases.clips[min(bases.clips)]
        for (place, _), bases in cta_class.bases.items()
        if bases.clips and place not in ignored
    ]
    tensors = [
        _tensors(bases)
        for (place, _), bases in cta_class.bases.items()
        if bases.addresses and not bases.clips and place not in ignored
    ]
    return number_rows((column for table in (*active, *clips, *tensors) for column in table.T), len(cta_class.group))


def _tensors(bases: Bases) -> Array:
    """Which tensors the first thread of each CTA begins in, int64 (CTAs, iterations); 0: it takes no part.

    A table of pointers among a kernel's parameters, or in memory, gives CTAs tensors of their own, and others in each
    round of a loop. Iterations but the first in which all that take part begin in one tensor are left out.
    """
    first, columns = min(bases.addresses), list[Array]()
    for at, addresses in bases.addresses.items():
        tensors = addresses >> STORAGE_SHIFT
        if at == first or tensors.min() < tensors.max():
            tensors = np.where(bases.active[at][:, 0], tensors, 0)
            columns += [tensors] if at == first or len(np.unique(tensors[tensors > 0])) > 1 else []
    return np.stack(columns, axis=1)


def _weight(place: int) -> np.uint64:
    """An odd multiplier for each place."""
    return np.uint64((2 * place + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1)


def _find_signatures(
    tracer: Tracer,
    group: CtaGroup,
    by_probes: Array,
    notes: list[str],
    listed: frozenset[int],
    even: Mapping[int, Array],
) -> _Signatures:
    """Follow all threads of some CTAs of each kind by probes, and of all CTAs of those kinds where these differ.

    Where trip counts tell apart those that differ, some CTAs of each count are enough. Of too many kinds all CTAs are
    followed. Args: as of `find_mask_kinds`; even: as in `path_replay.Loops`.
    """
    code_slice = tracer.code_slice
    wanted = frozenset({*code_slice.touching, *code_slice.copying}) - listed
    few = int(by_probes.max()) < MOST_KINDS
    kinds_of = by_probes
    sampled, of_sampled, differing = _sampled(tracer, group, kinds_of, wanted, even)
    if differing and few:
        by_trips = number_rows((by_probes, *group.trips.values()), len(group))
        if int(by_probes.max()) < int(by_trips.max()) < min(MOST_KINDS, len(group) // SAMPLED_CTAS):
            kinds_of = by_trips
            sampled, of_sampled, differing = _sampled(tracer, group, kinds_of, wanted, even)
    kinds, chosen = np.unique(kinds_of), np.flatnonzero(np.isin(kinds_of, differing)) if few else np.arange(len(group))
    scattered: frozenset[int] = frozenset()
    if len(chosen) > 2 * LOOKED_AT:
        of_some = signatures_of(tracer, group.subset(_sample(chosen, LOOKED_AT)), wanted, even)
        # More kinds than may be of some CTAs are more than may be of all: these are left out first in any case.
        scattered = frozenset(place for place, column in of_some.items() if len(np.unique(column)) > MOST_KINDS)
        if len(chosen) * tracer.subject.kernel.warps > MOST_WARPS:
            if any(len(np.unique(column)) > 1 for place, column in of_some.items() if place not in scattered):
                notes.append(
                    f"kernel {tracer.subject.kernel.name}: masks differ among its CTAs, of which there are too many to"
                    " look at each; some stand for all"
                )
            chosen = chosen[:0]
    of_chosen = signatures_of(tracer, group.subset(chosen), wanted - scattered, even) if len(chosen) else {}
    # A row for each kind, of its first sampled CTA, and one for each chosen CTA.
    row = np.searchsorted(kinds, kinds_of)
    row[chosen] = len(kinds) + np.arange(len(chosen))
    first_sampled = np.array([int(np.flatnonzero(kinds_of[sampled] == kind)[0]) for kind in kinds])
    zeros = np.zeros(max(len(sampled), len(chosen)), dtype=np.uint64)
    by_place = {
        place: np.concatenate([of_sampled.get(place, zeros)[first_sampled], of_chosen.get(place, zeros)[: len(chosen)]])
        for place in {*of_sampled, *of_chosen} - scattered
    }
    return _Signatures(by_place=by_place, row=row, scattered=scattered)


def _sampled(
    tracer: Tracer, group: CtaGroup, kinds_of: Array, wanted: frozenset[int], even: Mapping[int, Array]
) -> tuple[Array, dict[int, Array], list[int]]:
    """Ranks of the CTAs of each kind that are followed, their signatures, and kinds of which these differ."""
    kinds, first = np.unique(kinds_of, return_index=True)
    few = len(kinds) <= MOST_KINDS
    sampled = (
        np.concatenate([_sample(np.flatnonzero(kinds_of == kind), SAMPLED_CTAS) for kind in kinds]) if few else first
    )
    of_sampled = signatures_of(tracer, group.subset(sampled), wanted, even)
    differing = [
        int(kind)
        for kind in kinds
        if any(len(np.unique(column[kinds_of[sampled] == kind])) > 1 for column in of_sampled.values())
    ]
    return sampled, of_sampled, differing


def signatures_of(
    tracer: Tracer, group: CtaGroup, wanted: frozenset[int], even: Mapping[int, Array] | None = None
) -> dict[int, Array]:
    """Signatures of all CTAs, by those that stand for them, tensor by tensor: place -> uint64 (CTAs,)."""
    run, columns = group.representative, dict[int, Array]()
    if len(group) < TOGETHER and not tracer.code_slice.exchanging:
        return signatures(tracer, group, wanted, even)
    for places in by_tensor(tracer, run, wanted):
        part = narrowed(tracer, run, places)
        first, which = stand_ins(part, group)
        of_first = signatures(part, group.subset(first), places, even)
        columns |= {place: column[which] for place, column in of_first.items()}
    return columns


def _sample(ranks: Array, count: int) -> Array:
    """Some of the CTAs, spread evenly."""
    return np.unique(ranks[(np.arange(count) * 0.6180339887 % 1.0 * len(ranks)).astype(np.int64)])


def changing_masks(group: CtaGroup, tail: int) -> dict[int, int]:
    """Place of an access -> its region, where the number of active threads changes between first and last iterations.

    So it does where the first one, by which CTAs are told apart, does not come to the access.

    Args:
        tail: iterations at the end of a loop that do not count, as copies that run ahead are masked there.
    """
    run, trips = group.representative, group.trips
    lanes: dict[tuple[int, int, Iteration], Counter[int]] = defaultdict(Counter)
    for access in run.accesses:
        position = run.positions[access.visit]
        if position.iteration and _same_in_all(trips[position.region]):
            visit = access.place, position.region, position.iteration[:-1]
            lanes[visit][position.iteration[-1]] += access.lanes
    return {
        place: region
        for (place, region, _), counts in lanes.items()
        if min(counts) > 0 or _changes(counts, 1, int(trips[region][0]) - tail)
    }


def _same_in_all(trips: Array) -> bool:
    """Whether a loop has one trip count in all CTAs, and few enough iterations."""
    return bool(trips.min() == trips.max()) and int(trips[0]) * len(trips) <= MOST_ITERATIONS


def _changes(counts: Counter[int], first: int, stop: int) -> bool:
    """Whether counts differ within a range of iterations. Args: counts: iteration -> active threads."""
    return any(counts[number] != counts[first] for number in range(first, stop))
