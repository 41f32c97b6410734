"""Shared memory, as far as it decides where control goes: single words that warps leave for each other."""

from collections.abc import Callable

import numpy as np

from ..sass.decode import Instruction
from .operands import Step, Threads, address_of, following, number_of
from .values import UNKNOWN, Array, Value, word

SYSTEM_BYTES = 0x400
"""Shared memory that the system keeps for itself, cleared when a CTA starts."""
MOST_ADDRESSES = 64
"""A load from more addresses than a CTA can have warps fetches data, not what decides."""
LOAD_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def load_of(operand: str, modifiers: tuple[str, ...], count: int) -> Callable[[Threads, Array], list[Value]]:
    """LDS of one word or less, from addresses that lanes share."""
    size = next((LOAD_BYTES[word] for word in modifiers if word in LOAD_BYTES), 4)
    address = address_of(operand)

    def load(threads: Threads, mask: Array) -> list[Value]:
        places, known = address(threads)
        if size > 4 or known is False:
            return [UNKNOWN] * count
        shape = np.broadcast_shapes(places.shape, mask.shape, np.shape(known))
        places = np.broadcast_to(places, shape)
        wanted = np.unique(places[np.broadcast_to(mask & known, shape)])
        if len(wanted) > MOST_ADDRESSES:
            return [UNKNOWN] * count
        words, words_known = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.bool_)
        for place in wanted:
            number, one_known = _shared_word(threads, int(place), size)
            words = np.where(places == place, number, words)
            words_known = words_known | ((places == place) & one_known & known)
        return [(words, True if words_known.all() else words_known)]

    return load


def _shared_word(threads: Threads, place: int, size: int) -> Value:
    total, known = word(0), True
    for offset in range(size):
        byte, one_known = threads.shared.get(
            place + offset, (word(0), True) if place + offset < SYSTEM_BYTES else UNKNOWN
        )
        total, known = total | byte << 8 * offset, bool(known and one_known)
    return total, known


def store_of(instruction: Instruction, guard: Callable[[Threads], Value] | None) -> Step:
    """STS at one address: what the first of the threads stores; not known where they do not all agree."""
    modifiers = instruction.modifiers
    size = next((LOAD_BYTES[word] for word in modifiers if word in LOAD_BYTES), 4)
    address = address_of(instruction.operands[0])
    readers = [number_of(name) for name in following(instruction.operands[1], max(1, size // 4))]

    def step(threads: Threads, mask: Array) -> None:
        if guard:
            holds, known = guard(threads)
            mask = mask & (holds if known is True else holds | ~np.asarray(known))
        if not mask.any():
            return
        first = _common(address(threads), mask)
        if first is None:
            threads.shared.clear()
            return
        for offset in range(size):
            number = _common(readers[offset // 4](threads), mask)
            byte = UNKNOWN if number is None else (word(number >> 8 * (offset % 4) & 255), True)
            threads.shared[first + offset] = byte

    return step


def _common(value: Value, mask: Array) -> int | None:
    """What the threads that a mask selects agree on; None where they do not, or it is not known."""
    array, known = value
    shape = np.broadcast_shapes(array.shape, mask.shape, np.shape(known))
    chosen = np.broadcast_to(mask, shape)
    if not np.broadcast_to(known, shape)[chosen].all():
        return None
    numbers = np.broadcast_to(array, shape)[chosen]
    return int(numbers[0]) if numbers.size and (numbers == numbers[0]).all() else None
