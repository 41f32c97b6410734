"""Instructions that load from shared memory and store there, thread by thread."""

from collections.abc import Callable

import numpy as np

from ..sass.decode import Instruction
from ..sass.operands import Address, Operand
from .operands import Step, Threads, address_of, number_of, words_of
from .shared_memory import SharedMemory
from .values import WORD_MASK, Array, Value

BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
ROW_BYTES = 16
"""A row of a matrix that STSM stores, from the address that a lane gives [B]."""
ROW_LANES = 8
"""Rows of a matrix, each of them of one lane."""
MATRIX_STORE = "STSM"
STORES = frozenset({"STS", "ATOMS", MATRIX_STORE})
SIGNED = frozenset({"S8", "S16"})


def size_of(instruction: Instruction) -> int:
    """What a lane loads or stores [B]."""
    return next((BYTES[word] for word in instruction.modifiers if word in BYTES), 4)


def load_of(instruction: Instruction, operand: Operand) -> Callable[[Threads, Array], list[Value]]:
    """What LDS returns. Args: operand: its address."""
    size, address = size_of(instruction), address_of(operand)
    top = 1 << 8 * size - 1 if SIGNED.intersection(instruction.modifiers) else 0

    def load(threads: Threads, mask: Array) -> list[Value]:
        words = threads.shared.load(address(threads), size, mask)
        return [((array ^ top) - top & WORD_MASK, known) for array, known in words] if top else words

    return load


def store_of(instruction: Instruction, guard: Callable[[Threads], Value] | None) -> Step:
    """What a store leaves in shared memory: STS its words; of matrices and atomics it is not known."""
    place = next(number for number, operand in enumerate(instruction.operands) if isinstance(operand, Address))
    address = address_of(instruction.operands[place])
    size = ROW_BYTES if instruction.family == MATRIX_STORE else size_of(instruction)
    plain = instruction.family == "STS"
    data = words_of(instruction.operands[place + 1], max(1, size // 4)) if plain else ()
    readers = [number_of(operand) for operand in data]
    matrices = next((int(word) for word in instruction.modifiers if word in ("2", "4")), 1)

    def step(threads: Threads, mask: Array) -> None:
        words = [read(threads) for read in readers]
        if guard:
            holds, sure = guard(threads)
            mask = mask & (holds | ~np.asarray(sure))
            words = [(array, known & np.asarray(sure)) for array, known in words] if sure is not True else words
        if instruction.family == MATRIX_STORE:
            mask = mask & (threads.special["SR_LANEID"][0] < ROW_LANES * matrices)
        threads.shared.store(address(threads), words, size, mask)

    return step


def copied(shared: SharedMemory, address: Value, words: list[Value], size: int, mask: Array, inside: Value) -> None:
    """A copy from global memory arrives: zeros where it is masked.

    Args:
        words: from global memory; size: bytes of all of them; mask: threads that copy; inside: of these, those that
        do not ask for zeros.
    """
    holds, sure = inside
    zeros = ~holds
    arriving: list[Value] = [
        (np.where(holds, array, 0) if array.any() else array, np.asarray(sure) & (np.asarray(known) | zeros))
        for array, known in words
    ]
    shared.store(address, arriving, size, mask)
