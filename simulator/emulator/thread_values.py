"""Values of many threads at a time, and where they are known.

Bits are int64 numbers from 0 to 2^32 - 1, predicates booleans, in arrays whose axes are CTA, warp and lane,
each of length 1 where it makes no difference: so what all threads share is computed once.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

Array = np.ndarray
Known = bool | Array
Value = tuple[Array, Known]
Results = tuple[Sequence[Array], Iterable[Array]]
"""Words of the result register, and predicates, in the order of the operands, computed when they are asked for."""
Compute = Callable[[tuple[str, ...], Sequence[Array]], Results]
"""From an opcode's modifiers and its sources to its results; NotImplementedError: a form that is not modelled."""

WORD_MASK = (1 << 32) - 1
SHAPE = (1, 1, 1)


def word(value: int) -> Array:
    """A value that all threads share."""
    return np.full(SHAPE, value & WORD_MASK, dtype=np.int64)


def truth(value: bool) -> Array:
    """A predicate that all threads share."""
    return np.full(SHAPE, value, dtype=np.bool_)


def signed(bits: Array) -> Array:
    """32 bits as two's complement."""
    return bits.astype(np.int32).astype(np.int64)


def sum_of(numbers: Iterable[Array]) -> Array:
    """The sum of some numbers; zeros that all threads share cost nothing."""
    total: Array | None = None
    for number in numbers:
        if number.size > 1 or number.item():
            total = number if total is None else total + number
    return UNSET[0] if total is None else total


def sign_extended(numbers: Array, size: int) -> Array:
    """Signed numbers of a size in bytes, as words."""
    top = np.int64(1) << 8 * size - 1
    extended: Array = (numbers ^ top) - top & WORD_MASK
    return extended


UNKNOWN: Value = (word(0), False)
UNKNOWN_FLAG: Value = (truth(False), False)
UNSET: Value = (word(0), True)
"""A word that nothing has been written to: correct code does not depend on what it holds."""
FALSE, TRUE = (truth(False), True), (truth(True), True)


def holds_for_all(mask: Array) -> bool:
    """Whether a mask selects all threads."""
    return bool(mask.item() if mask.size == 1 else mask.all())


def narrowed_to(mask: Array, condition: Value) -> Array:
    """Threads of a mask for which a condition holds, or is not known."""
    holds, known = condition
    selected: Array = mask & (holds if known is True else holds | ~np.asarray(known))
    return selected


def known_to_all(known: Known, mask: Array) -> bool:
    """Whether a value is known in all threads that a mask selects."""
    return known is True or bool(np.all(np.asarray(known) | ~mask))


def first_lane(value: Value) -> Value:
    """What the first lane of each warp has."""
    array, known = value
    return array[:, :, :1], known if np.ndim(known) < 3 else np.asarray(known)[:, :, :1]


def merged(mask: Array, new: Value, old: Value) -> Value:
    """New values where a mask selects, else the old ones."""
    if holds_for_all(mask) or (new[1] is False and old[1] is False):
        return new
    known: Known = new[1] if new[1] is old[1] else np.where(mask, new[1], old[1])
    array = np.where(mask, new[0], old[0])
    return small(array), True if known is not True and np.all(known) else known


def small(array: Array) -> Array:
    """The same array with one lane where all lanes of every warp are equal."""
    return array[:, :, :1] if array.shape[2] > 1 and (array == array[:, :, :1]).all() else array


def both(first: Known, second: Known) -> Known:
    """Where two values are both known."""
    if first is True or first is second:
        return second
    if second is True:
        return first
    return first & second
