"""Kinds of instructions that touch global memory."""

from ...sass.decode import Instruction
from ...sass.registers import result_operands
from ..accesses import COPY, GLOBAL, bytes_of
from ..tma.boxes import is_copy

ATOMICS = frozenset({"RED", "REDG", "ATOMG", "ATOM"})
REDUCTION = "UTMAREDG"
GIVE_BACK = frozenset({"ATOMG", "ATOM"})
"""Those of them that can bring a warp what was there before."""
EXCHANGE, NOWHERE = "EXCH", "RZ"
STORES = frozenset({"STG", "ST", "UTMASTG"})
LOADS = frozenset({"LDG", "LD", COPY})
TOUCHING = GLOBAL | {COPY} | ATOMICS


def is_access(one: Instruction) -> bool:
    """Whether an instruction touches global memory."""
    return (one.family in TOUCHING and one.predicate not in ("!PT", "!UPT")) or is_copy(one)


def is_atomic(one: Instruction) -> bool:
    """Whether it adds to what is there, at L2."""
    return one.family in ATOMICS or one.family == REDUCTION


def is_plain_exchange(one: Instruction) -> bool:
    """Whether it writes without a look at what was there, as a store does: an exchange whose result nobody wants."""
    return one.family in GIVE_BACK and EXCHANGE in one.modifiers and NOWHERE in one.operands[: result_operands(one)]


def gives_back(one: Instruction) -> bool:
    """Whether L2 answers a warp with what was there before; an addition answers even where nobody wants the result."""
    return one.family in GIVE_BACK and not is_plain_exchange(one)


def is_read_at_l2(one: Instruction) -> bool:
    """Whether L2 needs what was there before."""
    return is_atomic(one) and not is_plain_exchange(one)


def width_of(instruction: Instruction) -> int:
    """What a lane moves, vectors of atomics included [B]."""
    vector = 4 if any(one.endswith("x4") for one in instruction.modifiers) else 1
    vector = 2 if any(one.endswith("x2") for one in instruction.modifiers) else vector
    return bytes_of(instruction) * vector
