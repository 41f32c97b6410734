"""From the text of `cuobjdump -sass` to instructions with their control bits.

Each instruction is printed on two lines: address, text and low encoding word; then the high encoding word,
whose upper bits tell the scheduler how long to wait. Newer versions print those bits in the text as well;
they are read from the encoding alone, which is the same from sm_80 to sm_120.

Source of the control bits: Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking" (2018),
section 2.1; Huerta et al., "Analyzing Modern NVIDIA GPU cores" (2025), section 4.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from ..refusal import CannotFollow
from .operands import Address, Immediate, Operand, Predicate, parse

INSTRUCTION = re.compile(
    r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*/\* 0x[0-9a-f]{16} \*/[^\S\n]*$"
    r"(?:\s+/\* 0x([0-9a-f]{16}) \*/\s*$)?",
    re.MULTILINE,
)
FUNCTION = re.compile(r"^\s*Function : (\S+)\s*$", re.MULTILINE)
SEPARATOR = re.compile(r",(?![^\[{(]*[\]})])")
"""A comma behind which no bracket or brace closes that opens in front of it."""
INNER_COMMA = re.compile(r"[\[{(][^\]})]*,")
PRINTED_CONTROL = re.compile(r"\s+[&?][A-Za-z]\S*")
TABLE = re.compile(r'\s*\(\*"BRANCH_TARGETS ([^"]*)"\*\)')
"""Behind a jump through a table: where it can lead, as nvdisasm prints it, with addresses in the place of labels."""
PREDICATE = re.compile(r"^@(!?U?P\w+)\s+")
JUMPS = frozenset({"BRA", "CALL", "JMP"})
CONTROL_SHIFT = 41
"""Control bits start here in the high encoding word."""
NO_BARRIER = 7
OPCODES_KEPT = 1 << 12
ALWAYS, NEVER = frozenset({"PT", "UPT"}), frozenset({"!PT", "!UPT"})


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One machine instruction and what it tells the scheduler of its warp.

    Without slots: family, modifiers and hash are asked for hundreds of times of each, and stay once they are known.

    Args:
        address: from the start of the function [B].
        predicate: that guards it, e.g. `P0`, `!P0`, `UP2`; empty where it always runs.
        opcode: with modifiers, e.g. `HGMMA.64x64x16.F32`.
        printed: text of each operand, e.g. `R4.reuse`, `desc[UR4][R2.64+0x10]`.
        target: address that a jump with a fixed target goes to [B]; None for all others.
        stall_cycles: before the warp may issue its next instruction.
        yields: whether the scheduler should rather turn to another warp next (the encoded bit is then 0).
        write_barrier: scoreboard that is released when the result is written; -1: none.
        read_barrier: scoreboard that is released when the operands have been read; -1: none.
        wait_mask: scoreboards (bits 0 to 5) that must be free before the instruction issues.
        reuse: operands that stay in the register-file cache (bits 0 to 3).
        idesc: instruction descriptor of a tensor-memory matmul, where the code is known that sets it (`sass.idesc`).
        table: addresses that a jump through a table can go to [B]; none where they are not known.
    """

    address: int
    predicate: str
    opcode: str
    printed: tuple[str, ...]
    target: int | None
    stall_cycles: int
    yields: bool
    write_barrier: int
    read_barrier: int
    wait_mask: int
    reuse: int
    idesc: int | None = None
    table: tuple[int, ...] = ()
    family: str = field(init=False, repr=False, compare=False)
    """The opcode without modifiers, e.g. `HGMMA`."""
    modifiers: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """What follows the family, e.g. `("64x64x16", "F32")`."""

    def __post_init__(self) -> None:
        family, modifiers = words_of(self.opcode)
        known = hash((self.address, self.predicate, self.opcode, self.printed))
        vars(self).update(family=family, modifiers=modifiers, _hash=known)

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined, no-any-return]

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """What the texts of the operands stand for."""
        return tuple(map(parse, self.printed))

    @property
    def guard(self) -> Predicate | None:
        """The predicate that guards it; None where it always runs."""
        guard = parse(self.predicate) if self.predicate else None
        return guard if isinstance(guard, Predicate) else None

    @property
    def never_runs(self) -> bool:
        """Whether its predicate is always false, as of the `@!PT LDS RZ, [RZ]` that compilers insert."""
        return self.predicate in NEVER


@lru_cache(maxsize=OPCODES_KEPT)
def words_of(opcode: str) -> tuple[str, tuple[str, ...]]:
    """Family and modifiers of an opcode; a kernel has some hundred opcodes, which are asked for all the time."""
    family, *modifiers = opcode.split(".")
    return family, tuple(modifiers)


def decode(text: str) -> tuple[Instruction, ...]:
    """Instructions of the one function in a listing, in order of address.

    Args:
        text: what `cuobjdump -sass` prints of a cubin with one kernel.

    Raises:
        CannotFollow: the text holds no function, several, or an instruction without its second word.
    """
    functions = FUNCTION.findall(text)
    if len(functions) != 1:
        raise CannotFollow(f"SASS text holds {len(functions)} functions: must be 1")
    instructions = []
    for address, words, high_word in INSTRUCTION.findall(text):
        if not high_word:
            raise CannotFollow(
                f"SASS of {functions[0]}: instruction at {int(address, 16):#x} has no second encoding word"
            )
        instructions.append(_instruction(int(address, 16), words, int(high_word, 16)))
    if not instructions:
        raise CannotFollow(f"SASS of {functions[0]} holds no instruction")
    return tuple(instructions)


def _instruction(address: int, text: str, high_word: int) -> Instruction:
    if "&" in text or "?" in text:
        text = PRINTED_CONTROL.sub("", text)
    predicate, table = "", TABLE.search(text)
    text = TABLE.sub("", text) if table else text
    if match := PREDICATE.match(text):
        predicate, text = match[1], text[match.end() :]
    opcode, _, rest = text.partition(" ")
    printed = split_operands(rest)
    control = high_word >> CONTROL_SHIFT
    write_barrier, read_barrier = control >> 5 & 7, control >> 8 & 7
    return Instruction(
        address=address,
        predicate="" if predicate in ALWAYS else predicate,
        opcode=opcode,
        printed=printed,
        target=_target(opcode, printed),
        stall_cycles=control & 15,
        yields=not control >> 4 & 1,
        write_barrier=-1 if write_barrier == NO_BARRIER else write_barrier,
        read_barrier=-1 if read_barrier == NO_BARRIER else read_barrier,
        wait_mask=control >> 11 & 63,
        reuse=control >> 17 & 15,
        table=tuple(int(place, 16) for place in table[1].split(",") if place.startswith("0x")) if table else (),
    )


def split_operands(text: str) -> tuple[str, ...]:
    """Operands at commas that stand in no bracket or brace."""
    parts = SEPARATOR.split(text) if INNER_COMMA.search(text) else text.split(",")
    return tuple(part for part in map(str.strip, parts) if part)


def _target(opcode: str, printed: tuple[str, ...]) -> int | None:
    """Where a jump goes: its last operand."""
    if opcode.split(".", 1)[0] not in JUMPS or not printed:
        return None
    match parse(printed[-1]):
        case Immediate(int(address)) | Address(space="code", offset=address):
            return address
    return None
