"""What lanes of a warp tell each other: shuffles, votes, matches, reductions.

Where threads stand for whole warps (see `threads.Threads.whole`), what they tell each other must be the same in all
lanes of a warp; it is compared in the two that there are of each, the first and the last.

Source: PTX ISA 8.5, sections 9.7.8.6 (shfl), 9.7.13.8 (vote), 9.7.13.9 (match), 9.7.13.11 (redux).
"""

from collections.abc import Callable, Sequence

import numpy as np

from ...limits import WARP_THREADS
from ..thread_values import WORD_MASK, Array, Known, Value, first_lane, signed

FIRST, LAST = slice(0, None, 2), slice(1, None, 2)
"""Of threads that stand for warps, the first and the last lane of each."""
REDUCTIONS: dict[str, Callable[[Array], Array]] = {
    "SUM": lambda values: values.sum(axis=2, keepdims=True),
    "MIN": lambda values: values.min(axis=2, keepdims=True),
    "MAX": lambda values: values.max(axis=2, keepdims=True),
    "AND": lambda values: np.bitwise_and.reduce(values, axis=2, keepdims=True),
    "OR": lambda values: np.bitwise_or.reduce(values, axis=2, keepdims=True),
    "XOR": lambda values: np.bitwise_xor.reduce(values, axis=2, keepdims=True),
}
NEUTRAL = {"SUM": 0, "OR": 0, "XOR": 0, "AND": -1, "MIN": 1 << 32, "MAX": -(1 << 32)}
Answer = tuple[list[Value], list[Value]]
"""Words and predicates."""
Exchange = Callable[[tuple[str, ...], Sequence[Value], Array, Array], Answer]
"""From modifiers, sources, the threads that take part and their lanes. NotImplementedError: an unknown form."""


class LanesDiffer(ValueError):
    """A shuffle or vote has different results in the lanes of a warp, so one thread cannot stand for the warp."""


def shuffle(modifiers: tuple[str, ...], sources: Sequence[Value], mask: Array, lane: Array) -> Answer:
    """SHFL: a value of another lane, and whether there is such a lane."""
    (value, known), (by, by_known), (limits, limits_known) = sources[:3]
    segments, clamp = limits >> 8 & 31, limits & 31
    lowest = lane & segments
    highest = lowest | clamp & ~segments
    kind = modifiers[0]
    if kind == "UP":
        source = lane - by
        inside = source >= highest
    elif kind in ("DOWN", "BFLY"):
        source = lane + by if kind == "DOWN" else lane ^ by
        inside = source <= highest
    elif kind == "IDX":
        source = lowest | by & 31 & ~segments
        inside = source <= highest
    else:
        raise NotImplementedError
    source = np.where(inside, source, lane)
    sure = np.asarray(by_known) & np.asarray(limits_known)
    words: Value = (_taken(value, source), _taken_known(known, source) & sure)
    return [words], [(inside, sure)]


def _taken(values: Array, lane: Array) -> Array:
    if values.shape[2] == 1:
        return values
    warps = np.broadcast_shapes(values.shape[:2], lane.shape[:2])
    wide, lanes = np.broadcast_to(values, (*warps, values.shape[2])), np.broadcast_to(lane, (*warps, lane.shape[2]))
    return np.take_along_axis(wide, lanes, axis=2)


def _taken_known(known: Known, lane: Array) -> Array:
    return np.asarray(known) if np.ndim(known) < 3 else _taken(np.asarray(known), lane)


def vote(modifiers: tuple[str, ...], sources: Sequence[Value], mask: Array, lane: Array) -> Answer:
    """VOTE: which lanes hold, and whether all, or any, of those that take part do."""
    held, known = sources[0]
    here = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, (*held.shape[:2], WARP_THREADS)))
    yes = here & held
    ballot = (yes * (np.int64(1) << np.arange(WARP_THREADS, dtype=np.int64))).sum(axis=2, keepdims=True)
    some: Array = np.logical_or.reduce(yes, axis=2, keepdims=True)
    every: Array = np.logical_and.reduce(~here | held, axis=2, keepdims=True)
    joined = every if "ALL" in modifiers else some if "ANY" in modifiers else some == every
    sure = _all_known(known, here)
    return [(ballot, sure)], [(joined, sure)]


def match(modifiers: tuple[str, ...], sources: Sequence[Value], mask: Array, lane: Array) -> Answer:
    """MATCH: lanes that have the same value; of ALL, whether all do."""
    value, known = sources[0]
    here = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, (*value.shape[:2], WARP_THREADS)))
    shape = np.broadcast_shapes(here.shape, value.shape)
    values, here = np.broadcast_to(value, shape), np.broadcast_to(here, shape)
    alike = (values[..., :, None] == values[..., None, :]) & here[..., None, :]
    bits = np.int64(1) << np.arange(WARP_THREADS, dtype=np.int64)
    which = (alike * bits).sum(axis=3)
    whole = (here * bits).sum(axis=2, keepdims=True)
    every = ((which == whole) | ~here).all(axis=2, keepdims=True)
    sure = _all_known(known, here)
    return [(np.where(every, whole, 0) if "ALL" in modifiers else which, sure)], [(every, sure)]


def reduce(modifiers: tuple[str, ...], sources: Sequence[Value], mask: Array, lane: Array) -> Answer:
    """REDUX: one number of all lanes that take part."""
    value, known = sources[0]
    kind = next((word for word in modifiers if word in REDUCTIONS), "")
    if not kind or any(word.startswith("F") for word in modifiers):
        raise NotImplementedError
    here = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, (*value.shape[:2], WARP_THREADS)))
    numbers = signed(value) if "S32" in modifiers else value
    total = REDUCTIONS[kind](np.where(here, numbers, NEUTRAL[kind]))
    return [(total & WORD_MASK, _all_known(known, here))], []


def uniform(modifiers: tuple[str, ...], sources: Sequence[Value], mask: Array, lane: Array) -> Answer:
    """R2UR: the value of the first lane that takes part, for the whole warp, and which lanes have another one.

    R2UR.OR: or had so before. ptxas loops until none has, where lanes may give an instruction different numbers.
    """
    value, known = sources[0]
    first = np.argmax(mask, axis=2, keepdims=True)
    taken, taken_known = _taken(value, first), _taken_known(known, first)
    others, sure = value != taken, np.asarray(known) & np.asarray(taken_known)
    for before, before_known in sources[1:]:
        others, sure = others | before, sure & np.asarray(before_known)
    return [(taken & WORD_MASK, taken_known)], [(others, sure)]


def elect(modifiers: tuple[str, ...], sources: Sequence[Value], mask: Array, lane: Array) -> Answer:
    """ELECT: one lane of the warp."""
    return [(np.zeros((1, 1, 1), dtype=np.int64), True)], [(lane == 0, True)]


def _all_known(known: Known, here: Array) -> Known:
    return known if np.ndim(known) < 3 else (np.asarray(known) | ~here).all(axis=2, keepdims=True)


EXCHANGES: dict[str, Exchange] = {
    "SHFL": shuffle,
    "ELECT": elect,
    "VOTE": vote,
    "VOTEU": vote,
    "MATCH": match,
    "REDUX": reduce,
    "R2UR": uniform,
}


def of_whole_warps(exchange: Exchange, ballot: bool = True, flagged: bool = False) -> Exchange:
    """The same for threads that stand for warps, two lanes of each. Raises (when run): LanesDiffer.

    Args:
        ballot: whether words are wanted of a vote, and not its outcome alone, which lanes that differ decide;
        flagged: whether R2UR tells which lanes differ.
    """
    compared = _compared(exchange)
    if exchange is uniform:
        return lambda modifiers, sources, mask, lane: _of_first(compared, flagged, modifiers, sources, mask, lane)
    if exchange is vote and not ballot:
        return lambda modifiers, sources, mask, lane: _decided(compared, modifiers, sources, mask, lane)
    return compared


def _of_first(
    compared: Exchange, flagged: bool, modifiers: tuple[str, ...], sources: Sequence[Value], mask: Array, lane: Array
) -> Answer:
    """R2UR of lanes that differ: the first one tells, wherever it takes part. Args: flagged: as of `of_whole_warps`."""
    array, _ = sources[0]
    here = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, lane.shape))
    if array.shape[1] == 1 or (here[:, LAST] & ~here[:, FIRST]).any():
        return compared(modifiers, sources, mask, lane)
    both = here[:, FIRST] & here[:, LAST]
    if flagged and (both & (array[:, FIRST] != array[:, LAST])).any():
        raise LanesDiffer
    of_first: list[Value] = [
        (_both_lanes(values), known if np.ndim(known) < 3 else _both_lanes(np.asarray(known)))
        for values, known in sources
    ]
    return uniform(modifiers, of_first, mask, lane)


def _decided(
    compared: Exchange, modifiers: tuple[str, ...], sources: Sequence[Value], mask: Array, lane: Array
) -> Answer:
    """A vote of lanes that differ: for ANY one that holds decides, for ALL one that does not."""
    held, known = sources[0]
    if held.shape[1] == 1 or known is not True or not {"ANY", "ALL"}.intersection(modifiers):
        return compared(modifiers, sources, mask, lane)
    here = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, held.shape))
    yes, no = here & held, here & ~held
    if "ANY" in modifiers:
        outcome = np.repeat(yes[:, FIRST] | yes[:, LAST], 2, axis=1)
    else:
        outcome = ~np.repeat(no[:, FIRST] | no[:, LAST], 2, axis=1)
    return [(np.zeros((1, 1, 1), dtype=np.int64), False)], [(outcome, True)]


def _both_lanes(values: Array) -> Array:
    """What the first lane of each warp has, for its last one, too."""
    return values if values.shape[1] == 1 else np.repeat(values[:, FIRST], 2, axis=1)


def by_warp(mask: Array, whole: bool) -> Array:
    """Warps any of whose lanes are in a mask. Args: whole: whether all lanes are there, or two that stand for each."""
    if whole or mask.shape[1] == 1:
        any_lane: Array = np.logical_or.reduce(mask, axis=2, keepdims=True)
        return any_lane
    return np.repeat(mask[:, FIRST] | mask[:, LAST], 2, axis=1)


def _compared(exchange: Exchange) -> Exchange:
    """Lanes have to tell each other the same."""

    def exchanged(modifiers: tuple[str, ...], sources: Sequence[Value], mask: Array, lane: Array) -> Answer:
        for array, known in sources:
            if array.shape[1] == 1 or known is False:
                continue
            sure = np.broadcast_to(np.asarray(known), array.shape) if np.ndim(known) else np.ones(array.shape, np.bool_)
            if ((array[:, FIRST] != array[:, LAST]) & sure[:, FIRST] & sure[:, LAST]).any():
                raise LanesDiffer
        words, flags = exchange(modifiers, sources, mask, lane)
        return [first_lane(word) for word in words], [first_lane(flag) for flag in flags]

    return exchanged
