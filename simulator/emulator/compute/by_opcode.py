"""What computes the results of the instructions that can decide where control goes.

Indices, trip counts, comparisons, the integer division that goes through a float's reciprocal, floats.
All other instructions have results that are not known.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from ..thread_values import Array, Compute, Results, truth
from . import arithmetic, bit_fields, floats


def _succeed(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """A try that is repeated until it succeeds: it does at once, so waiting counts for nothing."""
    return (), (truth(True), truth(True))


OPERATIONS: dict[str, Compute] = {
    "IADD3": arithmetic.add,
    "IADD": arithmetic.add,
    "VIADD": arithmetic.add,
    "IMAD": arithmetic.multiply_add,
    "LEA": arithmetic.shifted_add,
    "SHF": arithmetic.shift,
    "LOP3": arithmetic.logic,
    "PLOP3": arithmetic.predicate_logic,
    "ISETP": arithmetic.compare,
    "IMNMX": arithmetic.smaller_or_larger,
    "VIMNMX": arithmetic.smaller_or_larger,
    "VIADDMNMX": arithmetic.smaller_or_larger,
    "SEL": arithmetic.select,
    "MOV": arithmetic.move,
    "IABS": arithmetic.absolute,
    "SGXT": arithmetic.extend,
    "PRMT": bit_fields.permute,
    "POPC": bit_fields.count,
    "FLO": bit_fields.leading,
    "BREV": bit_fields.reverse,
    "BMSK": bit_fields.mask,
    "I2I": bit_fields.convert,
    "I2F": floats.from_integer,
    "I2FP": floats.from_integer,
    "F2I": floats.to_integer,
    "MUFU": floats.of_one,
    "FADD": floats.add,
    "FMUL": floats.multiply,
    "FFMA": floats.multiply_add,
    "FSETP": floats.compare,
    "FMNMX": floats.smaller_or_larger,
    "FSEL": arithmetic.select,
    "FRND": floats.rounded,
}
TRIES = (
    re.compile(r"^SYNCS\..*TRYWAIT"),
    re.compile(r"^USETMAXREG\.TRY_ALLOC"),
    re.compile(r"^UTCATOMSWS\.FIND_AND_SET"),
)
"""Waits for an mbarrier, for registers, for tensor memory."""


@lru_cache(maxsize=1 << 12)
def is_try(opcode: str) -> bool:
    """Whether an instruction is one that code repeats until it succeeds."""
    return any(pattern.match(opcode) for pattern in TRIES)


@lru_cache(maxsize=1 << 12)
def find_operation(opcode: str) -> Compute | None:
    """What computes an opcode's result; None where the result is not known."""
    if is_try(opcode):
        return _succeed
    family = opcode.split(".", 1)[0]
    return OPERATIONS.get(family) or OPERATIONS.get(family.removeprefix("U"))
