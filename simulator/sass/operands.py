"""Operands of instructions: from their text, once, to registers, predicates, numbers, constants and addresses.

| text | value |
|---|---|
| `R4`, `-R4.reuse`, `|R4|`, `~UR4`, `R4.H1_H1`, `RZ` | `Register` |
| `P0`, `!UP1`, `PT` | `Predicate` |
| `0x1f`, `-0x60`, `1.4426950216293334961`, `-INF` | `Immediate` |
| `c[0x0][0x210]`, `-c[0x0][0x170]`, `c[0x4][R8]` | `Constant` |
| `[R2+UR4+0x10]`, `desc[UR4][R2.64+-0x800]`, `gdesc[UR8].tnspB`, `R2 0x20` behind a jump | `Address` |
| `SR_TID.X`, `SB0`, `gsb0`, `PR`, `{5,4}` | `Name` |

That a register's value stays in the register-file cache (`.reuse`) is part of the control bits, and dropped here.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

TEXTS_KEPT = 1 << 14
"""Texts whose values are kept: a kernel has some hundred different ones, kernels share most of them."""
SIGNED = re.compile(r"^([-~]?)(\|?)([^|]+)(\|?)((?:\.\w+)*)$")
REGISTER = re.compile(r"^(UR|R)(\d+|Z)((?:\.\w+)*)$")
PREDICATE = re.compile(r"^(!?)(U?P)(\d|T)$")
CONSTANT = re.compile(r"^c\[0x([0-9a-f]+)\]\[([^\]]*)\]$")
BRACKETS = re.compile(r"^(\w*)(?:\[(UR(?:\d+|Z))\])?\[([^\]]*)\]((?:\.\w+)*)$")
NUMBER = re.compile(r"^`?\(?(-?0x[0-9a-f]+)\)?$")
NAMES = re.compile(r"(?<![A-Za-z0-9_])(UR|R)(\d+)(?![0-9])(\.64)?")
REUSE, PAIR, SCALE = ".reuse", "64", "X"


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """A register of a thread (R) or of a warp (UR); of a wide operand the first one.

    Args:
        file: `R` or `UR`.
        number: None: RZ or URZ, which reads as 0.
        negative: minus its value is read.
        absolute: bars stand around it: its value without sign is read, before `negative`.
        inverted: each of its bits is read inverted.
        form: what part of it, or how it is widened: `64` (a pair), `H1_H1`, `F32`, `U32`, `X4` (times 4); empty: all.
    """

    file: str
    number: int | None
    negative: bool = False
    absolute: bool = False
    inverted: bool = False
    form: str = ""

    @property
    def name(self) -> str:
        """E.g. `UR4`, `RZ`."""
        return f"{self.file}{'Z' if self.number is None else self.number}"

    @property
    def registers(self) -> "tuple[Register, ...]":
        """Itself, where it is no constant."""
        return () if self.number is None else (self,)

    @property
    def is_unsigned(self) -> bool:
        """Whether neither signs nor bars stand before it."""
        return not (self.negative or self.absolute or self.inverted)

    @property
    def is_plain(self) -> bool:
        """Whether it stands for itself: without signs, and all of it."""
        return self.is_unsigned and not self.form

    @property
    def is_pair(self) -> bool:
        """Whether it is marked as the lower one of two."""
        return self.form == PAIR

    @property
    def is_whole(self) -> bool:
        """Whether all of its bits are read, as they are."""
        return self.form in ("", PAIR)

    @property
    def scale(self) -> int:
        """What it is multiplied by in an address."""
        return int(self.form[1:]) if self.form.startswith(SCALE) else 1

    def words(self, count: int) -> "tuple[Register, ...]":
        """The registers of a wide operand, without signs; of RZ always RZ."""
        numbers = [None] * count if self.number is None else range(self.number, self.number + count)
        return tuple(Register(file=self.file, number=number) for number in numbers)

    def names(self, count: int) -> tuple[str, ...]:
        """Names of the registers of a wide operand; none of RZ."""
        return () if self.number is None else _names(self.file, self.number, count)


@lru_cache(maxsize=TEXTS_KEPT)
def _names(file: str, number: int, count: int) -> tuple[str, ...]:
    """E.g. `R4`, `R5`; the slices of a kernel's code ask for them all the time."""
    return tuple(f"{file}{number + extra}" for extra in range(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """A predicate of a thread (P) or of a warp (UP). Args: number: None: PT or UPT, which is true."""

    file: str
    number: int | None
    negated: bool = False
    registers: ClassVar[tuple[Register, ...]] = ()

    @property
    def name(self) -> str:
        """E.g. `UP0`, `PT`."""
        return f"{self.file}{'T' if self.number is None else self.number}"

    @property
    def names(self) -> tuple[str, ...]:
        """Its name, where it is no constant."""
        return () if self.number is None else _names(self.file, self.number, 1)


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number in the instruction. Args: value: an integer where it is printed in base 16, else a float."""

    value: int | float
    registers: ClassVar[tuple[Register, ...]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A word in a constant bank.

    Args:
        bank: 0: that of the launch's shape and arguments.
        offset: in the bank [B].
        index: register that is added to the offset; None: the offset alone.
        negative, absolute, inverted: as in `Register`.
    """

    bank: int
    offset: int
    index: Register | None = None
    negative: bool = False
    absolute: bool = False
    inverted: bool = False

    @property
    def registers(self) -> tuple[Register, ...]:
        """The index."""
        return self.index.registers if self.index else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A place in memory, or a descriptor: the sum of registers and an offset.

    Args:
        space: what is printed before the bracket: empty: of the memory that the opcode names; `gdesc`, `tmem`,
            `idesc`: a matmul's descriptor in shared memory, a place in tensor memory, an instruction's descriptor;
            `code`: where a jump goes.
        terms: registers that are added, RZ among them; the base first.
        offset: [B].
        descriptor: the uniform register of the memory's descriptor, of `desc[UR4][R2.64]`.
        form: what is printed behind it, e.g. `tnspB`.
    """

    space: str
    terms: tuple[Register, ...]
    offset: int = 0
    descriptor: Register | None = None
    form: str = ""

    @property
    def registers(self) -> tuple[Register, ...]:
        """All that it names, the descriptor first."""
        descriptor = (self.descriptor,) if self.descriptor else ()
        return tuple(register for register in (*descriptor, *self.terms) if register.number is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the registers that are added, both of a pair."""
        return tuple(name for term in self.terms for name in term.names(2 if term.is_pair else 1))


@dataclass(frozen=True, slots=True)
class Name:
    """Anything else: a special register, a barrier, a label, a list. Args: registers: that its text names."""

    text: str
    registers: tuple[Register, ...] = ()


Operand = Register | Predicate | Immediate | Constant | Address | Name


@lru_cache(maxsize=TEXTS_KEPT)
def parse(text: str) -> Operand:
    """The operand that a text stands for; what is not known is a `Name`. Args: text: e.g. `-R4.reuse`."""
    if match := NUMBER.match(text):
        return Immediate(int(match[1], 16))
    if match := PREDICATE.match(text):
        return Predicate(file=match[2], number=None if match[3] == "T" else int(match[3]), negated=bool(match[1]))
    try:
        return Immediate(float(text.replace("QNAN", "NAN")))
    except ValueError:
        return _signed(text) or _address(text) or _jump(text) or _named(text)


def integer_of(operand: Operand) -> int | None:
    """An integer in the instruction; None of all else."""
    return operand.value if isinstance(operand, Immediate) and isinstance(operand.value, int) else None


def launch_offset(operand: Operand) -> int | None:
    """Where in the constant bank of the launch it lies [B]; None of all else, and of computed places."""
    return operand.offset if isinstance(operand, Constant) and operand.bank == 0 and not operand.index else None


def stack_offset(operand: Operand) -> int | None:
    """Of an address, from the stack pointer R1, to which nothing else is added [B]; None of all else."""
    match operand:
        case Address(space="", terms=(Register(file="R", number=1, form=""),), descriptor=None):
            return operand.offset
    return None


def is_uniform(operand: Operand) -> bool:
    """Whether it is an address that all threads of a warp have: a uniform register, an offset."""
    match operand:
        case Address(space="", terms=(Register(file="UR", form=""),), descriptor=None):
            return True
    return False


def _signed(text: str) -> Register | Constant | None:
    """A register, or a word of a constant bank."""
    match = SIGNED.match(text.replace(REUSE, ""))
    if not match or match[2] != match[4]:
        return None
    value = _register(match[3] + match[5]) or _constant(match[3] + match[5])
    return value and replace(value, negative=match[1] == "-", inverted=match[1] == "~", absolute=bool(match[2]))


def _register(text: str) -> Register | None:
    match = REGISTER.match(text)
    return match and Register(file=match[1], number=None if match[2] == "Z" else int(match[2]), form=match[3][1:])


def _constant(text: str) -> Constant | None:
    match = CONSTANT.match(text)
    terms = match and _sum(match[2])
    if not match or not terms or len(terms[0]) > 1:
        return None
    index = terms[0][0] if terms[0] and terms[0][0].number is not None else None  # `RZ` adds nothing
    return Constant(bank=int(match[1], 16), offset=terms[1], index=index)


def _sum(text: str) -> tuple[tuple[Register, ...], int] | None:
    """Registers and offset of a sum; None where it has other parts."""
    values = [_register(part) or NUMBER.match(part) for part in text.split("+")]
    if not all(values):
        return None
    offset = sum(int(value[1], 16) for value in values if isinstance(value, re.Match))
    return tuple(value for value in values if isinstance(value, Register)), offset


def _address(text: str) -> Address | None:
    match = BRACKETS.match(text)
    terms = match and _sum(match[3])
    if not match or not terms or bool(match[2]) != (match[1] == "desc"):
        return None
    descriptor = _register(match[2]) if match[2] else None
    space = "" if descriptor else match[1]
    return Address(space=space, terms=terms[0], offset=terms[1], descriptor=descriptor, form=match[4][1:])


def _jump(text: str) -> Address | None:
    """Where a jump goes whose target is computed: a register, and a number after a space."""
    terms = _sum(text.replace(" ", "+")) if " " in text else None
    return terms and Address(space="code", terms=terms[0], offset=terms[1])


def _named(text: str) -> Name:
    wide = ((file, int(number), PAIR if pair else "") for file, number, pair in NAMES.findall(text))
    return Name(text, tuple(Register(file=file, number=number, form=form) for file, number, form in wide))
