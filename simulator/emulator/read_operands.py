"""Operands of instructions: what reads them from the state of the threads.

Constants, registers with their signs, predicates, pairs of registers, addresses in shared memory.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..limits import WORD_BYTES
from ..sass.constants import place_of
from ..sass.operands import Address, Constant, Immediate, Operand, Predicate, Register
from .thread_values import FALSE, SHAPE, TRUE, UNKNOWN, UNSET, WORD_MASK, Array, Value, both, word
from .threads import Threads

SIGN = 1 << 31


def predicate_of(operand: Operand) -> Callable[[Threads], Value]:
    """Reads a predicate."""
    if not isinstance(operand, Predicate):
        return lambda threads: UNKNOWN
    name, negated = operand.name, operand.negated
    if operand.number is None:
        value = FALSE if negated else TRUE
        return lambda threads: value

    def read(threads: Threads) -> Value:
        holds, known = threads.registers.get(name, FALSE)
        return (~holds, known) if negated else (holds, known)

    return read


def number_of(operand: Operand) -> Callable[[Threads], Value]:
    """Reads a word; minus one is 2^32 - 1, minus zero 2^32, so that sums carry as those of the adder."""
    match operand:
        case Immediate(int(number)):
            return _always(word(number))
        case Constant(bank=bank, index=None, offset=offset) as constant:
            place = place_of(bank, offset)
            return lambda threads: _signed_as(constant, constant_at(threads, place))
        case Register(number=None, is_whole=True):
            zero = _signed_as(operand, (word(0), True))
            return lambda threads: zero
        case Register(is_whole=True) as register:
            name = register.name
            if register.is_unsigned:
                return lambda threads: threads.registers.get(name, UNSET)
            return lambda threads: _signed_as(register, threads.registers.get(name, UNSET))
    return lambda threads: UNKNOWN


def float_of(operand: Operand) -> Callable[[Threads], Value]:
    """Reads a float as its bits: numbers are printed as such, and a minus or bars change the sign."""
    if isinstance(operand, Immediate) and isinstance(operand.value, float):
        return _always(word(int(np.float32(operand.value).view(np.uint32))))
    if not isinstance(operand, Register | Constant):
        return number_of(operand)
    magnitude, negative = operand.absolute, operand.negative
    read = number_of(replace(operand, absolute=False, negative=False))

    def signed_float(threads: Threads) -> Value:
        bits, known = read(threads)
        if magnitude:
            bits = bits & ~SIGN
        return (bits ^ SIGN if negative else bits), known

    return signed_float


def _always(array: Array) -> Callable[[Threads], Value]:
    value: Value = (array, True)
    return lambda threads: value


def _signed_as(operand: Register | Constant, value: Value) -> Value:
    array, known = value
    if operand.absolute:
        return array, False
    if operand.negative:
        return (1 << 32) - array, known
    return (array ^ WORD_MASK if operand.inverted else array), known


def pair_of(operand: Operand) -> Callable[[Threads], Value]:
    """Reads two words as one number of 64 bits."""
    match operand:
        case Immediate(int(number)):
            return _always(np.full(SHAPE, number, dtype=np.int64))
        case Constant(bank=bank, index=None, offset=offset):
            low: Operand = Constant(bank=bank, offset=offset)
            high: Operand = Constant(bank=bank, offset=offset + WORD_BYTES)
        case Register(is_whole=True):
            low, high = operand.words(2)
        case _:
            return lambda threads: UNKNOWN
    negative, inverted = operand.negative, operand.inverted
    low_reader, high_reader = number_of(low), number_of(high)

    def read(threads: Threads) -> Value:
        (lower, known), (upper, upper_known) = low_reader(threads), high_reader(threads)
        number = upper << 32 | lower
        return (-number if negative else ~number if inverted else number), both(known, upper_known)

    return read


def constant_at(threads: Threads, address: int) -> Value:
    """A word of a constant bank. Args: address: as `sass.constants.place_of`."""
    number = threads.constants.get(address)
    return UNKNOWN if number is None else (word(number), True)


def address_of(operand: Operand) -> Callable[[Threads], Value]:
    """Reads an address of 32 bits: a sum of registers, some of them scaled, and an offset."""
    if not isinstance(operand, Address) or operand.space or operand.descriptor:
        return lambda threads: UNKNOWN
    # A scaled register is read as it is, and then multiplied.
    parts = [(number_of(replace(term, form="") if term.scale > 1 else term), term.scale) for term in operand.terms]
    start: Value = (word(operand.offset), True)

    def read(threads: Threads) -> Value:
        total, known = start
        for part, scale in parts:
            number, part_known = part(threads)
            total, known = total + scale * number, both(known, part_known)
        return total & WORD_MASK, known

    return read


def global_address_of(operand: Operand) -> Callable[[Threads], Value]:
    """Reads an address of global memory, in brackets behind its descriptor; or one of shared memory."""
    match operand:
        case Address(space="", terms=(Register(file="R", is_pair=True) as base, *uniforms)):
            pair, others, offset = pair_of(base), list(map(number_of, uniforms)), operand.offset
        case _:
            return address_of(operand)

    def read(threads: Threads) -> Value:
        address, known = pair(threads)
        for other in others:
            number, number_known = other(threads)
            address, known = address + number, both(known, number_known)
        return address + offset, known

    return read


def words_of(operand: Operand, count: int) -> tuple[Operand, ...]:
    """The registers that a wide operand stands for."""
    return operand.words(count) if isinstance(operand, Register) else (operand,) * count
