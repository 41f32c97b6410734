"""Which registers an instruction writes and reads.

Registers go by name: `R4`, `UR4`, `P0`, `UP0`. RZ, URZ, PT and UPT hold constants and count as no register.
Registers that the compiler has spilled are registers, too: `L12` is the word at 12 bytes from the stack pointer R1,
which a kernel sets once.
Destinations stand first; wide results take the registers that follow the one that is named.
"""

import re
from functools import lru_cache

from .decode import OPCODES_KEPT, Instruction, words_of
from .operands import Operand, Predicate, Register, integer_of, stack_offset

PARTS_OF_WORDS = frozenset({"U8", "S8", "U16", "S16"})
PREDICATES = tuple(f"P{number}" for number in range(7))
KEPT = 1 << 14
"""Instructions whose registers are kept: every slice of a kernel's code asks for them again."""

WITHOUT_RESULT = frozenset(
    (
        "ACQBULK", "ACQSHMINIT", "ARRIVES", "BAR", "BPT", "BRA", "BREAK", "BRX", "BRXU", "BSSY", "BSYNC", "CALL",
        "CCTL", "CCTLL", "CCTLT", "CGAERRBAR", "DEPBAR", "ENDCOLLECTIVE", "ERRBAR", "EXIT", "FENCE", "JMP", "JMX",
        "JMXU", "KILL", "LDGDEPBAR", "LDGSTS", "MEMBAR", "NANOSLEEP", "NOP", "PREEXIT", "RED", "REDG", "RET", "ST",
        "STG", "STL", "STS", "STSM", "STTM", "UBLKCP", "UBLKPF", "UBLKRED", "UCGABAR_ARV", "UCGABAR_WAIT", "USTGCCTL",
        "UTCBAR", "UTCCP", "UTCHMMA", "UTCIMMA", "UTCOMMA", "UTCQMMA", "UTCSHIFT", "UTMACCTL", "UTMACMDFLUSH",
        "UTMALDG", "UTMAPF", "UTMAREDG", "UTMASTG", "WARPGROUP", "WARPSYNC", "YIELD",
    )
)  # fmt: skip
TWO_RESULTS = frozenset(
    ("ISETP", "UISETP", "FSETP", "DSETP", "HSETP2", "PLOP3", "UPLOP3", "SHFL", "VOTE", "VOTEU", "ELECT", "PSETP")
)
"""Families whose first two operands are results, predicates among them."""
WIDE_OPERATIONS = frozenset(("DADD", "DFMA", "DMUL", "DMNMX", "FADD2", "FFMA2", "FMUL2"))
STORES = frozenset(("ST", "STG", "STL", "STS", "STSM"))
PAIRS = frozenset(("64", "U64", "S64"))
"""Modifiers with which all sources are pairs of registers, but those of a shift, which takes a pair as two operands."""
ADDS_TO_FLAG = "R2UR.OR"
LONG_SUM = frozenset(("WIDE", "HI"))
"""Modifiers with which a multiplication adds a pair."""
WIDTHS = {"64": 2, "128": 4, "256": 8}
MATRIX_SHAPE = re.compile(r"^(\d+)x(\d+)x(\d+)$")


@lru_cache(maxsize=KEPT)
def written(instruction: Instruction) -> tuple[str, ...]:
    """Registers and predicates that an instruction writes."""
    family = instruction.family
    operands = instruction.operands
    if family == "STL":
        return spilled(instruction, operands[0])
    if family in WITHOUT_RESULT or not operands:
        return ()
    if family == "R2P":
        return named_predicates(instruction)
    results: list[str] = []
    for operand in operands[: result_operands(instruction)]:
        if isinstance(operand, Predicate):
            results += operand.names
        elif isinstance(operand, Register):
            results += operand.names(result_registers(instruction))
    return tuple(results)


@lru_cache(maxsize=KEPT)
def result_operands(instruction: Instruction) -> int:
    """How many of the operands are results; they stand first."""
    operands = instruction.operands
    if instruction.family in WITHOUT_RESULT or not operands:
        return 0
    if instruction.family in TWO_RESULTS:
        return min(2, len(operands)) if len(operands) > 2 else 1
    if instruction.family == "FCHK":
        return 1
    count = 0
    seen_register = False
    for place, operand in enumerate(operands):
        if isinstance(operand, Predicate) and not operand.negated and place + 1 < len(operands):
            # Carries and flags stand beside the result, before the first source.
            count += 1
        elif isinstance(operand, Register) and operand.is_plain and not seen_register:
            seen_register = True
            count += 1
        else:
            break
    return count


def result_registers(instruction: Instruction) -> int:
    """How many registers the result takes."""
    return _result_registers(instruction.opcode)


@lru_cache(maxsize=OPCODES_KEPT)
def _result_registers(opcode: str) -> int:
    family, modifiers = words_of(opcode)
    if family in ("HGMMA", "QGMMA", "IGMMA", "BGMMA"):
        shape = next((match for word in modifiers if (match := MATRIX_SHAPE.match(word))), None)
        columns = int(shape[2]) if shape else 256
        return columns // 4 if "F16" in modifiers[1:2] else columns // 2
    if family in ("HMMA", "IMMA", "QMMA", "OMMA"):
        return 2 if "F16" in modifiers else 4
    if family in ("LDSM", "STSM"):
        return next((int(word) for word in modifiers if word in ("2", "4")), 1)
    if family == "LDTM":
        return next((int(word[1:]) for word in modifiers if re.match(r"^x\d+$", word)), 1)
    if family == "CS2R":
        return 1 if "32" in modifiers else 2
    if family in WIDE_OPERATIONS or "WIDE" in modifiers or "F64" in modifiers[:1]:
        return 2
    if family in ("SYNCS", "SHF", "USHF"):
        return 2 if "64" in modifiers else 1
    if family in ("F2I", "UF2I"):
        return 2 if {"U64", "S64"} & set(modifiers) else 1
    return max((WIDTHS.get(word, 1) for word in modifiers), default=1)


def spilled(instruction: Instruction, operand: Operand) -> tuple[str, ...]:
    """The words on the stack that an instruction stores or loads; none where it is not for whole words."""
    first = stack_offset(operand)
    if first is None or set(instruction.modifiers) & PARTS_OF_WORDS:
        return ()
    return tuple(f"L{first + 4 * place}" for place in range(result_registers(instruction)))


def named_predicates(instruction: Instruction) -> tuple[str, ...]:
    """Predicates that a move between them and a word (P2R, R2P) touches: those that its mask names."""
    mask = integer_of(instruction.operands[-1])
    return tuple(name for place, name in enumerate(PREDICATES) if mask is None or mask >> place & 1)


def guard_of(instruction: Instruction) -> tuple[str, ...]:
    """The predicate that guards an instruction, if any."""
    return instruction.guard.names if instruction.guard else ()


@lru_cache(maxsize=KEPT)
def read(instruction: Instruction) -> tuple[str, ...]:
    """Registers and predicates that an instruction reads."""
    family = instruction.family
    names = [*guard_of(instruction)]
    if family == "LDL":
        names += spilled(instruction, instruction.operands[-1])
    if family == "P2R":
        names += named_predicates(instruction)
    for place, operand in enumerate(
        (*instruction.operands[result_operands(instruction) :], *flags_before(instruction))
    ):
        if isinstance(operand, Predicate):
            names += operand.names
        for register in operand.registers:
            names += register.names(2 if register.is_pair else source_registers(instruction, place))
    return tuple(names)


def flags_before(instruction: Instruction) -> tuple[Predicate, ...]:
    """The flag that R2UR.OR adds to: it is a result and a source."""
    adds = instruction.opcode == ADDS_TO_FLAG
    return tuple(operand for operand in instruction.operands[:1] if adds and isinstance(operand, Predicate))


def source_registers(instruction: Instruction, place: int) -> int:
    """How many registers a source takes. Args: place: among the sources."""
    return _source_registers(instruction.opcode, place)


@lru_cache(maxsize=OPCODES_KEPT)
def _source_registers(opcode: str, place: int) -> int:
    family, modifiers = words_of(opcode)
    if family in STORES:
        return _result_registers(opcode) if place else 1
    if family in ("SHF", "USHF", "F2I", "UF2I"):
        return 1
    if family in WIDE_OPERATIONS or PAIRS.intersection(modifiers):
        return 2
    return 2 if family in ("IMAD", "UIMAD") and place == 2 and LONG_SUM.intersection(modifiers) else 1
