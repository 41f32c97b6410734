"""The instructions of a kernel that touch global memory, made ready to be followed, and what to tell of each.

Address, guard and way of an access come from a slice of the code (`deciding.slice_of`); all else falls away.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ...sass.decode import Instruction
from ...sass.flow import BLOCK_ENDS
from ...sass.registers import read
from ..accesses import COPY, GLOBAL, Touch, bytes_of
from ..deciding import BARRIERS, SHARED_LOADS, is_shared, slice_of
from ..memory import load_of_memory
from ..operands import Step, Threads
from ..tma.boxes import Boxes, BoxTouch, is_copy, unfollowed
from ..tma.written import descriptor_writes, steps_of, take
from ..values import Array
from .doubts import Doubts
from .given import Refused, Subject

ATOMICS = frozenset({"RED", "REDG", "ATOMG", "ATOM"})
STORES = frozenset({"STG", "ST", "UTMASTG"})
TOUCHING = GLOBAL | {COPY} | ATOMICS
LOADS = frozenset({"LDG", "LD", COPY})
SHORT_ADDRESS = re.compile(r"^\[(R\d+)(?=[+\]])")
Note = Callable[[int, Array, Array, Boxes | None], None]
"""Gets the place of an access, the addresses of the threads that are followed, and who of them takes part; of copies by
TMA the corners of boxes, which warps copy, and the boxes."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What is followed.

    Args:
        places: block -> places in the code; touching: place -> how to read its addresses;
        copying: the same of copies by TMA; writes: as `tma.written.descriptor_writes`.
    """

    places: tuple[tuple[int, ...], ...]
    touching: Mapping[int, Touch]
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
    roots = {place: read(one) for place, one in enumerate(flow.instructions) if one.family in BLOCK_ENDS}
    roots |= {place: touch.names for place, touch in touching.items()}
    roots |= {place: box.names for place, box in copying.items()}
    roots |= {place: (*touching[place].names, *read(flow.instructions[place])) for place in writes}
    found = slice_of(flow, roots)
    if any(flow.instructions[place].family in SHARED_LOADS for block in found for place in block):
        more = {p: read(one) for p, one in enumerate(flow.instructions) if one.family in BARRIERS or is_shared(one)}
        found = slice_of(flow, more | roots)
    return Slice(found, touching, copying, writes)


def _in_full(one: Instruction) -> Instruction:
    """An access whose address says that it is one of 64 bits, as that of a compare-and-swap does not."""
    return replace(one, operands=tuple(SHORT_ADDRESS.sub(r"[\1.64", operand) for operand in one.operands))


def is_access(one: Instruction) -> bool:
    """Whether an instruction touches global memory."""
    return (one.family in TOUCHING and one.predicate not in ("!PT", "!UPT")) or is_copy(one)


def is_atomic(one: Instruction) -> bool:
    """Whether it adds to what is there, at L2."""
    return one.family in ATOMICS or one.family == "UTMAREDG"


def width_of(instruction: Instruction) -> int:
    """What a lane moves, vectors of atomics included [B]."""
    vector = 4 if any(one.endswith("x4") for one in instruction.modifiers) else 1
    vector = 2 if any(one.endswith("x2") for one in instruction.modifiers) else vector
    return bytes_of(instruction) * vector


def noting(subject: Subject, found: Slice, doubts: Doubts, note: Note) -> dict[int, Step]:
    """What to do at each access in the place of what it does: tell of it, and load what is known.

    Raises (when run):
        Refused: an address depends on values that were not given.
    """
    accesses = {place: _noting(subject, place, touch, doubts, note) for place, touch in found.touching.items()}
    for place in found.writes:
        accesses[place] = _taking(subject.flow.instructions[place], found.touching[place], accesses[place])
    copies = {place: _copying(subject, place, touch, doubts, note) for place, touch in found.copying.items()}
    return accesses | copies | steps_of(subject.flow, found.writes)


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
            doubts.refuse_sources(place, touch.names, "its tensor descriptor depends on")
            raise Refused(f"{subject.place_text(place)} copies by TMA: its tensor descriptor is not known")
        boxes = touch.boxes(threads, active, descriptor)
        if boxes is None:
            doubts.address(place, touch.names)
        else:
            note(place, boxes.origin, active, boxes)

    return step


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
            note(place, where, active, None)
        then(threads, mask)

    return step
