"""Whether addresses are an affine function of the iteration: with one stride for each loop, or of the innermost alone.

The representative gives addresses of all of its iterations; all other CTAs those of the first two of every loop.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...emulator.thread_values import Array
from ..cta.bases import Bases, Execution
from ..cta.group import CtaGroup
from ..positions import Iteration
from .access_keys import IterationAccess, Iterations

FIRST: Iteration = ()
"""Stands for the first iteration in which an access is made, whichever that is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StridePattern:
    """How addresses of a use depend on the iteration.

    Args:
        ahead: iterations that the use is ahead of its own; strides: of each loop around, outermost first [B];
        moves: iteration -> distance from the first one in the representative [B];
        affine: whether the strides give all of these, in all CTAs;
        restarts: whether the innermost stride does, from a base of its own in each round of the outer loops.
    """

    ahead: int
    strides: tuple[int, ...]
    moves: Mapping[Iteration, int]
    affine: bool
    restarts: bool


def stride_pattern_of(iterations: Iterations, bases: Mapping[Execution, Bases], ahead: int) -> StridePattern:
    """How addresses of a use depend on the iteration.

    Args:
        iterations: accesses of the representative; bases: accesses -> where it begins in all CTAs of the class;
        ahead: iterations that the use is ahead of its own.
    """
    begin = min(iterations)
    anchors = {at: _anchor(accesses, ahead > 0) for at, accesses in iterations.items()}
    strides = _strides(anchors, begin)
    moves = {at: anchor - anchors[begin] for at, anchor in anchors.items()}
    if not begin:
        return StridePattern(ahead=ahead, strides=strides, moves=moves, affine=True, restarts=False)
    firsts = first_iterations(iterations)
    positions = {access.position.iteration for accesses in iterations.values() for access in accesses}
    known = all(has_bases(accesses, bases) for accesses in iterations.values())
    inner = known and all(
        moves[at] - moves[firsts[at[:-1]]] == strides[-1] * (at[-1] - firsts[at[:-1]][-1]) for at in moves
    )
    inner = inner and all(_has_inner_stride(accesses, bases, positions, strides) for accesses in iterations.values())
    inner = inner and _lead_on_alike(iterations, bases, len(strides))
    outer = known and all(
        moves[at] == sum(step * (now - then) for step, now, then in zip(strides, at, begin, strict=True))
        and _same_distance(iterations[at], iterations[begin], bases)
        for at in firsts.values()
    )
    return StridePattern(
        ahead=ahead,
        strides=strides,
        moves=moves,
        affine=inner and outer,
        # Boxes are clipped by where they lie, so rounds of other bases are not alike.
        restarts=inner and not outer and iterations[begin][0].box is None,
    )


def split_by_bases(
    iterations: Iterations, bases: Mapping[Execution, Bases], group: CtaGroup, pipelined: bool
) -> list[Iterations]:
    """Accesses in groups, within each of which the distances between accesses are the same in all CTAs.

    Rows that an unrolled loop gathers make a group each, as each CTA has other distances between them.

    Args:
        bases: accesses -> where it begins in all CTAs of the group;
        pipelined: whether the first iterations are made ahead of the loop, at places of their own.
    """
    offsets: list[Mapping[Iteration, Array]] = []
    number_of: dict[Execution, int] = {}
    made: dict[Execution, list[IterationAccess]] = defaultdict(list)
    for access in (access for at in sorted(iterations) for access in iterations[at]):
        made[access.execution].append(access)
    for execution, accesses in made.items():
        mine = _followed_distances(accesses, bases, group)
        same = (number for number, other in enumerate(offsets) if _agree(mine, other))
        number_of[execution] = next(same, len(offsets))
        offsets += [mine] if number_of[execution] == len(offsets) else []
    if len(offsets) == 1:
        return [iterations]
    sequences = {tuple(number_of[access.execution] for access in accesses) for accesses in iterations.values()}
    by_turn = pipelined and len({len(sequence) for sequence in sequences}) == 1
    # An access of the loop goes with that which has its turn ahead of the loop.
    turns = list(zip(*sequences, strict=True)) if by_turn else []
    groups: dict[tuple[int, ...], dict[Iteration, list[IterationAccess]]] = {}
    for at, accesses in iterations.items():
        for turn, access in enumerate(accesses):
            name = turns[turn] if by_turn else (number_of[access.execution],)
            groups.setdefault(name, {}).setdefault(at, []).append(access)
    return list(groups.values())


def _followed_distances(
    accesses: Sequence[IterationAccess], bases: Mapping[Execution, Bases], group: CtaGroup
) -> Mapping[Iteration, Array]:
    """Distances of an access between CTAs, as of `distances_of`: first its own first ones, then of all followed."""
    first, *later = accesses
    known = bases[first.execution].addresses if has_bases([first], bases) else {}
    followed = [access for access in later if access.position.iteration in known]
    return {FIRST: distances_of([first], bases, group)} | {
        access.position.iteration: distances_of([access], bases, group) for access in followed
    }


def _agree(distances: Mapping[Iteration, Array], others: Mapping[Iteration, Array]) -> bool:
    """Whether two accesses are at the same distances between CTAs where both were followed."""
    common = [at for at in distances if at in others]
    return all(np.array_equal(distances[at], others[at]) for at in common)


def first_iterations(iterations: Iterations) -> dict[Iteration, Iteration]:
    """Iteration of the outer loops -> first iteration of the innermost one there."""
    firsts: dict[Iteration, Iteration] = {}
    for at in sorted(iterations):
        firsts.setdefault(at[:-1], at)
    return firsts


def has_bases(accesses: Sequence[IterationAccess], bases: Mapping[Execution, Bases]) -> bool:
    """Whether addresses of an iteration are known in all CTAs. Args: accesses: of the iteration.

    They are not where the iterations that were followed are none in which any CTA comes to the access.
    """
    followed = bases[accesses[0].execution].addresses if accesses[0].execution in bases else {}
    return any(addresses.any() for addresses in followed.values())


def addresses_of(accesses: Sequence[IterationAccess], bases: Mapping[Execution, Bases]) -> Array:
    """Base of an iteration in each CTA, or of one with the same distances between CTAs, int64 (CTAs,) [B]."""
    addresses, at = bases[accesses[0].execution].addresses, accesses[0].position.iteration
    if at in addresses:
        return addresses[at]
    before = [other[-1:] for other in addresses if other[:-1] == at[:-1] and other <= at]
    return addresses[(*at[:-1], *max(before)) if before else min(addresses)]


def distances_of(accesses: Sequence[IterationAccess], bases: Mapping[Execution, Bases], group: CtaGroup) -> Array:
    """Distance of an iteration in each CTA of a group from that in the representative, int64 (CTAs,) [B].

    It is taken to be 0 where the iteration was not followed in all CTAs, as those of late iterations are not at first.
    """
    if not has_bases(accesses, bases):
        return np.zeros(len(group), dtype=np.int64)
    addresses = addresses_of(accesses, bases)
    distances: Array = addresses - addresses[group.rank]
    return distances


def _has_inner_stride(
    accesses: Sequence[IterationAccess],
    bases: Mapping[Execution, Bases],
    positions: set[Iteration],
    strides: tuple[int, ...],
) -> bool:
    """Whether the innermost stride leads to the next iteration in all CTAs that make both."""
    of_all, first = bases[accesses[0].execution], accesses[0].position.iteration
    if len(first) < len(strides):  # a copy ahead of the loop
        return True
    second = (*first[:-1], first[-1] + 1)
    if first not in of_all.addresses or second not in of_all.addresses or second not in positions:
        return True
    both = _any_thread(of_all.active[first]) & _any_thread(of_all.active[second])
    return not np.any((of_all.addresses[second] - of_all.addresses[first] - strides[-1])[both])


def _lead_on_alike(iterations: Iterations, bases: Mapping[Execution, Bases], depth: int) -> bool:
    """Whether each copy ahead of a loop is as far from the next, the first in the loop included, in all CTAs.

    Two copies lie on a line in any CTA: that of the representative is that of others only where this holds.
    """
    return all(
        _same_distance(iterations[after], iterations[before], bases)
        for before, after in pairwise(sorted(iterations))
        if before[:-1] == after[:-1] and len(iterations[before][0].position.iteration) < depth
    )


def _same_distance(
    accesses: Sequence[IterationAccess], others: Sequence[IterationAccess], bases: Mapping[Execution, Bases]
) -> bool:
    """Whether two iterations are at one distance in all CTAs that make both."""
    both = _takes_part(accesses, bases) & _takes_part(others, bases)
    return len(np.unique((addresses_of(accesses, bases) - addresses_of(others, bases))[both])) < 2


def _takes_part(accesses: Sequence[IterationAccess], bases: Mapping[Execution, Bases]) -> Array:
    """Which CTAs make an iteration, by their probe threads, bool (CTAs,)."""
    active, at = bases[accesses[0].execution].active, accesses[0].position.iteration
    return _any_thread(active[at if at in active else min(active)])


def _any_thread(active: Array) -> Array:
    rows = active[:1] if active.strides[0] == 0 else active  # that all CTAs share
    return np.broadcast_to(np.logical_or.reduce(rows, axis=1), len(active))


def _anchor(accesses: Sequence[IterationAccess], pipelined: bool) -> int:
    """Address that stands for an iteration [B]: the first thread's; of copies that run ahead, the lowest."""
    if not pipelined:
        return accesses[0].anchor
    if accesses[0].box is not None:
        return min(copy.anchor for copy in accesses)
    return min(copy.lowest for copy in accesses)


def _strides(anchors: Mapping[Iteration, int], begin: Iteration) -> tuple[int, ...]:
    """Stride of each loop, by its first two iterations, with the other loops in their first one [B]."""
    strides = []
    for axis in range(len(begin)):
        along = sorted(at for at in anchors if at[:axis] == begin[:axis] and at[axis + 1 :] == begin[axis + 1 :])
        strides.append(
            (anchors[along[1]] - anchors[along[0]]) // (along[1][axis] - along[0][axis]) if len(along) > 1 else 0
        )
    return tuple(strides)
