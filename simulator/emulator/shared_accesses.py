"""Instructions that load from shared memory and store there, thread by thread."""

from collections.abc import Callable

import numpy as np

from ..limits import WARP_THREADS, WORD_BYTES
from ..sass.decode import Instruction
from ..sass.memory_instructions import MATRIX_STORE, ROW_BYTES, ROW_LANES, SIGNED, bytes_of, matrices_of
from ..sass.operands import Address, Operand
from .read_operands import address_of, number_of, words_of
from .shared_memory import SharedMemory
from .thread_values import Array, Value, sign_extended
from .threads import Step, Threads

HALF_BYTES, TRANSPOSED = 2, "MT88"
"""Of an element of a matrix; and what says that a thread has two of a column."""


def load_of(instruction: Instruction, operand: Operand) -> Callable[[Threads, Array], list[Value]]:
    """What LDS returns. Args: operand: its address."""
    size, address = bytes_of(instruction), address_of(operand)
    signed = not SIGNED.isdisjoint(instruction.modifiers)

    def load(threads: Threads, mask: Array) -> list[Value]:
        words = threads.shared.load(address(threads), size, mask)
        return [(sign_extended(array, size), known) for array, known in words] if signed else words

    return load


def store_of(instruction: Instruction, guard: Callable[[Threads], Value] | None) -> Step:
    """What a store leaves in shared memory: STS and STSM their words; of atomics it is not known."""
    if instruction.family == MATRIX_STORE:
        return _matrix_store_of(instruction, guard)
    place = next(number for number, operand in enumerate(instruction.operands) if isinstance(operand, Address))
    address = address_of(instruction.operands[place])
    size = bytes_of(instruction)
    plain = instruction.family == "STS"
    data = words_of(instruction.operands[place + 1], max(1, size // 4)) if plain else ()
    readers = [number_of(operand) for operand in data]

    def step(threads: Threads, mask: Array) -> None:
        mask, words = _guarded(threads, mask, guard, [read(threads) for read in readers])
        threads.shared.store(address(threads), words, size, mask)

    return step


def _guarded(
    threads: Threads, mask: Array, guard: Callable[[Threads], Value] | None, words: list[Value]
) -> tuple[Array, list[Value]]:
    """Threads that may store, and their words, which are not known where the guard is not."""
    if guard is None:
        return mask, words
    holds, sure = guard(threads)
    if sure is not True:
        words = [(array, known & np.asarray(sure)) for array, known in words]
    return mask & (holds | ~np.asarray(sure)), words


def _matrix_store_of(instruction: Instruction, guard: Callable[[Threads], Value] | None) -> Step:
    """STSM: of each matrix of 8 x 8 halves a thread has two neighbours in a row; transposed, in a column.

    Where a row begins is the address of a lane: of row r of matrix m that of lane 8 m + r.
    Source: PTX ISA, stmatrix.
    """
    matrices, size = matrices_of(instruction), HALF_BYTES if TRANSPOSED in instruction.modifiers else WORD_BYTES
    address = address_of(instruction.operands[0])
    readers = [number_of(operand) for operand in words_of(instruction.operands[1], matrices)]
    lanes = np.arange(WARP_THREADS)
    across, down = lanes % 4, lanes // 4

    def step(threads: Threads, mask: Array) -> None:
        mask, words = _guarded(threads, mask, guard, [read(threads) for read in readers])
        begins, sure = address(threads)
        known = any(np.any(mask & flags) for _, flags in words)
        if not known or not threads.whole or not np.all(np.asarray(sure) | ~mask):
            rows = mask & (threads.special["SR_LANEID"][0] < ROW_LANES * matrices)
            threads.shared.store((begins, sure), [], ROW_BYTES, rows)
            return
        begins = np.broadcast_to(begins, (*begins.shape[:2], WARP_THREADS))
        for matrix, (array, flags) in enumerate(words):
            for half in range(WORD_BYTES // size):
                row, place = (2 * across + half, HALF_BYTES * down) if size == HALF_BYTES else (down, 4 * across)
                word = array >> 16 * half & 0xFFFF if size == HALF_BYTES else array
                threads.shared.store((begins[..., ROW_LANES * matrix + row] + place, True), [(word, flags)], size, mask)

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
