"""What instructions compute from 32-bit floats: places in a resized picture, what functions of a library branch on.

Results are rounded to nearest, as hardware does, those of MUFU too, which it only approximates (RCP to an ulp, others
to 2^-21 or so); forms that round otherwise are not modelled, nor halves and doubles.

Source: PTX ISA 8.5, sections 9.7.3 (add, mul, fma, min, max, rcp, ex2, sin, tanh), 9.7.6 (setp, selp), 9.7.9.21 (cvt).
"""

from collections.abc import Callable, Sequence

import numpy as np

from ..thread_values import WORD_MASK, Array, Results
from .arithmetic import COMPARE

UNUSUAL = frozenset({"RM", "RP", "RZ", "SAT", "F16", "F64", "BF16", "D2", "M2", "D4", "M4", "D8", "M8"})
ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "TRUNC": np.trunc,
    "RN": np.rint,
}
WIDTHS = {"8": 8, "16": 16, "32": 32, "64": 64}


def floats(bits: Array) -> Array:
    """Words as floats."""
    values: Array = (bits & WORD_MASK).astype(np.uint32).view(np.float32)
    return values


def bits_of(values: Array) -> Array:
    """Floats as words."""
    bits: Array = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).astype(np.int64)
    return bits


def _usual(modifiers: tuple[str, ...]) -> None:
    if UNUSUAL.intersection(modifiers):
        raise NotImplementedError


def add(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """FADD."""
    _usual(modifiers)
    with np.errstate(all="ignore"):
        return (bits_of(floats(sources[0]) + floats(sources[1])),), ()


def multiply(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """FMUL; with RZ rounded to zero: the product of two floats is exact in 64 bits."""
    _usual(tuple(word for word in modifiers if word != "RZ"))
    a, b = floats(sources[0]), floats(sources[1])
    with np.errstate(all="ignore"):
        if "RZ" in modifiers:
            return (bits_of(_to_zero(a.astype(np.float64) * b.astype(np.float64))),), ()
        return (bits_of(a * b),), ()


def _to_zero(exact: Array) -> Array:
    """Doubles as floats, rounded to zero."""
    nearest = exact.astype(np.float32)
    cut: Array = np.where(np.abs(nearest) > np.abs(exact), np.nextafter(nearest, np.float32(0)), nearest)
    return cut


def multiply_add(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """FFMA: the product of two floats is exact in 64 bits, and the sum is rounded there before it is to 32."""
    _usual(modifiers)
    a, b, c = (floats(source).astype(np.float64) for source in sources[:3])
    with np.errstate(all="ignore"):
        return (bits_of((a * b + c).astype(np.float32)),), ()


def compare(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """FSETP: a against b, joined with a predicate; with U true where one of them is no number."""
    relation = modifiers[0]
    a, b, joined = floats(sources[0]), floats(sources[1]), sources[2]
    odd = np.isnan(a) | np.isnan(b)
    if relation in ("NUM", "NAN"):
        holds = odd if relation == "NAN" else ~odd
    else:
        holds = np.where(odd, relation.endswith("U"), COMPARE[relation.removesuffix("U")](a, b))
    if "OR" in modifiers:
        return (), (holds | joined, ~holds | joined)
    if "XOR" in modifiers:
        return (), (holds ^ joined, ~holds ^ joined)
    return (), (holds & joined, ~holds & joined)


def smaller_or_larger(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """FMNMX: the smaller where the predicate holds, else the larger."""
    if "NAN" in modifiers or len(sources) != 3:
        raise NotImplementedError
    a, b = floats(sources[0]), floats(sources[1])
    return (bits_of(np.where(sources[2], np.fmin(a, b), np.fmax(a, b))),), ()


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "RCP": lambda x: 1.0 / x,
    "SQRT": np.sqrt,
    "RSQ": lambda x: 1.0 / np.sqrt(x),
    "EX2": np.exp2,
    "LG2": np.log2,
    "SIN": lambda turns: np.sin(2.0 * np.pi * turns),
    "COS": lambda turns: np.cos(2.0 * np.pi * turns),
    "TANH": np.tanh,
}
"""Of MUFU. Angles come in turns: RRO and FMUL have divided them before."""


def of_one(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """MUFU."""
    if len(modifiers) != 1 or modifiers[0] not in FUNCTIONS:
        raise NotImplementedError
    with np.errstate(all="ignore"):
        return (bits_of(FUNCTIONS[modifiers[0]](floats(sources[0]).astype(np.float64)).astype(np.float32)),), ()


def rounded(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """FRND: a float without its fraction."""
    if {"F16", "F64", "BF16"}.intersection(modifiers):
        raise NotImplementedError
    kind = next((word for word in modifiers if word in ROUNDINGS), "RN")
    return (bits_of(ROUNDINGS[kind](floats(sources[0]))),), ()


def from_integer(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """I2F: a whole number of 8 to 64 bits as a float, rounded up (RP), to zero (RZ) or to nearest."""
    if {"F64", "F16", "BF16", "RM"}.intersection(modifiers):
        raise NotImplementedError
    width, unsigned = _integer(modifiers)
    number = sources[0]
    if width < 64:
        number = number & (1 << width) - 1
    if not unsigned and width < 64:
        number = (number ^ 1 << width - 1) - (1 << width - 1)
    elif width == 64 and unsigned:
        number = number.astype(np.int64).view(np.uint64)
    if "RZ" in modifiers:  # what 64 bits lose is less than half of what a float does
        return (bits_of(_to_zero(number.astype(np.float64))),), ()
    if "RP" not in modifiers:
        return (bits_of(number.astype(np.float32)),), ()
    exact = number.astype(np.float64)
    nearest = exact.astype(np.float32)
    up = np.where(nearest < exact, np.nextafter(nearest, np.float32(np.inf)), nearest)
    return (bits_of(up),), ()


def to_integer(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """F2I: a float as a whole number of up to 64 bits, which it is cut to."""
    if {"F64", "F16", "BF16"}.intersection(modifiers):
        raise NotImplementedError
    width, unsigned = _integer(modifiers)
    kind = next((word for word in modifiers if word in ROUNDINGS), "RN")
    value = np.nan_to_num(ROUNDINGS[kind](floats(sources[0])).astype(np.float64), nan=0.0)
    low, high = (0, 2**width - 1) if unsigned else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    if width < 64:
        return (np.clip(value, low, high).astype(np.int64) & WORD_MASK,), ()
    # What a float holds beyond these is 2^63 or more, and as a number of 64 bits the highest.
    inside = (value >= low) & (value < float(high))
    number = np.where(inside, value, 0.0).astype(np.uint64 if unsigned else np.int64).view(np.uint64)
    number = np.where(inside, number, np.where(value < low, np.uint64(low % 2**64), np.uint64(high)))
    return ((number & np.uint64(WORD_MASK)).astype(np.int64), (number >> np.uint64(32)).astype(np.int64)), ()


def _integer(modifiers: tuple[str, ...]) -> tuple[int, bool]:
    """Bits of the whole number, and whether it has no sign; 32 with one where nothing is said."""
    kind = next((word for word in modifiers if word[:1] in ("U", "S") and word[1:] in WIDTHS), "S32")
    return WIDTHS[kind[1:]], kind[0] == "U"
