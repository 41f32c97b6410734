"""The instructions of a kernel that touch global memory, made ready to be followed, and what to tell of each.

Address, guard and way of an access come from a slice of the code (`deciding.slice_of`); all else falls away.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...sass.decode import Instruction
from ...sass.registers import read
from ..accesses import COPY, Touch
from ..compute.lanes import EXCHANGES
from ..deciding import jumps_of, loads_shared, reaching, slice_of
from ..memory import copy_of_memory, load_of_memory
from ..operands import Step, Threads
from ..threads import step_of
from ..values import Array
from .doubts import Doubts
from .given import Subject
from .kinds import ATOMICS, LOADS, is_access, is_atomic

SHORT_ADDRESS = re.compile(r"^\[(R\d+)(?=[+\]])")
Note = Callable[[int, Array, Array], None]
"""Gets the place of an access, the addresses of the threads that are followed, and who of them takes part."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What is followed.

    Args:
        places: block -> places in the code; touching: place -> how to read its addresses.
        shared: whether something that is loaded from shared memory is among it.
        together: whether threads tell each other what they have loaded, so that all have to be followed.
    """

    places: tuple[tuple[int, ...], ...]
    touching: Mapping[int, Touch]
    shared: bool
    together: bool


def find_slice(subject: Subject) -> Slice:
    """The accesses of a kernel, and what decides where it goes and where they lie."""
    flow = subject.flow
    touching = {place: Touch(_in_full(one)) for place, one in enumerate(flow.instructions) if is_access(one)}
    return _slice(subject, jumps_of(flow) | {place: touch.names for place, touch in touching.items()}, touching)


def find_deciding_slice(subject: Subject) -> Slice:
    """What decides where a kernel goes."""
    code, jumps = subject.flow.instructions, jumps_of(subject.flow)
    found = _slice(subject, jumps, {})
    atomics = {place: Touch(_in_full(code[place])) for place in _chosen(found, code, ATOMICS)}
    if atomics:
        # Where they lie is of interest too: a branch that depends on them is refused by the name of a tensor.
        found = _slice(subject, {place: touch.names for place, touch in atomics.items()} | jumps, {})
    loads = {place: Touch(_in_full(code[place])) for place in _chosen(found, code, LOADS)}
    return replace(found, touching=atomics | loads)


def _chosen(found: Slice, code: Sequence[Instruction], families: frozenset[str]) -> list[int]:
    """Places of a slice whose instructions are of some families."""
    return [place for block in found.places for place in block if code[place].family in families]


def _slice(subject: Subject, roots: Mapping[int, tuple[str, ...]], touching: Mapping[int, Touch]) -> Slice:
    flow, code = subject.flow, subject.flow.instructions
    places = reaching(flow, roots)
    shared = loads_shared(flow, places)
    told = {place: read(code[place]) for block in places for place in block if code[place].family in EXCHANGES}
    behind = slice_of(flow, told) if told and subject.memory.has_values else ()
    loaded = any(code[place].family in LOADS for block in behind for place in block)
    return Slice(places, touching, shared, shared or loaded)


def _in_full(one: Instruction) -> Instruction:
    """An access whose address says that it is one of 64 bits, as that of a compare-and-swap does not."""
    return replace(one, operands=tuple(SHORT_ADDRESS.sub(r"[\1.64", operand) for operand in one.operands))


def noting(subject: Subject, found: Slice, doubts: Doubts, note: Note) -> dict[int, Step]:
    """What to do at each access in the place of what it does: tell of it, and load what is known.

    Raises (when run):
        Refused: an address depends on values that were not given.
    """
    return {
        place: _noting(subject, place, touch, doubts, note, found.shared) for place, touch in found.touching.items()
    }


def _noting(subject: Subject, place: int, touch: Touch, doubts: Doubts, note: Note, shared: bool) -> Step:
    instruction = subject.flow.instructions[place]
    if is_atomic(instruction) or place in doubts.waiting.polled:
        # What they return depends on what other CTAs do meanwhile, even where the values before are given.
        then = step_of(instruction)
    elif shared and instruction.family == COPY:
        then = copy_of_memory(instruction, subject.memory)
    else:
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
