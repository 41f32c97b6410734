"""Operands of instructions: what reads them from the state of the threads.

Constants, registers with their signs, predicates, pairs of registers, addresses in shared memory.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from .shared_memory import SharedMemory
from .values import FALSE, SHAPE, TRUE, UNKNOWN, UNSET, WORD_MASK, Array, Value, both, word

REGISTER = re.compile(r"^([-~|]*)(UR|R)(\d+|Z)(?:\.reuse)?(?:\.64)?\|?$")
PREDICATE = re.compile(r"^(!?)(U?P)(\d|T)$")
NUMBER = re.compile(r"^(-?)0x([0-9a-f]+)$")
CONSTANT = re.compile(r"^([-~]?)c\[0x0\]\[0x([0-9a-f]+)\]$")
ADDRESS = re.compile(r"^\[([^\]]*)\]$")
SIGN = 1 << 31
SCALED = re.compile(r"^(\w+)\.X(\d+)$")


@dataclass(slots=True)
class Threads:
    """State of the threads of some CTAs.

    Args:
        constants: byte address in constant bank 0 -> 32-bit word: launch shape and kernel parameters.
        special: special registers by name, e.g. `SR_TID.X`.
        registers: by name, predicates too; those that nothing has been written to are missing, and read as 0.
        shared: what they have stored in shared memory.
        doubts: by name of a register that is not known: bits of it that are not (see `bits`).
        images: by name of a register: words of the TMA descriptor of which it holds one (see `tma.written`).
        descriptors: those in global memory: by address in the first CTA, addresses (CTAs, 1, 1) and words.
        whole: whether all lanes of each warp are here, and not some of them that stand for it.
    """

    constants: Mapping[int, int]
    special: Mapping[str, Value]
    registers: dict[str, Value] = field(default_factory=dict)
    shared: SharedMemory = field(default_factory=SharedMemory)
    doubts: dict[str, Array] = field(default_factory=dict)
    images: dict[str, list[Value]] = field(default_factory=dict)
    descriptors: dict[int, tuple[Array, list[Value]]] = field(default_factory=dict)
    whole: bool = True


Step = Callable[[Threads, Array], None]
"""Does something to the threads that a mask selects."""


def predicate_of(text: str) -> Callable[[Threads], Value]:
    """Reads a predicate."""
    match = PREDICATE.match(text)
    if not match:
        return lambda threads: UNKNOWN
    negated, kind, number = match[1], match[2], match[3]
    if number == "T":
        value = FALSE if negated else TRUE
        return lambda threads: value
    name = kind + number

    def read(threads: Threads) -> Value:
        holds, known = threads.registers.get(name, FALSE)
        return (~holds, known) if negated else (holds, known)

    return read


def number_of(text: str) -> Callable[[Threads], Value]:
    """Reads a word; minus one is 2^32 - 1, minus zero 2^32, so that sums carry as those of the adder."""
    if match := NUMBER.match(text):
        number = int(match[2], 16) * (-1 if match[1] else 1)
        value: Value = (word(number), True)
        return lambda threads: value
    if match := CONSTANT.match(text):
        sign, address = match[1], int(match[2], 16)

        def constant(threads: Threads) -> Value:
            return _signed_as(sign, constant_at(threads, address))

        return constant
    if match := REGISTER.match(text):
        sign, name = match[1], match[2] + match[3]
        if match[3] == "Z":
            zero = _signed_as(sign, (word(0), True))
            return lambda threads: zero
        if not sign:
            return lambda threads: threads.registers.get(name, UNSET)
        return lambda threads: _signed_as(sign, threads.registers.get(name, UNSET))
    return lambda threads: UNKNOWN


def float_of(text: str) -> Callable[[Threads], Value]:
    """Reads a float as its bits: numbers are printed as such, and a minus or bars change the sign."""
    magnitude = text.endswith("|")
    bare = text.strip("-").strip("|")
    negative = text.startswith("-")
    try:
        number = np.float32(float(bare.replace("QNAN", "nan").replace("+INF", "inf").replace("INF", "inf")))
        read: Callable[[Threads], Value] = _always(word(int(number.view(np.uint32))))
    except ValueError:
        read = number_of(bare)

    def signed_float(threads: Threads) -> Value:
        bits, known = read(threads)
        if magnitude:
            bits = bits & ~SIGN
        return (bits ^ SIGN if negative else bits), known

    return signed_float


def _always(array: Array) -> Callable[[Threads], Value]:
    value: Value = (array, True)
    return lambda threads: value


def _signed_as(sign: str, value: Value) -> Value:
    array, known = value
    if sign == "-":
        return (1 << 32) - array, known
    if sign == "~":
        return array ^ WORD_MASK, known
    return (array, False) if sign else value


def pair_of(text: str) -> Callable[[Threads], Value]:
    """Reads two words as one number of 64 bits."""
    if match := NUMBER.match(text):
        number = int(match[2], 16) * (-1 if match[1] else 1)
        value: Value = (np.full(SHAPE, number, dtype=np.int64), True)
        return lambda threads: value
    sign = text[0] if text[0] in "-~" else ""
    low = text.removeprefix(sign)
    if match := CONSTANT.match(low):
        high = f"c[0x0][{int(match[2], 16) + 4:#x}]"
    elif (match := REGISTER.match(low)) and match[3] != "Z":
        low, high = match[2] + match[3], f"{match[2]}{int(match[3]) + 1}"
    else:
        high = low
    low_reader, high_reader = number_of(low), number_of(high)

    def read(threads: Threads) -> Value:
        (lower, known), (upper, upper_known) = low_reader(threads), high_reader(threads)
        number = upper << 32 | lower
        return (-number if sign == "-" else ~number if sign else number), both(known, upper_known)

    return read


def constant_at(threads: Threads, address: int) -> Value:
    """A word of constant bank 0. Args: address: in the bank [B]."""
    number = threads.constants.get(address)
    return UNKNOWN if number is None else (word(number), True)


def address_of(operand: str) -> Callable[[Threads], Value]:
    """Reads an address: a sum of registers, some of them scaled, and numbers in brackets."""
    match = ADDRESS.match(operand)
    parts = []
    for part in match[1].split("+") if match else ():
        scaled = SCALED.match(part)
        parts.append((number_of(scaled[1]), int(scaled[2])) if scaled else (number_of(part), 1))

    def read(threads: Threads) -> Value:
        total, known = (word(0), True) if parts else UNKNOWN
        for part, scale in parts:
            number, part_known = part(threads)
            total, known = total + scale * number, both(known, part_known)
        return total & WORD_MASK, known

    return read


def following(operand: str, count: int) -> list[str]:
    """The registers that a wide operand stands for."""
    match = REGISTER.match(operand)
    if not match or match[3] == "Z":
        return [operand] * count
    return [f"{match[2]}{int(match[3]) + extra}" for extra in range(count)]
