"""Loops around atomics and loads of one place: which of them end by themselves, and which wait for other CTAs.

A compare-and-swap that is tried with what was read before ends by itself: the compiler adds to narrow floats so.
One that is tried again with the same operands waits until another CTA has written there; so does a load at an address
that no iteration changes. Nothing else is done to global memory in such a loop: it is a lock or a barrier of the grid.
"""

from dataclasses import dataclass

from ...sass.decode import Instruction
from ...sass.flow import Flow, Loop
from ...sass.registers import read, written
from ..deciding import SHARED_LOADS, addresses_of
from ..shared_accesses import STORES as SHARED_STORES
from .kinds import LOADS, is_access, is_atomic

SHARED_ATOMICS = frozenset({"ATOMS"})
SHARED_MEMORY = "shared memory"
"""Stands for what a thread has left there, among the names of registers."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Loops of a kernel.

    Args:
        polls: loop -> places of the loads and atomics that it repeats until another CTA has written there;
        retries: loops that try an atomic until it succeeds, which does not depend on what others wait for.
    """

    polls: dict[int, frozenset[int]]
    retries: frozenset[int]

    @property
    def polled(self) -> frozenset[int]:
        """Places of all loads and atomics whose results other CTAs change while a loop waits for it."""
        return frozenset(place for places in self.polls.values() for place in places)


def find_waiting(flow: Flow) -> Waiting:
    """Sort the innermost loops of a kernel."""
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
    return Waiting(polls, frozenset(retries))


def _places(flow: Flow, loop: Loop) -> list[int]:
    """Places of the instructions of a loop, in order of address."""
    blocks = [flow.blocks[block] for block in sorted(loop.blocks)]
    return [place for block in blocks for place in range(block.first, block.stop)]


def _is_poll(flow: Flow, places: list[int], place: int) -> bool:
    """Whether an access of a loop returns something else only because another CTA has written there."""
    instruction = flow.instructions[place]
    if is_atomic(instruction):
        return bool(written(instruction))
    changed = {name for other in places if other != place for name in written(flow.instructions[other])}
    return instruction.family in LOADS and changed.isdisjoint(addresses_of(instruction))


def _is_retry(flow: Flow, places: list[int], place: int) -> bool:
    """Whether an instruction is an atomic that is tried with what was just read, or one of the CTA alone.

    What comes of the results of loads and atomics is followed once round the loop, through registers and shared memory.
    """
    instruction = flow.instructions[place]
    if instruction.family in SHARED_ATOMICS:
        return True
    if not is_atomic(instruction):
        return False
    begin = places.index(place)
    returned: set[str] = set()
    for other in places[begin:] + places[:begin]:
        one = flow.instructions[other]
        names = _written(one)
        if is_access(one) or returned.intersection(_read(one)):
            returned |= names
        elif not one.predicate:
            returned -= names - {SHARED_MEMORY}
    return bool(returned.intersection(read(instruction)) - set(addresses_of(instruction)))


def _read(instruction: Instruction) -> set[str]:
    return {*read(instruction), *([SHARED_MEMORY] if instruction.family in SHARED_LOADS else [])}


def _written(instruction: Instruction) -> set[str]:
    return {*written(instruction), *([SHARED_MEMORY] if instruction.family in SHARED_STORES else [])}
