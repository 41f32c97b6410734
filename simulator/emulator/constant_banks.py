"""What instructions load from constant banks: words, pairs, bytes, at a fixed place or at one in a register."""

from collections.abc import Callable

import numpy as np

from ..limits import WORD_BYTES
from ..sass.constants import place_of
from ..sass.decode import Instruction
from ..sass.memory_instructions import SIGNED, bytes_of
from ..sass.operands import Constant, Operand
from ..sass.registers import written
from .read_operands import constant_at, number_of
from .thread_values import UNKNOWN, WORD_MASK, Array, Value, sign_extended, word
from .threads import Threads

Loaded = Callable[[Threads, Array], list[Value]]
"""From threads and a mask to the words that a load gives."""


def load_of_constants(instruction: Instruction, operand: Operand) -> Loaded:
    """What LDC and its like give, a value for each register. Args: operand: where in a bank."""
    if not isinstance(operand, Constant):
        return lambda threads, mask: []
    place, size, count = place_of(operand.bank, operand.offset), bytes_of(instruction), len(written(instruction))
    signed = not SIGNED.isdisjoint(instruction.modifiers)
    if operand.index is None and size >= WORD_BYTES:
        return lambda threads, mask: [constant_at(threads, place + WORD_BYTES * number) for number in range(count)]
    index = number_of(operand.index) if operand.index else None

    def load(threads: Threads, mask: Array) -> list[Value]:
        offsets, known = index(threads) if index else (word(0), True)
        if known is False:
            return [UNKNOWN] * count
        places = offsets + place & WORD_MASK
        width = min(size, WORD_BYTES)
        words = [_gathered(threads, places + WORD_BYTES * number, known, width) for number in range(count)]
        return [(sign_extended(array, width) if signed else array, there) for array, there in words]

    return load


def _gathered(threads: Threads, places: Array, known: Array | bool, size: int) -> Value:
    """The number of `size` bytes at each of some places. Args: known: where places are; size: [B]."""
    distinct, which = np.unique(places, return_inverse=True)
    values = [_bytes_at(threads, int(place), size) for place in distinct]
    array = np.array([value or 0 for value in values], dtype=np.int64)[which].reshape(places.shape)
    there = np.array([value is not None for value in values])[which].reshape(places.shape) & known
    return array, True if there.all() else there


def _bytes_at(threads: Threads, place: int, size: int) -> int | None:
    """A number of `size` bytes in the banks; None: it is not known."""
    begin = place // WORD_BYTES * WORD_BYTES
    low, high = threads.constants.get(begin), threads.constants.get(begin + WORD_BYTES)
    shift = 8 * (place - begin)
    if low is None or (shift + 8 * size > 32 and high is None):
        return None
    return ((high or 0) << 32 | low) >> shift & (1 << 8 * size) - 1
