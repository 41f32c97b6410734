"""Loops that repeat an atomic or a load at one address: which end by themselves, and which wait for other CTAs.

A compare-and-swap whose operand is what the loop has just read ends by itself: so the compiler adds narrow floats.
One that is repeated with the same operands waits until another CTA writes there; so does a load at an address that no
iteration changes. Such a loop has no other accesses to global memory: it is a lock, or a barrier of the grid.
"""

from dataclasses import dataclass

from ...sass.decode import Instruction
from ...sass.flow import Flow, Loop
from ...sass.memory_instructions import (
    LOADS_AND_COPIES,
    SHARED_LOADS,
    SHARED_STORES,
    addresses_of,
    is_access,
    is_atomic,
)
from ...sass.registers import read, written

SHARED_ATOMICS = frozenset({"ATOMS"})
SHARED_MEMORY = "shared memory"
"""Among names of registers, stands for what a thread has stored there."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Innermost loops of a kernel that repeat an access.

    Args:
        polls: loop -> places of the loads and atomics that it repeats until another CTA writes there;
        retries: loops that try an atomic until it succeeds, and wait for no other CTA.
        looks_back: loop around such that wait -> the places that these repeat: it may end by what it finds there.
    """

    polls: dict[int, frozenset[int]]
    retries: frozenset[int]
    looks_back: dict[int, frozenset[int]]

    @property
    def polled(self) -> frozenset[int]:
        """Places of all loads and atomics that loops repeat until another CTA changes their results."""
        return frozenset(place for places in self.polls.values() for place in places)


def find_waiting(flow: Flow) -> Waiting:
    """Find the innermost loops of a kernel that wait or retry."""
    polls: dict[int, frozenset[int]] = {}
    retries: set[int] = set()
    for number, loop in enumerate(flow.loops):
        if any(inner.parent == number for inner in flow.loops):
            continue
        places = _places(flow, loop)
        accesses = [place for place in places if is_access(flow.instructions[place])]
        if any(_is_retry(flow, places, place) for place in places):
            retries.add(number)
        elif accesses and all(_is_poll(flow, places, place) for place in accesses):
            polls[number] = frozenset(accesses)
    around = {
        number: frozenset(
            place for inner, places in polls.items() for place in places if flow.loops[inner].parent == number
        )
        for number in range(len(flow.loops))
    }
    return Waiting(polls, frozenset(retries), {number: places for number, places in around.items() if places})


def _places(flow: Flow, loop: Loop) -> list[int]:
    """Places of the instructions of a loop, in order of address."""
    blocks = [flow.blocks[block] for block in sorted(loop.blocks)]
    return [place for block in blocks for place in range(block.first, block.stop)]


def _is_poll(flow: Flow, places: list[int], place: int) -> bool:
    """Whether the result of an access in a loop changes only where another CTA writes to its address."""
    instruction = flow.instructions[place]
    if is_atomic(instruction):
        return bool(written(instruction))
    return instruction.family in LOADS_AND_COPIES and all(
        _is_constant(flow, places, place, name) for name in addresses_of(instruction)
    )


def _is_constant(flow: Flow, places: list[int], place: int, name: str) -> bool:
    """Whether a register that an instruction of a loop reads holds the same in each iteration.

    No instruction of the loop writes it, or the last before computes it from such registers, where an iteration
    begins by copying an address that it overwrites.
    """
    before = [other for other in places if other < place and name in written(flow.instructions[other])]
    if not before:
        return all(name not in written(flow.instructions[other]) for other in places)
    writer = flow.instructions[before[-1]]
    if is_access(writer) or writer.family in SHARED_LOADS:
        return False
    return all(_is_constant(flow, places, before[-1], source) for source in read(writer))


def _is_retry(flow: Flow, places: list[int], place: int) -> bool:
    """Whether an instruction is an atomic whose operand was just read, or one in shared memory.

    Results of loads and atomics are followed once round the loop, through registers and shared memory.
    """
    instruction = flow.instructions[place]
    if instruction.family in SHARED_ATOMICS:
        return True
    if not is_atomic(instruction):
        return False
    begin = places.index(place)
    returned: set[str] = set()
    for other in places[begin:] + places[:begin]:
        step = flow.instructions[other]
        names = _written(step)
        if is_access(step) or returned.intersection(_read(step)):
            returned |= names
        elif not step.predicate:
            returned -= names - {SHARED_MEMORY}
    return bool(returned.intersection(read(instruction)) - set(addresses_of(instruction)))


def _read(instruction: Instruction) -> set[str]:
    return {*read(instruction), *([SHARED_MEMORY] if instruction.family in SHARED_LOADS else [])}


def _written(instruction: Instruction) -> set[str]:
    return {*written(instruction), *([SHARED_MEMORY] if instruction.family in SHARED_STORES else [])}
