"""Instructions that touch global memory: which code is executed for their addresses, and how accesses are recorded.

Branches, addresses and guards come from a backward slice of the code (`control_slice`); all other code is skipped.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ...emulator.access_lanes import Touch
from ...emulator.compute.warp_lanes import EXCHANGES
from ...emulator.thread_values import Array
from ...emulator.tma.boxes import Boxes, BoxTouch
from ...emulator.tma.bulk import touch_of, unfollowed
from ...emulator.tma.written import descriptor_writes
from ...refusal import Refused
from ...sass.decode import Instruction
from ...sass.flow import FLOWS_KEPT, Flow
from ...sass.memory_instructions import (
    ATOMICS,
    COPY,
    GLOBAL_LOADS,
    LOADS_AND_COPIES,
    addressed,
    is_access,
    is_box_copy,
)
from ...sass.operands import Name
from ...sass.registers import read
from ..control_slice import blocks_exchanging, jumps_of, reaching, slice_of
from ..counters import is_counter
from .traced_kernel import TracedKernel
from .unknown_values import UnknownValues

THREAD_NUMBERS = ("SR_TID", "SR_LANEID")
"""Begins of the names of special registers that tell threads of a CTA apart."""
Record = Callable[[int, Array, Array, Boxes | None], None]
"""Gets the place of an access, addresses of the threads that are followed, int64 (CTAs, warps, lanes), and which of
them take part, bool; of copies by TMA the corners of boxes, (CTAs, warps, 1), which warps copy, and the boxes."""


@dataclass(frozen=True, slots=True)
class AddressSlice:
    """Instructions that are executed when threads are followed.

    Args:
        places: block -> their places in the code; touching: place of an access -> how to read its addresses;
        copying: the same of copies by TMA; writes: as `tma.written.descriptor_writes`;
        exchanging: blocks in which some load from shared memory, or leave there what others load; none where none does;
        all_threads: whether threads exchange what they have loaded, so that all have to be followed together, or
            values that each loads for itself decide where it goes;
        successor: block -> the one block that all threads go on to, whatever its branch says; None: they end.
    """

    places: tuple[tuple[int, ...], ...]
    touching: Mapping[int, Touch]
    exchanging: frozenset[int]
    all_threads: bool
    copying: Mapping[int, BoxTouch] = field(default_factory=dict)
    writes: Mapping[int, int] = field(default_factory=dict)
    successor: Mapping[int, int | None] = field(default_factory=dict)

    @property
    def shared(self) -> bool:
        """Whether any of them loads from shared memory."""
        return bool(self.exchanging)


@dataclass(frozen=True, slots=True)
class Tracer:
    """Follows threads of a launch.

    Args:
        subject: the launch; code_slice: instructions that are executed; doubts: settles what is not known.
    """

    subject: TracedKernel
    code_slice: AddressSlice
    doubts: UnknownValues

    def with_all_threads(self) -> "Tracer":
        """The same where all threads of a CTA are followed together, as they exchange values."""
        return replace(self, code_slice=replace(self.code_slice, all_threads=True))

    def may_leap(self, places: Collection[int]) -> bool:
        """As `leaper.MayLeap`: whether what instructions load is not given, and where they do so is known."""
        code, given = self.subject.flow.instructions, self.subject.memory.has_values
        return (
            self.doubts.unknown_places.isdisjoint(places)
            and self.doubts.counter_places.keys().isdisjoint(places)
            and self.code_slice.writes.keys().isdisjoint(places)
            and not (given and any(code[place].family in GLOBAL_LOADS for place in places))
        )


def find_slice(subject: TracedKernel) -> AddressSlice:
    """The slice that gives control flow, and address and guard of each access to global memory.

    Raises:
        Refused: it copies in a way that is not followed.
    """
    flow = subject.flow
    for place, instruction in enumerate(flow.instructions):
        if unfollowed(instruction):
            raise Refused(
                f"{subject.place_text(place)} copies by TMA in a way that is not modelled ({instruction.opcode})"
            )
    return _whole_slice(flow, subject.unknown, subject.memory.has_values, subject.stored)


@lru_cache(maxsize=FLOWS_KEPT)
def _whole_slice(flow: Flow, unknown: frozenset[int], given: bool, stored: frozenset[int] | None) -> AddressSlice:
    """The same. Args: unknown, stored: as of `TracedKernel`; given: whether memory has values."""
    accesses = find_accesses(flow)
    code_slice = _slice(flow, unknown, given, accesses.roots, accesses.touching, stored=stored)
    if code_slice.shared and accesses.writes:
        # Words of descriptors go through shared memory, too.
        code_slice = replace(code_slice, exchanging=frozenset(range(len(flow.blocks))))
    return replace(code_slice, copying=accesses.copying, writes=accesses.writes)


@dataclass(frozen=True, slots=True)
class Accesses:
    """Accesses to global memory in code.

    Args:
        touching, copying, writes: as in `AddressSlice`; roots: as of `_slice`.
    """

    touching: Mapping[int, Touch]
    copying: Mapping[int, BoxTouch]
    writes: Mapping[int, int]
    roots: Mapping[int, tuple[str, ...]]


@lru_cache(maxsize=FLOWS_KEPT)
def find_accesses(flow: Flow) -> Accesses:
    """All accesses to global memory; the roots are what control flow, their addresses and their guards come from."""
    copying = {
        place: touch_of(instruction) for place, instruction in enumerate(flow.instructions) if is_box_copy(instruction)
    }
    writes = descriptor_writes(flow) if copying else {}
    touching = {
        place: Touch(instruction)
        for place, instruction in enumerate(flow.instructions)
        if is_access(instruction) and place not in copying
    }
    roots = jumps_of(flow) | _roots(touching, flow.instructions)
    roots |= {place: box.names for place, box in copying.items()}
    roots |= {place: (*touching[place].names, *read(flow.instructions[place])) for place in writes}
    return Accesses(touching, copying, writes, roots)


def narrow_slice(
    flow: Flow,
    unknown: frozenset[int],
    given: bool,
    wanted: frozenset[int],
    successor: Mapping[int, int | None],
    executed: frozenset[int],
    stored: frozenset[int] | None,
) -> AddressSlice:
    """The slice that gives control flow, and address and guard of some accesses and of the loads that these need.

    Args:
        unknown, given, stored: as of `_whole_slice`; wanted: places of the accesses; successor: as in `AddressSlice`;
        executed: blocks that are run.
    """
    sure = {flow.blocks[block].stop - 1 for block in successor}
    jumps = {place: names for place, names in jumps_of(flow).items() if place not in sure}
    return replace(_with_loads(flow, unknown, given, wanted, jumps, executed, stored), successor=successor)


def _with_loads(
    flow: Flow,
    unknown: frozenset[int],
    given: bool,
    wanted: frozenset[int],
    roots: Mapping[int, tuple[str, ...]],
    executed: frozenset[int] | None,
    stored: frozenset[int] | None,
) -> AddressSlice:
    """The slice behind registers, and accesses, with the loads that it needs. Args: as of `narrow_slice`, `_slice`."""
    code = flow.instructions
    touching, more = dict[int, Touch](), set(wanted)
    while True:
        touching |= {place: Touch(code[place]) for place in more}
        code_slice = _slice(flow, unknown, given, {**_roots(touching, code), **roots}, touching, executed, stored)
        more = {place for block in code_slice.places for place in block if is_access(code[place])} - touching.keys()
        if not more:
            return code_slice


def slice_with(subject: TracedKernel, roots: Mapping[int, tuple[str, ...]]) -> AddressSlice:
    """The slice that gives control flow, and registers of some instructions. Args: roots: place -> registers."""
    given, nothing = subject.memory.has_values, frozenset[int]()
    return _with_loads(
        subject.flow, subject.unknown, given, nothing, {**jumps_of(subject.flow), **roots}, None, subject.stored
    )


def find_deciding_slice(subject: TracedKernel) -> AddressSlice:
    """The slice that gives control flow alone, and accesses whose values it depends on."""
    return _deciding_slice(subject.flow, subject.unknown, subject.memory.has_values, subject.stored)


@lru_cache(maxsize=FLOWS_KEPT)
def _deciding_slice(flow: Flow, unknown: frozenset[int], given: bool, stored: frozenset[int] | None) -> AddressSlice:
    """The same. Args: as of `_whole_slice`."""
    code, jumps, every = flow.instructions, jumps_of(flow), frozenset[int]()
    code_slice = _slice(flow, every, given, jumps, {}, stored=stored)
    atomics = {place: Touch(code[place]) for place in _places_of(code_slice, code, ATOMICS)}
    if atomics:
        # Their addresses are wanted, too: where a branch depends on an atomic, the refusal names the tensor.
        code_slice = _slice(flow, every, given, _roots(atomics, code) | jumps, {}, stored=stored)
    loads = {place: Touch(code[place]) for place in _places_of(code_slice, code, LOADS_AND_COPIES)}
    touching = atomics | loads
    deciding = _slice(flow, unknown, given, _roots(touching, code) | jumps, touching, stored=stored)
    differing = given and _of_threads(
        flow, {place: touch.names for place, touch in loads.items() if place not in unknown}
    )
    return replace(deciding, all_threads=deciding.all_threads or differing)


def _of_threads(flow: Flow, loads: Mapping[int, tuple[str, ...]]) -> bool:
    """Whether threads load from places of their own. Args: loads: place of a load -> registers of its address."""
    return any(
        isinstance(operand, Name) and operand.text.startswith(THREAD_NUMBERS)
        for block in slice_of(flow, loads)
        for place in block
        for operand in flow.instructions[place].operands
    )


def _roots(touching: Mapping[int, Touch], code: Sequence[Instruction]) -> dict[int, tuple[str, ...]]:
    """Place of an access -> registers of its address in global memory and of its guards; of a counter what is added."""

    def names(place: int, touch: Touch) -> tuple[str, ...]:
        if code[place].family == COPY:
            return (*touch.names[: len(touch.guards)], *addressed(code[place])[1].names)
        return (*touch.names, *read(code[place])) if is_counter(code[place]) else touch.names

    return {place: names(place, touch) for place, touch in touching.items()}


def _places_of(code_slice: AddressSlice, code: Sequence[Instruction], families: frozenset[str]) -> list[int]:
    """Places of a slice whose instructions are of some families."""
    return [place for block in code_slice.places for place in block if code[place].family in families]


def _slice(
    flow: Flow,
    unknown: frozenset[int],
    given: bool,
    roots: Mapping[int, tuple[str, ...]],
    touching: Mapping[int, Touch],
    executed: frozenset[int] | None = None,
    stored: frozenset[int] | None = None,
) -> AddressSlice:
    """The slice behind registers of some instructions.

    Args:
        unknown, given, stored: as of `_whole_slice`; roots: place -> registers; touching: as in `AddressSlice`;
        executed: blocks that are run; None: any.
    """
    code, places = flow.instructions, reaching(flow, roots, unknown, executed, stored)
    exchanging = blocks_exchanging(flow, places, unknown, stored)
    exchanges = [
        place for block in places for place in block if code[place].family in EXCHANGES and place not in unknown
    ]
    sources = {place: read(code[place]) for place in exchanges}
    behind = slice_of(flow, sources, unknown=unknown) if sources and given else ()
    loaded = any(code[place].family in LOADS_AND_COPIES for block in behind for place in block)
    return AddressSlice(places, touching, exchanging, bool(exchanging) or loaded)


def pairs_of(code_slice: AddressSlice) -> dict[str, str]:
    """Register of the lower word of an address -> register of its upper word."""
    pairs = [
        names[at : at + 2]
        for names in (touch.names for touch in code_slice.touching.values())
        for at in range(len(names) - 1)
    ]
    kinds = [(low, high, low.rstrip("0123456789")) for low, high in pairs]
    return {
        low: high
        for low, high, kind in kinds
        if kind in ("R", "UR")
        and high.startswith(kind)
        and low[len(kind) :].isdigit()
        and high == f"{kind}{int(low[len(kind) :]) + 1}"
    }
