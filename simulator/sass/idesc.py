"""What tcgen05.mma multiplies: its instruction descriptor, a word that the code sets before (`UMOV UR33, 0x8110010`).

    UTCHMMA gdesc[UR6], gdesc[UR8], tmem[UR19], tmem[UR32], idesc[UR33], UPT

| bits | what |
|---|---|
| 7 to 9 | type of A's elements; of 16-bit kinds 0: FP16, 1: BF16, 2: TF32 |
| 17 to 22 | columns (N) / 8 |
| 24 to 28 | rows (M) / 16 |

Source: PTX ISA, section tcgen05, instruction descriptor; the same in NVIDIA/cutlass at 7107b05,
include/cute/arch/mma_sm100_desc.hpp, `InstrDescriptor` and `InstrDescriptorBlockScaled`.
"""

from collections.abc import Sequence
from dataclasses import replace

from ..refusal import CannotFollow
from .decode import Instruction
from .graph import Successors, predecessors
from .operands import Address, Immediate, Register
from .registers import written

SPACE = "idesc"
TYPE_SHIFT, TYPE_MASK, TF32 = 7, 7, 2
COLUMNS_SHIFT, COLUMNS_MASK, COLUMNS_UNIT = 17, 63, 8
ROWS_SHIFT, ROWS_MASK, ROWS_UNIT = 24, 31, 16
COPIES = frozenset({"UMOV", "MOV", "R2UR"})


def extents_of(idesc: int) -> tuple[int, int]:
    """Rows (M) and columns (N) that an instruction descriptor names."""
    return (idesc >> ROWS_SHIFT & ROWS_MASK) * ROWS_UNIT, (idesc >> COLUMNS_SHIFT & COLUMNS_MASK) * COLUMNS_UNIT


def names_tf32(idesc: int) -> bool:
    """Whether elements of A are TF32, in an instruction of the kind of 16 bits, which TF32 shares."""
    return idesc >> TYPE_SHIFT & TYPE_MASK == TF32


def with_idescs(
    code: tuple[Instruction, ...], bounds: Sequence[tuple[int, int]], successors: Successors
) -> tuple[Instruction, ...]:
    """The code with the instruction descriptor of each of its tensor-memory matmuls.

    Args:
        bounds: block -> first instruction, one past the last; successors: of each block.

    Raises:
        CannotFollow: a descriptor is computed, or not the same on all ways that lead to its matmul.
    """
    named = {
        place: operand.registers[0].name
        for place, instruction in enumerate(code)
        if any(text.startswith(SPACE) for text in instruction.printed)
        for operand in instruction.operands
        if isinstance(operand, Address) and operand.space == SPACE and operand.registers
    }
    if not named:
        return code
    above = predecessors(successors)
    filled = list(code)
    for place, register in named.items():
        values = _values(code, bounds, above, place, register)
        if len(values) != 1 or None in values:
            raise CannotFollow(
                f"{code[place].family} at {code[place].address:#x}: its extents are in a descriptor that is computed"
            )
        filled[place] = replace(code[place], idesc=values.pop())
    return tuple(filled)


def _values(
    code: tuple[Instruction, ...], bounds: Sequence[tuple[int, int]], above: list[list[int]], place: int, register: str
) -> set[int | None]:
    """What a register may hold before an instruction; None: something that is not known."""
    block_of = next(number for number, (first, stop) in enumerate(bounds) if first <= place < stop)
    values: set[int | None] = set()
    seen: set[tuple[int, str]] = set()
    waiting = [(block_of, place, register)]
    while waiting:
        block, stop, name = waiting.pop()
        first = bounds[block][0]
        writer = next((other for other in range(stop - 1, first - 1, -1) if name in written(code[other])), -1)
        if writer < 0:
            ahead = {(other, name) for other in above[block]} - seen
            seen |= ahead
            waiting += [(other, bounds[other][1], name) for other, _ in ahead]
            continue
        if code[writer].predicate:
            waiting.append((block, writer, name))
        match code[writer].operands[-1]:
            case Immediate(int(number)) if code[writer].family in COPIES:
                values.add(number)
            case Register(is_plain=True) as source if code[writer].family in COPIES:
                waiting.append((block, writer, source.name))
            case _:
                values.add(None)
    return values or {None}
