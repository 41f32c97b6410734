"""Kinds of instructions that touch global memory."""

from ...sass.decode import Instruction
from ...sass.operands import Register
from ...sass.registers import result_operands
from ..accesses import ATOMICS, COPY, GLOBAL
from ..tma.boxes import is_copy

REDUCTION = "UTMAREDG"
GIVE_BACK = frozenset({"ATOMG", "ATOM"})
"""Atomics that can return the old value to a warp."""
EXCHANGE = "EXCH"
AFTER_EACH_OTHER = ("F16", "F32", "F64", "BF16", "CAS")
"""Modifiers of atomics that wait for the one before at the same place."""
STORES = frozenset({"STG", "ST", "UTMASTG"})
LOADS = frozenset({"LDG", "LD", COPY})
TOUCHING = GLOBAL | {COPY} | ATOMICS


def is_access(instruction: Instruction) -> bool:
    """Whether an instruction touches global memory."""
    return (instruction.family in TOUCHING and not instruction.never_runs) or is_copy(instruction)


def is_atomic(instruction: Instruction) -> bool:
    """Whether L2 updates what is in memory."""
    return instruction.family in ATOMICS or instruction.family == REDUCTION


def is_plain_exchange(instruction: Instruction) -> bool:
    """Whether it writes like a store: an exchange whose result, the old value, is not used."""
    results = instruction.operands[: result_operands(instruction)]
    unused = any(isinstance(operand, Register) and operand.number is None for operand in results)
    return instruction.family in GIVE_BACK and EXCHANGE in instruction.modifiers and unused


def gives_back(instruction: Instruction) -> bool:
    """Whether L2 returns the old value to a warp; an addition does so even where it is not used."""
    return instruction.family in GIVE_BACK and not is_plain_exchange(instruction)


def sums_integers(instruction: Instruction) -> bool:
    """Whether L2 adds integers: floats name their type, and what is compared has to be there first."""
    return is_read_at_l2(instruction) and not any(word.startswith(AFTER_EACH_OTHER) for word in instruction.modifiers)


def is_read_at_l2(instruction: Instruction) -> bool:
    """Whether L2 reads the old value."""
    return is_atomic(instruction) and not is_plain_exchange(instruction)
