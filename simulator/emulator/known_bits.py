"""Words of which some bits are known: where the compiler packs predicates into a register, or spills them packed.

LOP3 sets, clears and tests single bits of such a word; a predicate that depends on data makes one bit of it unknown,
and the others still decide where control goes. PRMT puts a flag of 16 bits into a word whose other half holds data.
All other instructions know a word, or do not.
"""

from collections.abc import Callable
from functools import reduce
from itertools import product

import numpy as np

from ..sass.decode import Instruction
from ..sass.operands import Predicate, Register, integer_of
from ..sass.registers import result_operands
from .compute.arithmetic import looked_up
from .compute.bit_fields import permute
from .read_operands import number_of, predicate_of
from .thread_values import FALSE, UNSET, WORD_MASK, Array, Value, word
from .threads import Step, Threads

Guard = Callable[[Threads], Value] | None


def unknown_bits_of(threads: Threads, name: str, known: bool | Array) -> Array:
    """Bits of a word that are not known. Args: name: of its register, empty where it has none."""
    missing = np.where(known, 0, WORD_MASK).astype(np.int64)
    unknown = threads.unknown_bits.get(name)
    return missing if unknown is None else missing & unknown


def _filled(values: list[Value], unknown: list[Array], bits: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Three words, all that is not known of each being set, or not."""
    filled = (
        array if known is True else array | open_bits if bit else array & ~open_bits
        for (array, known), open_bits, bit in zip(values, unknown, bits, strict=True)
    )
    first, second, third = filled
    return first, second, third


def logic_of(instruction: Instruction, guard: Guard, whole: Step) -> Step:
    """LOP3 bit by bit where its sources, or its guard, are not known. Args: whole: what it does where they are."""
    count = result_operands(instruction)
    results = [operand for operand in instruction.operands[:count] if isinstance(operand, Register | Predicate)]
    *sources, lookup = instruction.operands[count : count + 4]
    readers = [number_of(operand) for operand in sources]
    names = [operand.name if isinstance(operand, Register) else "" for operand in sources]
    table = integer_of(lookup) or 0
    joined = [predicate_of(operand) for operand in instruction.operands[count + 4 : count + 5]]

    def step(threads: Threads, mask: Array) -> None:
        holds, sure = guard(threads) if guard else (mask, True)
        values = [read(threads) for read in readers]
        if sure is True and all(known is True for _, known in values):
            whole(threads, mask)
            return
        unknown = [unknown_bits_of(threads, name, known) for name, (_, known) in zip(names, values, strict=True)]
        first, *others = (
            looked_up(table, *_filled(values, unknown, bits), WORD_MASK)
            for bits in product(*((0,) if known is True else (0, 1) for _, known in values))
        )
        open_bits = reduce(np.bitwise_or, (first ^ other for other in others), word(0))
        runs = mask & (holds | ~np.asarray(sure))
        for operand in results:
            name = operand.name
            if operand.number is None:
                continue
            if isinstance(operand, Predicate):
                set_for_sure = (first & ~open_bits) != 0
                old, old_known = threads.registers.get(name, FALSE)
                known = set_for_sure | (open_bits == 0)
                for beside, beside_known in (read(threads) for read in joined):
                    if "PAND" in instruction.modifiers:
                        set_for_sure, known = set_for_sure & beside, known & beside_known
                    else:
                        held = beside & beside_known
                        set_for_sure, known = set_for_sure | held, set_for_sure | held | known & beside_known
                known = known & np.asarray(sure)
                threads.registers[name] = np.where(runs, set_for_sure, old), np.where(runs, known, old_known)
                continue
            _write_bits(threads, runs, name, first, open_bits, sure)

    return step


def keep_unwritten(threads: Threads, name: str, written: Array | None) -> None:
    """Forget which bits of a word are known where it is written anew. Args: written: by which threads; None: by all."""
    left = threads.unknown_bits.pop(name, None)
    if left is None or written is None:
        return
    left = np.where(written, WORD_MASK, left)
    if ((left != 0) & (left != WORD_MASK)).any():
        threads.unknown_bits[name] = left


def _write_bits(threads: Threads, runs: Array, name: str, result: Array, open_bits: Array, sure: bool | Array) -> None:
    """Write a word of which some bits are not known. Args: sure: whether it is known that the instruction runs."""
    old, old_known = threads.registers.get(name, UNSET)
    old_unknown = unknown_bits_of(threads, name, old_known)
    perhaps = open_bits if sure is True else open_bits | np.where(sure, 0, old_unknown | result ^ old)
    left = np.where(runs, perhaps, old_unknown)
    threads.registers[name] = np.where(runs, result, old), left == 0
    threads.unknown_bits[name] = left


def is_byte_choice(instruction: Instruction) -> bool:
    """Whether a PRMT chooses bytes by a selector that is a number."""
    operands = instruction.operands
    return len(operands) == 4 and not instruction.modifiers and integer_of(operands[2]) is not None


def bytes_of(instruction: Instruction, guard: Guard, whole: Step) -> Step:
    """PRMT byte by byte where its words are not known. Args: whole: what it does where they are."""
    if not is_byte_choice(instruction):
        return whole
    result, first, selector, second = instruction.operands[:4]
    choice, words = integer_of(selector) or 0, (first, second)
    readers = [number_of(operand) for operand in words]
    names = [operand.name if isinstance(operand, Register) else "" for operand in words]

    def step(threads: Threads, mask: Array) -> None:
        holds, sure = guard(threads) if guard else (mask, True)
        values = [read(threads) for read in readers]
        if sure is True and all(known is True for _, known in values):
            whole(threads, mask)
            return
        unknown = [unknown_bits_of(threads, name, known) for name, (_, known) in zip(names, values, strict=True)]
        (chosen,), _ = permute((), (values[0][0] & ~unknown[0], word(choice), values[1][0] & ~unknown[1]))
        (open_bits,), _ = permute((), (unknown[0], word(choice), unknown[1]))
        if isinstance(result, Register) and result.number is not None:
            _write_bits(threads, mask & (holds | ~np.asarray(sure)), result.name, chosen, open_bits, sure)

    return step
