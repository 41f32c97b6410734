"""Shared memory, as far as it decides where control goes: single words that warps leave for each other."""

from collections.abc import Callable

import numpy as np

from ..limits import SMEM_LINE_BYTES
from ..sass.decode import Instruction
from .operands import Step, Threads, address_of, following, number_of
from .values import UNKNOWN, UNSET, Array, Value, both, merged, word

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
            number, number_known = shared_word(threads, int(place), size)
            words = np.where(places == place, number, words)
            words_known = words_known | ((places == place) & number_known & known)
        return [(words, True if words_known.all() else words_known)]

    return load


def shared_word(threads: Threads, place: int, size: int) -> Value:
    """What lies at an address. Args: size: bytes, at most 4. Returns: a word for each CTA, (CTAs, 1, 1)."""
    total: Value = word(0), True
    for offset in range(size):
        unset = (word(0), True) if place + offset < SYSTEM_BYTES else UNKNOWN
        byte, known = threads.shared.get(place + offset, unset)
        total = total[0] | byte << 8 * offset, both(total[1], known)
    return total


def store_of(instruction: Instruction, guard: Callable[[Threads], Value] | None) -> Step:
    """STS at one address: what the first thread of each CTA stores, as all store the same in correct code.

    Zeros that the lanes of a warp store side by side clear all that lies between the first and the last.
    """
    modifiers = instruction.modifiers
    size = next((LOAD_BYTES[word] for word in modifiers if word in LOAD_BYTES), 4)
    address = address_of(instruction.operands[0])
    readers = [number_of(name) for name in following(instruction.operands[1], max(1, size // 4))]
    clears = instruction.operands[1] == "RZ"

    def step(threads: Threads, mask: Array) -> None:
        if guard:
            holds, known = guard(threads)
            mask = mask & (holds if known is True else holds | ~np.asarray(known))
        if not mask.any():
            return
        places = _places(address(threads), mask)
        if places is None or (len(places) > 1 and not clears):
            threads.shared.clear()
            return
        first, last = int(places[0]), int(places[-1]) + size
        if len(places) > 1:
            if last - first <= SMEM_LINE_BYTES:
                _store(threads, range(first, last), mask, lambda place: (word(0), True))
            return
        values = [_of_first_thread(reader(threads), mask) for reader in readers]

        def byte_at(place: int) -> Value:
            number, known = values[(place - first) // 4]
            return number >> 8 * ((place - first) % 4) & 255, known

        _store(threads, range(first, last), mask, byte_at)

    return step


def _store(threads: Threads, places: range, mask: Array, byte_at: Callable[[int], Value]) -> None:
    storing: Array = np.asarray(mask.any(axis=(1, 2), keepdims=True))
    for place in places:
        unset = UNSET if place < SYSTEM_BYTES else UNKNOWN
        threads.shared[place] = merged(storing, byte_at(place), threads.shared.get(place, unset))


def _places(value: Value, mask: Array) -> Array | None:
    """The addresses of the threads that a mask selects, each once, in order; None where any is not known."""
    array, known = value
    shape = np.broadcast_shapes(array.shape, mask.shape, np.shape(known))
    chosen = np.broadcast_to(mask, shape)
    if not np.broadcast_to(known, shape)[chosen].all():
        return None
    return np.unique(np.broadcast_to(array, shape)[chosen])


def _of_first_thread(value: Value, mask: Array) -> Value:
    """What the first thread of each CTA has that a mask selects, (CTAs, 1, 1)."""
    array, known = value
    if array.size == 1 and np.size(known) == 1:
        return value
    shape = np.broadcast_shapes(array.shape, mask.shape, np.shape(known))
    first = np.broadcast_to(mask, shape).reshape(shape[0], -1).argmax(axis=1)[:, None]
    rows = np.broadcast_to(array, shape).reshape(shape[0], -1)
    sure = np.broadcast_to(known, shape).reshape(shape[0], -1)
    numbers, all_known = np.take_along_axis(rows, first, 1), np.take_along_axis(sure, first, 1)
    return numbers.reshape(-1, 1, 1), True if all_known.all() else all_known.reshape(-1, 1, 1)
