"""What is done at accesses to memory while threads are followed: they are recorded, and loads return what is known.

Everything else is done as its instruction says (`emulator.semantics`).
"""

from ...emulator.access_lanes import Touch
from ...emulator.global_memory import copy_of_memory, load_of_memory
from ...emulator.semantics import compile_instruction, havoc
from ...emulator.thread_values import Array, known_to_all, narrowed_to
from ...emulator.threads import Step, Threads
from ...emulator.tma.boxes import BoxTouch
from ...emulator.tma.written import steps_of, take
from ...refusal import Refused
from ...sass.decode import Instruction
from ...sass.memory_instructions import COPY, bytes_of, is_atomic
from ..counters import cta_numbers
from .address_slice import AddressSlice, Record
from .tables import drawn_addresses, spread_addresses
from .traced_kernel import TracedKernel
from .unknown_values import UnknownValues


def access_steps(
    subject: TracedKernel, code_slice: AddressSlice, doubts: UnknownValues, record: Record
) -> dict[int, Step]:
    """Steps that replace instructions of a slice: accesses are recorded, and loads return what is known.

    Returns:
        Place -> step; also for instructions whose results are never known.

    Raises (when a step is executed):
        Refused: an address depends on values that were not given.
    """
    accesses = {
        place: _access_step(subject, place, touch, doubts, record, code_slice.shared and _is_read(subject, place))
        for place, touch in code_slice.touching.items()
    }
    for place in code_slice.writes:
        accesses[place] = _descriptor_step(
            subject.flow.instructions[place], code_slice.touching[place], accesses[place]
        )
    copies = {place: _box_step(subject, place, touch, doubts, record) for place, touch in code_slice.copying.items()}
    code, places = subject.flow.instructions, {place for block in code_slice.places for place in block}
    forgotten = {place: havoc(code[place]) for place in places & subject.unknown}
    return forgotten | accesses | copies | steps_of(subject.flow, code_slice.writes)


def _is_read(subject: TracedKernel, place: int) -> bool:
    """Whether loads may read what an instruction leaves in shared memory."""
    return subject.stored is None or place in subject.stored


def _descriptor_step(instruction: Instruction, touch: Touch, access_step: Step) -> Step:
    """A store of a TMA descriptor to global memory: its words are kept, and it is recorded as an access."""

    def step(threads: Threads, mask: Array) -> None:
        take(instruction, threads, touch.addresses[-1](threads))
        access_step(threads, mask)

    return step


def _box_step(subject: TracedKernel, place: int, touch: BoxTouch, doubts: UnknownValues, record: Record) -> Step:
    """A copy by TMA, which is recorded alone."""

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
            record(place, boxes.origin, active, boxes)

    return step


def _access_step(
    subject: TracedKernel, place: int, touch: Touch, doubts: UnknownValues, record: Record, shared: bool
) -> Step:
    """An access by threads. Args: shared: whether what copies leave in shared memory may be loaded."""
    instruction = subject.flow.instructions[place]
    if place in doubts.counter_places and place not in doubts.waiting.polled:
        counters = doubts.counters
        then = (counters.turns if doubts.counter_places[place] else counters.step)(instruction, place, touch)
    elif is_atomic(instruction) or place in doubts.waiting.polled:
        # What it returns depends on other CTAs, even where the values in memory were given.
        then = compile_instruction(instruction)
    elif shared and instruction.family == COPY:
        then = copy_of_memory(instruction, subject.memory)
    else:
        then = load_of_memory(instruction, subject.memory)
    address = touch.addresses[-1]
    visits = 0

    def drawn(threads: Threads) -> Array | None:
        """Addresses in the place of those that are not known; None where the storage is not known, either."""
        nonlocal visits
        storage, kernel, width = doubts.base(place), subject.kernel, bytes_of(instruction)
        if storage is None:
            return None
        if doubts.is_table(place):
            return drawn_addresses(storage, place, threads, width)
        visits += 1
        return spread_addresses(storage, place, threads, cta_numbers(threads, kernel.grid), kernel.warps, visits, width)

    def step(threads: Threads, mask: Array) -> None:
        active = mask
        for guard in touch.guards:
            holds = guard(threads)
            if not known_to_all(holds[1], mask):
                doubts.guard(place)
            active = narrowed_to(active, holds)
        where, known = address(threads)
        if not known_to_all(known, active):
            doubts.address(place)
            if (anywhere := drawn(threads)) is not None:
                record(place, anywhere, active, None)
        else:
            doubts.fetched(place, where, active)
            record(place, where, active, None)
        then(threads, mask)

    return step
