"""The instructions of a kernel that touch global memory, made ready to be followed, and what to tell of each.

Address, guard and way of an access come from a slice of the code (`deciding.slice_of`); all else falls away.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...sass.decode import Instruction
from ...sass.flow import BLOCK_ENDS
from ...sass.registers import read
from ..accesses import COPY, GLOBAL, Touch
from ..deciding import BARRIERS, SHARED_LOADS, is_shared, slice_of
from ..memory import load_of_memory
from ..operands import Step, Threads
from ..values import Array
from .doubts import Doubts
from .given import Subject

ATOMICS = frozenset({"RED", "REDG", "ATOMG", "ATOM"})
STORES = frozenset({"STG", "ST"})
TOUCHING = GLOBAL | {COPY} | ATOMICS
LOADS = frozenset({"LDG", "LD", COPY})
SHORT_ADDRESS = re.compile(r"^\[(R\d+)(?=[+\]])")
Note = Callable[[int, Array, Array], None]
"""Gets the place of an access, the addresses of the threads that are followed, and who of them takes part."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What is followed. Args: places: block -> places in the code; touching: place -> how to read its addresses."""

    places: tuple[tuple[int, ...], ...]
    touching: Mapping[int, Touch]


def find_slice(subject: Subject) -> Slice:
    """The accesses of a kernel, and what decides where it goes and where they lie."""
    flow = subject.flow
    touching = {place: Touch(_in_full(one)) for place, one in enumerate(flow.instructions) if is_access(one)}
    roots = {place: read(one) for place, one in enumerate(flow.instructions) if one.family in BLOCK_ENDS}
    roots |= {place: touch.names for place, touch in touching.items()}
    found = slice_of(flow, roots)
    if any(flow.instructions[place].family in SHARED_LOADS for block in found for place in block):
        more = {p: read(one) for p, one in enumerate(flow.instructions) if one.family in BARRIERS or is_shared(one)}
        found = slice_of(flow, more | roots)
    return Slice(found, touching)


def _in_full(one: Instruction) -> Instruction:
    """An access whose address says that it is one of 64 bits, as that of a compare-and-swap does not."""
    return replace(one, operands=tuple(SHORT_ADDRESS.sub(r"[\1.64", operand) for operand in one.operands))


def is_access(one: Instruction) -> bool:
    """Whether an instruction touches global memory."""
    return one.family in TOUCHING and one.predicate not in ("!PT", "!UPT")


def is_atomic(one: Instruction) -> bool:
    """Whether it adds to what is there, at L2."""
    return one.family in ATOMICS


def noting(subject: Subject, found: Slice, doubts: Doubts, note: Note) -> dict[int, Step]:
    """What to do at each access in the place of what it does: tell of it, and load what is known.

    Raises (when run):
        Refused: an address depends on values that were not given.
    """
    return {place: _noting(subject, place, touch, doubts, note) for place, touch in found.touching.items()}


def _noting(subject: Subject, place: int, touch: Touch, doubts: Doubts, note: Note) -> Step:
    instruction = subject.flow.instructions[place]
    then = load_of_memory(instruction, subject.memory)
    address = touch.addresses[-1]

    def step(threads: Threads, mask: Array) -> None:
        active = mask
        for guard in touch.guards:
            holds, known = guard(threads)
            if known is not True and not np.all(np.asarray(known) | ~mask):
                doubts.guard(place)
            active = active & (holds | ~np.asarray(known))
        where, known = address(threads)
        if not np.all(np.asarray(known) | ~active):
            doubts.address(place)
        else:
            doubts.fetched(place, where, active)
            note(place, where, active)
        then(threads, mask)

    return step
