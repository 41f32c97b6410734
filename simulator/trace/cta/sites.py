"""The instructions of a kernel that touch global memory, made ready to be followed, and what to tell of each.

Address, guard and way of an access come from a slice of the code (`deciding.slice_of`); all else falls away.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...sass.decode import Instruction
from ...sass.registers import read
from ..accesses import COPY, Touch
from ..compute.lanes import EXCHANGES
from ..deciding import jumps_of, loads_shared, names_of, reaching, slice_of
from ..memory import copy_of_memory, load_of_memory
from ..operands import Step, Threads
from ..threads import forgetting, step_of
from ..tma.boxes import Boxes, BoxTouch, is_copy, unfollowed
from ..tma.written import descriptor_writes, steps_of, take
from ..values import Array
from .doubts import Doubts
from .given import Refused, Subject
from .kinds import ATOMICS, LOADS, is_access, is_atomic

SHORT_ADDRESS = re.compile(r"^\[(R\d+)(?=[+\]])")
Note = Callable[[int, Array, Array, Boxes | None], None]
"""Gets the place of an access, the addresses of the threads that are followed, and who of them takes part; of copies by
TMA the corners of boxes, which warps copy, and the boxes."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What is followed.

    Args:
        places: block -> places in the code; touching: place -> how to read its addresses;
        copying: the same of copies by TMA; writes: as `tma.written.descriptor_writes`;
        shared: whether something that is loaded from shared memory is among it;
        together: whether threads tell each other what they have loaded, so that all have to be followed.
    """

    places: tuple[tuple[int, ...], ...]
    touching: Mapping[int, Touch]
    shared: bool
    together: bool
    copying: Mapping[int, BoxTouch] = field(default_factory=dict)
    writes: Mapping[int, int] = field(default_factory=dict)


def find_slice(subject: Subject) -> Slice:
    """The accesses of a kernel, and what decides where it goes and where they lie.

    Raises:
        Refused: it copies in a way that is not followed.
    """
    flow = subject.flow
    for place, one in enumerate(flow.instructions):
        if unfollowed(one):
            raise Refused(f"{subject.place_text(place)} copies by {one.opcode}: only boxes of tensors are followed")
    copying = {place: BoxTouch(one) for place, one in enumerate(flow.instructions) if is_copy(one)}
    writes = descriptor_writes(flow) if copying else {}
    touching = {
        place: Touch(_in_full(one))
        for place, one in enumerate(flow.instructions)
        if is_access(one) and place not in copying
    }
    roots = jumps_of(flow) | _roots(touching, flow.instructions)
    roots |= {place: box.names for place, box in copying.items()}
    roots |= {place: (*touching[place].names, *read(flow.instructions[place])) for place in writes}
    return replace(_slice(subject, roots, touching), copying=copying, writes=writes)


def find_deciding_slice(subject: Subject) -> Slice:
    """What decides where a kernel goes."""
    code, jumps = subject.flow.instructions, jumps_of(subject.flow)
    found = _slice(replace(subject, unknown=frozenset()), jumps, {})
    atomics = {place: Touch(_in_full(code[place])) for place in _chosen(found, code, ATOMICS)}
    if atomics:
        # Where they lie is of interest too: a branch that depends on them is refused by the name of a tensor.
        found = _slice(replace(subject, unknown=frozenset()), _roots(atomics, code) | jumps, {})
    loads = {place: Touch(_in_full(code[place])) for place in _chosen(found, code, LOADS)}
    touching = atomics | loads
    return _slice(subject, _roots(touching, code) | jumps, touching)


def _roots(touching: Mapping[int, Touch], code: Sequence[Instruction]) -> dict[int, tuple[str, ...]]:
    """Place of an access -> registers that tell where it lies in global memory, and who takes part."""
    return {
        place: touch.names
        if code[place].family != COPY
        else (*touch.names[: len(touch.guards)], *names_of(code[place].operands[1]))
        for place, touch in touching.items()
    }


def _chosen(found: Slice, code: Sequence[Instruction], families: frozenset[str]) -> list[int]:
    """Places of a slice whose instructions are of some families."""
    return [place for block in found.places for place in block if code[place].family in families]


def _slice(subject: Subject, roots: Mapping[int, tuple[str, ...]], touching: Mapping[int, Touch]) -> Slice:
    flow, code = subject.flow, subject.flow.instructions
    places, unknown = reaching(flow, roots, subject.unknown), subject.unknown
    shared = loads_shared(flow, places, unknown)
    exchanges = [
        place for block in places for place in block if code[place].family in EXCHANGES and place not in unknown
    ]
    told = {place: read(code[place]) for place in exchanges}
    behind = slice_of(flow, told, unknown=unknown) if told and subject.memory.has_values else ()
    loaded = any(code[place].family in LOADS for block in behind for place in block)
    return Slice(places, touching, shared, shared or loaded)


def _in_full(one: Instruction) -> Instruction:
    """An access whose address says that it is one of 64 bits, as that of a compare-and-swap does not.

    A copy names an address of shared memory, too, which is one of 32 bits.
    """
    if one.family == COPY:
        return one
    return replace(one, operands=tuple(SHORT_ADDRESS.sub(r"[\1.64", operand) for operand in one.operands))


def noting(subject: Subject, found: Slice, doubts: Doubts, note: Note) -> dict[int, Step]:
    """What to do at each access in the place of what it does: tell of it, and load what is known.

    Raises (when run):
        Refused: an address depends on values that were not given.
    """
    accesses = {
        place: _noting(subject, place, touch, doubts, note, found.shared) for place, touch in found.touching.items()
    }
    for place in found.writes:
        accesses[place] = _taking(subject.flow.instructions[place], found.touching[place], accesses[place])
    copies = {place: _copying(subject, place, touch, doubts, note) for place, touch in found.copying.items()}
    code, places = subject.flow.instructions, {place for block in found.places for place in block}
    forgotten = {place: forgetting(code[place]) for place in places & subject.unknown}
    return forgotten | accesses | copies | steps_of(subject.flow, found.writes)


def _taking(instruction: Instruction, touch: Touch, noted: Step) -> Step:
    """What takes a descriptor to global memory is an access like others."""

    def step(threads: Threads, mask: Array) -> None:
        take(instruction, threads, touch.addresses[-1](threads))
        noted(threads, mask)

    return step


def _copying(subject: Subject, place: int, touch: BoxTouch, doubts: Doubts, note: Note) -> Step:
    def step(threads: Threads, mask: Array) -> None:
        active, sure = touch.active(threads, mask)
        if not sure:
            doubts.guard(place)
        if not active.any():
            return
        descriptor = touch.descriptor(threads, active)
        if descriptor is None:
            doubts.refuse_unknown(place, touch.names, "its tensor descriptor depends on")
            raise Refused(f"{subject.place_text(place)} copies by TMA: its tensor descriptor is not known")
        boxes = touch.boxes(threads, active, descriptor)
        if boxes is None:
            doubts.address(place, touch.names)
        else:
            note(place, boxes.origin, active, boxes)

    return step


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
            note(place, where, active, None)
        then(threads, mask)

    return step
