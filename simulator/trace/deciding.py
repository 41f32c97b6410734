"""The instructions that decide which way control goes: a slice of the code, found backwards from its branches.

An instruction decides if it writes a register that a deciding instruction may read later, a branch to begin with.
What only moves and multiplies data falls away, which is nearly all of a kernel.
Only where a branch depends on shared memory do stores there and barriers count, too; and of stores those alone
whose address all threads of a warp share, since what each thread stores at a place of its own is data.

Source: strong liveness; Nielson, Nielson and Hankin, "Principles of Program Analysis" (1999), section 2.1 and ex. 2.4.
"""

import re
from collections.abc import Mapping

from ..sass.decode import Instruction
from ..sass.flow import BLOCK_ENDS, Flow
from ..sass.graph import predecessors
from ..sass.registers import guard_of, read, written
from .operations import is_try

SHARED_LOADS = frozenset({"LDS"})
BARRIERS = frozenset({"BAR"})
COMMON_ADDRESS = re.compile(r"^\[UR(?:\d+|Z)(?:\+0x[0-9a-f]+)?\]$")


def deciding(flow: Flow) -> tuple[tuple[int, ...], ...]:
    """Block -> places of its deciding instructions in the code, in order."""
    roots = {place: read(one) for place, one in enumerate(flow.instructions) if one.family in BLOCK_ENDS}
    found = slice_of(flow, roots)
    if any(flow.instructions[place].family in SHARED_LOADS for block in found for place in block):
        roots |= {
            place: read(one) for place, one in enumerate(flow.instructions) if one.family in BARRIERS or is_shared(one)
        }
        found = slice_of(flow, roots)
    return found


def is_shared(instruction: Instruction) -> bool:
    """Whether it stores to shared memory, at one address for all threads of a warp; or clears it."""
    clears = instruction.operands[-1:] == ("RZ",)
    return instruction.family == "STS" and (clears or bool(COMMON_ADDRESS.match(instruction.operands[0])))


def slice_of(flow: Flow, roots: Mapping[int, tuple[str, ...]]) -> tuple[tuple[int, ...], ...]:
    """Block -> places of the instructions that some are for, and of these, in order.

    Args:
        roots: place of what is wanted -> registers that it is wanted for.
    """
    numbers: dict[str, int] = {}

    def bits(names: tuple[str, ...]) -> int:
        value = 0
        for name in names:
            value |= 1 << numbers.setdefault(name, len(numbers))
        return value

    written_bits = [bits(written(one)) for one in flow.instructions]
    read_bits = [
        bits(roots[place] if place in roots else guard_of(one) if is_try(one.opcode) else read(one))
        for place, one in enumerate(flow.instructions)
    ]
    wanted_at_start = [0] * len(flow.blocks)
    above = predecessors([block.successors for block in flow.blocks])
    waiting = list(range(len(flow.blocks)))
    places: list[tuple[int, ...]] = [()] * len(flow.blocks)
    while waiting:
        number = waiting.pop()
        block = flow.blocks[number]
        wanted = 0
        for successor in block.successors:
            wanted |= wanted_at_start[successor]
        kept = []
        for place in range(block.stop - 1, block.first - 1, -1):
            instruction = flow.instructions[place]
            if place not in roots and not written_bits[place] & wanted:
                continue
            kept.append(place)
            if not instruction.predicate:
                wanted &= ~written_bits[place]
            wanted |= read_bits[place]
        places[number] = tuple(reversed(kept))
        if wanted != wanted_at_start[number]:
            wanted_at_start[number] = wanted
            waiting += [one for one in above[number] if one not in waiting]
    return tuple(places)
