"""How what is touched goes on from iteration to iteration: by strides, anew in each round of the loops around, or not.

The CTA that was followed tells it of all its iterations; all others are seen in the first two of every loop.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..cta.bases import Seen
from ..values import Array
from .sorted_accesses import Made

At = tuple[int, ...]
"""Numbers of an iteration of each loop around, the outermost first."""
Iterations = Mapping[At, Sequence[Made]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How a use goes on.

    Args:
        ahead: iterations that it is done before its own; strides: of each loop around [B];
        moves: iteration -> how far it is from the first [B]; even: whether that is strides alone, in all CTAs;
        restarts: whether it is the stride of the innermost loop, from somewhere else in each round of those around it.
    """

    ahead: int
    strides: tuple[int, ...]
    moves: Mapping[At, int]
    even: bool
    restarts: bool


def course_of(iterations: Iterations, seen: Mapping[int, Seen], ahead: int) -> Course:
    """How a use goes on. Args: seen: accesses of all CTAs of the class; ahead: iterations that it is done before."""
    begin = min(iterations)
    anchors = {at: _anchor(made, ahead > 0) for at, made in iterations.items()}
    strides = _strides(anchors, begin)
    moves = {at: anchor - anchors[begin] for at, anchor in anchors.items()}
    if not begin:
        return Course(ahead=ahead, strides=strides, moves=moves, even=True, restarts=False)
    firsts = first_iterations(iterations)
    positions = {made.position.trips for own in iterations.values() for made in own}
    seen_all = all(was_seen(made, seen) for made in iterations.values())
    goes_on = seen_all and all(
        moves[at] - moves[firsts[at[:-1]]] == strides[-1] * (at[-1] - firsts[at[:-1]][-1]) for at in moves
    )
    goes_on = goes_on and all(_goes_on(made, seen, positions, strides) for made in iterations.values())
    rounds = seen_all and all(
        moves[at] == sum(step * (now - then) for step, now, then in zip(strides, at, begin, strict=True))
        and _begins_alike(iterations[at], iterations[begin], seen)
        for at in firsts.values()
    )
    return Course(
        ahead=ahead,
        strides=strides,
        moves=moves,
        even=goes_on and rounds,
        # Where boxes lie decides how they are clipped, so rounds that begin elsewhere are not alike.
        restarts=goes_on and not rounds and iterations[begin][0].box is None,
    )


def moving_together(
    iterations: Mapping[At, list[Made]], seen: Mapping[int, Seen], rank: int
) -> list[Mapping[At, list[Made]]]:
    """Accesses in groups whose members lie equally far from each other in all CTAs.

    Rows that are gathered one after the other, as in an unrolled loop, lie elsewhere in each CTA, every one by itself.

    Args:
        seen: accesses of all CTAs of the class; rank: of the one that was followed among these.
    """
    offsets: list[Array] = []
    group_of: dict[int, int] = {}
    for made in (access for at in sorted(iterations) for access in iterations[at]):
        if made.place not in group_of:
            begin = begins([made], seen)
            apart = begin - begin[rank]
            alike = (number for number, other in enumerate(offsets) if np.array_equal(apart, other))
            group_of[made.place] = next(alike, len(offsets))
            offsets += [apart] if group_of[made.place] == len(offsets) else []
    if len(offsets) == 1:
        return [iterations]
    groups: list[dict[At, list[Made]]] = [{} for _ in offsets]
    for at, accesses in iterations.items():
        for made in accesses:
            groups[group_of[made.place]].setdefault(at, []).append(made)
    return list(groups)


def first_iterations(iterations: Iterations) -> dict[At, At]:
    """Round of the loops around the innermost one -> its first iteration there."""
    found: dict[At, At] = {}
    for at in sorted(iterations):
        found.setdefault(at[:-1], at)
    return found


def was_seen(made: Sequence[Made], seen: Mapping[int, Seen]) -> bool:
    """Whether it was looked at where an iteration begins in all CTAs."""
    return made[0].place in seen and bool(seen[made[0].place].addresses)


def begins(made: Sequence[Made], seen: Mapping[int, Seen]) -> Array:
    """Where an iteration begins in each CTA, or one that has the same distances between CTAs, int64 (CTAs,) [B]."""
    addresses, at = seen[made[0].place].addresses, made[0].position.trips
    if at in addresses:
        return addresses[at]
    first = (*at[:-1], 0)
    return addresses[first] if first in addresses else addresses[min(addresses)]


def _goes_on(made: Sequence[Made], seen: Mapping[int, Seen], positions: set[At], strides: tuple[int, ...]) -> bool:
    """Whether from an iteration to the next one all CTAs that make both go on by the innermost stride."""
    own, first = seen[made[0].place], made[0].position.trips
    if len(first) < len(strides):  # a copy ahead of the loop
        return True
    second = (*first[:-1], first[-1] + 1)
    if first not in own.addresses or second not in own.addresses or second not in positions:
        return True
    both = _any_thread(own.active[first]) & _any_thread(own.active[second])
    return not np.any((own.addresses[second] - own.addresses[first] - strides[-1])[both])


def _begins_alike(made: Sequence[Made], other: Sequence[Made], seen: Mapping[int, Seen]) -> bool:
    """Whether two iterations lie equally far from each other in all CTAs that make both."""
    both = _taking(made, seen) & _taking(other, seen)
    return len(np.unique((begins(made, seen) - begins(other, seen))[both])) < 2


def _taking(made: Sequence[Made], seen: Mapping[int, Seen]) -> Array:
    active, at = seen[made[0].place].active, made[0].position.trips
    return _any_thread(active[at if at in active else min(active)])


def _any_thread(active: Array) -> Array:
    found: Array = np.logical_or.reduce(active, axis=1)
    return found


def _anchor(made: Sequence[Made], pipelined: bool) -> int:
    """What moves on with iterations: the first thread's address; of copies in several places, the lowest."""
    if not pipelined:
        return made[0].anchor
    if made[0].box is not None:
        return min(copy.anchor for copy in made)
    return min(int(part.addresses.min()) for copy in made for part in copy.touched)


def _strides(anchors: Mapping[At, int], begin: At) -> tuple[int, ...]:
    found = []
    for axis in range(len(begin)):
        along = sorted(at for at in anchors if at[:axis] == begin[:axis] and at[axis + 1 :] == begin[axis + 1 :])
        found.append(
            (anchors[along[1]] - anchors[along[0]]) // (along[1][axis] - along[0][axis]) if len(along) > 1 else 0
        )
    return tuple(found)
