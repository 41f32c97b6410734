"""Kinds of instructions that touch global memory."""

from ...sass.decode import Instruction
from ..accesses import COPY, GLOBAL

ATOMICS = frozenset({"RED", "REDG", "ATOMG", "ATOM"})
STORES = frozenset({"STG", "ST"})
LOADS = frozenset({"LDG", "LD", COPY})
TOUCHING = GLOBAL | {COPY} | ATOMICS


def is_access(one: Instruction) -> bool:
    """Whether an instruction touches global memory."""
    return one.family in TOUCHING and one.predicate not in ("!PT", "!UPT")


def is_atomic(one: Instruction) -> bool:
    """Whether it adds to what is there, at L2."""
    return one.family in ATOMICS
