"""Registers that count at the begin of a block: those that may be read after it before anything is written to them."""

from collections.abc import Sequence
from functools import lru_cache

from ...sass.decode import Instruction
from ...sass.flow import BLOCK_ENDS, FLOWS_KEPT, Flow
from ...sass.memory_instructions import is_access, is_box_copy
from ...sass.registers import read, written
from ..access_lanes import Touch
from ..tma.bulk import touch_of, unfollowed


@lru_cache(maxsize=2 * FLOWS_KEPT)
def live_at(flow: Flow, places: tuple[tuple[int, ...], ...]) -> tuple[frozenset[str], ...]:
    """Registers that may be read after each block begins, before anything is written to them.

    Args:
        places: block -> places of the instructions that are executed; jumps are, in any case.
    """
    code = flow.instructions
    alone = [_of_block([code[place] for place in of_block]) for of_block in _with_jumps(flow, places)]
    live: list[frozenset[str]] = [frozenset()] * len(flow.blocks)
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(flow.blocks))):
            first_read, killed = alone[number]
            after = frozenset().union(*(live[to] for to in flow.blocks[number].successors))
            before = first_read | (after - killed)
            changed, live[number] = changed or before != live[number], before
    return tuple(live)


def _with_jumps(flow: Flow, places: Sequence[Sequence[int]]) -> list[list[int]]:
    ends = [block.stop - 1 for block in flow.blocks]
    return [
        [*of_block, *([end] if flow.instructions[end].family in BLOCK_ENDS and end not in of_block else [])]
        for of_block, end in zip(places, ends, strict=True)
    ]


def _of_block(instructions: Sequence[Instruction]) -> tuple[frozenset[str], frozenset[str]]:
    """Registers that a block reads before it writes them, and those that it writes in any case."""
    first_read: set[str] = set()
    killed: set[str] = set()
    for instruction in instructions:
        first_read |= _read_by(instruction) - killed
        killed |= set() if instruction.predicate else set(written(instruction))
    return frozenset(first_read), frozenset(killed)


def _read_by(instruction: Instruction) -> set[str]:
    """Registers that an instruction reads: also those beside one that it names, as the coordinates of a box are."""
    if not is_access(instruction) or unfollowed(instruction):
        return {*read(instruction)}
    return {*read(instruction), *(touch_of if is_box_copy(instruction) else Touch)(instruction).names}
