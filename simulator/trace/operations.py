"""What computes the results of the instructions that can decide where control goes.

Indices, trip counts, comparisons, the integer division that goes through a float's reciprocal, votes.
All other instructions have results that are not known.
"""

import re
from collections.abc import Sequence

import numpy as np

from . import arithmetic
from .values import WORD_MASK, Array, Compute, Results, signed, truth


def _to_float(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """I2F of a 32-bit integer, rounded up (RP) or to nearest."""
    if any(word in modifiers for word in ("F64", "F16", "U64", "S64", "U16", "S16", "U8", "S8")):
        raise NotImplementedError
    exact = (sources[0] if "U32" in modifiers else signed(sources[0])).astype(np.float64)
    rounded = exact.astype(np.float32)
    if "RP" in modifiers:
        rounded = np.where(rounded < exact, np.nextafter(rounded, np.float32(np.inf)), rounded).astype(np.float32)
    return (rounded.view(np.uint32).astype(np.int64),), ()


def _reciprocal(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    if modifiers != ("RCP",):
        raise NotImplementedError
    with np.errstate(divide="ignore", over="ignore"):
        result = (np.float32(1) / sources[0].astype(np.uint32).view(np.float32)).astype(np.float32)
    return (result.view(np.uint32).astype(np.int64),), ()


def _to_integer(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """F2I of a float to an unsigned word, towards zero."""
    if "U32" not in modifiers or "TRUNC" not in modifiers or "F64" in modifiers:
        raise NotImplementedError
    value = sources[0].astype(np.uint32).view(np.float32).astype(np.float64)
    return (np.clip(np.nan_to_num(value), 0, WORD_MASK).astype(np.int64),), ()


def _vote(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """VOTE: whether all, or any, lanes of a warp hold; and which."""
    held = sources[0]
    bits = np.int64(1) << np.arange(32, dtype=np.int64)
    ballot = (np.broadcast_to(held, (*held.shape[:2], 32)) * bits).sum(axis=2, keepdims=True)
    join = np.logical_and if "ALL" in modifiers else np.logical_or
    joined: Array = join.reduce(held, axis=2, keepdims=True)
    return (ballot,), (joined,)


def _shuffle(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """SHFL from one lane to all."""
    value, lane = sources[:2]
    if modifiers != ("IDX",) or lane.size != 1:
        raise NotImplementedError
    place = int(lane.flat[0]) & 31 if value.shape[2] > 1 else 0
    return (value[:, :, place : place + 1],), (truth(True),)


def _uniform(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """R2UR: the value of one lane for the whole warp."""
    return (sources[0][:, :, :1] & WORD_MASK,), (truth(True),)


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
    "PRMT": arithmetic.permute,
    "I2F": _to_float,
    "I2FP": _to_float,
    "MUFU": _reciprocal,
    "F2I": _to_integer,
    "VOTE": _vote,
    "VOTEU": _vote,
    "SHFL": _shuffle,
    "R2UR": _uniform,
}
TRIES = (
    re.compile(r"^SYNCS\..*TRYWAIT"),
    re.compile(r"^USETMAXREG\.TRY_ALLOC"),
    re.compile(r"^UTCATOMSWS\.FIND_AND_SET"),
)
"""Waits for an mbarrier, for registers, for tensor memory."""


def is_try(opcode: str) -> bool:
    """Whether an instruction is one that code repeats until it succeeds."""
    return any(pattern.match(opcode) for pattern in TRIES)


def find_operation(opcode: str) -> Compute | None:
    """What computes an opcode's result; None where the result is not known."""
    if is_try(opcode):
        return _succeed
    family = opcode.split(".", 1)[0]
    return OPERATIONS.get(family) or OPERATIONS.get(family.removeprefix("U"))
