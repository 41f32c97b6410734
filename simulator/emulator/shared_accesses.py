"""Instructions that load from shared memory and store there, thread by thread."""

from collections.abc import Callable

import numpy as np

from ..sass.decode import Instruction
from ..sass.memory_instructions import MATRIX_STORE, ROW_BYTES, ROW_LANES, SIGNED, bytes_of, matrices_of
from ..sass.operands import Address, Operand
from .read_operands import address_of, number_of, words_of
from .shared_memory import SharedMemory
from .thread_values import Array, Value, sign_extended
from .threads import Step, Threads


def load_of(instruction: Instruction, operand: Operand) -> Callable[[Threads, Array], list[Value]]:
    """What LDS returns. Args: operand: its address."""
    size, address = bytes_of(instruction), address_of(operand)
    signed = not SIGNED.isdisjoint(instruction.modifiers)

    def load(threads: Threads, mask: Array) -> list[Value]:
        words = threads.shared.load(address(threads), size, mask)
        return [(sign_extended(array, size), known) for array, known in words] if signed else words

    return load


def store_of(instruction: Instruction, guard: Callable[[Threads], Value] | None) -> Step:
    """What a store leaves in shared memory: STS its words; of matrices and atomics it is not known."""
    place = next(number for number, operand in enumerate(instruction.operands) if isinstance(operand, Address))
    address = address_of(instruction.operands[place])
    size = ROW_BYTES if instruction.family == MATRIX_STORE else bytes_of(instruction)
    plain = instruction.family == "STS"
    data = words_of(instruction.operands[place + 1], max(1, size // 4)) if plain else ()
    readers = [number_of(operand) for operand in data]
    matrices = matrices_of(instruction)

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
