"""The instructions that decide control flow: a slice of the code, found backwards from its branches.

An instruction decides if it writes a register that a deciding instruction may read later, a branch to begin with.
What only moves and multiplies data falls away, which is nearly all of a kernel.
Only where a branch depends on shared memory do stores there and barriers count, too; and of stores those alone
whose address all threads of a warp share, since what each thread stores at a place of its own is data.

Source: strong liveness; Nielson, Nielson and Hankin, "Principles of Program Analysis" (1999), section 2.1 and ex. 2.4.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from ..emulator.compute.by_opcode import is_try
from ..emulator.semantics import is_followed
from ..sass.decode import Instruction
from ..sass.flow import BLOCK_ENDS, FLOWS_KEPT, Flow
from ..sass.graph import predecessors
from ..sass.memory_instructions import BARRIERS, COPY, SHARED_LOADS, SHARED_STORES, addresses_of
from ..sass.operands import is_uniform
from ..sass.registers import guard_of, read, written
from ..sass.traps import checks_of, followed_edges


def control_slice(flow: Flow) -> tuple[tuple[int, ...], ...]:
    """Block -> places of its deciding instructions in the code, in order."""
    stores = {place: read(instruction) for place, instruction in enumerate(flow.instructions) if is_shared(instruction)}
    return _with_stores(flow, jumps_of(flow), stores)


def reaching(
    flow: Flow,
    roots: Mapping[int, tuple[str, ...]],
    unknown: frozenset[int] = frozenset(),
    executed: frozenset[int] | None = None,
    stored: frozenset[int] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """As `slice_of`, and with all that threads leave in shared memory, where something is loaded from there.

    Args:
        roots, unknown, executed: as of `slice_of`; stored: places of the stores that may be read, None: all.
    """
    stores = {
        place: read(instruction) if is_followed(instruction) else guard_of(instruction) + addresses_of(instruction)
        for place, instruction in enumerate(flow.instructions)
        if (instruction.family in SHARED_STORES or instruction.family == COPY) and (stored is None or place in stored)
    }
    return _with_stores(flow, roots, stores, unknown, executed)


def jumps_of(flow: Flow) -> dict[int, tuple[str, ...]]:
    """Place of a jump, or of an end -> registers that it depends on; none of a check, which leads past its trap."""
    checks = {flow.blocks[number].stop - 1 for number in checks_of(flow)}
    return {
        place: () if place in checks else read(instruction)
        for place, instruction in enumerate(flow.instructions)
        if instruction.family in BLOCK_ENDS
    }


def loads_shared(flow: Flow, places: Sequence[Sequence[int]], unknown: frozenset[int] = frozenset()) -> bool:
    """Whether a slice loads from shared memory. Args: unknown: as of `slice_of`."""
    return any(
        flow.instructions[place].family in SHARED_LOADS and place not in unknown for block in places for place in block
    )


def blocks_exchanging(
    flow: Flow,
    places: Sequence[Sequence[int]],
    unknown: frozenset[int] = frozenset(),
    stored: frozenset[int] | None = None,
) -> frozenset[int]:
    """Blocks in which a slice loads from shared memory, or stores there; none where it loads nothing.

    Args:
        unknown: as of `slice_of`; stored: as of `reaching`.
    """
    if not loads_shared(flow, places, unknown):
        return frozenset()
    code = flow.instructions

    def exchanges(place: int) -> bool:
        if code[place].family in SHARED_LOADS:
            return place not in unknown
        return (code[place].family in SHARED_STORES or code[place].family == COPY) and (
            stored is None or place in stored
        )

    return frozenset(block for block, of_block in enumerate(places) if any(map(exchanges, of_block)))


def _with_stores(
    flow: Flow,
    roots: Mapping[int, tuple[str, ...]],
    stores: Mapping[int, tuple[str, ...]],
    unknown: frozenset[int] = frozenset(),
    executed: frozenset[int] | None = None,
) -> tuple[tuple[int, ...], ...]:
    places = slice_of(flow, roots, unknown=unknown, executed=executed)
    if not loads_shared(flow, places, unknown):
        return places
    # A copy is both: what tells where it comes from, and where in shared memory it goes.
    both = {place: (*stores.get(place, ()), *names) for place, names in roots.items()}
    wanted = {**stores, **both}
    places = slice_of(flow, wanted, unknown=unknown, executed=executed)
    code, exchanging = flow.instructions, blocks_exchanging(flow, places, unknown, frozenset(stores))
    # In a loop that exchanges nothing barriers part what other loops do there with memory that is data.
    idle = {block for loop in flow.loops if exchanging.isdisjoint(loop.blocks) for block in loop.blocks}
    barriers = {
        place: read(code[place])
        for number, block in enumerate(flow.blocks)
        if number not in idle
        for place in range(block.first, block.stop)
        if code[place].family in BARRIERS
    }
    return slice_of(flow, {**wanted, **barriers}, unknown=unknown, executed=executed)


def is_shared(instruction: Instruction) -> bool:
    """Whether it stores to shared memory, at one address for all threads of a warp."""
    return instruction.family == "STS" and is_uniform(instruction.operands[0])


def slice_of(
    flow: Flow,
    roots: Mapping[int, tuple[str, ...]],
    through_all: bool = False,
    unknown: frozenset[int] = frozenset(),
    executed: frozenset[int] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Block -> places of the instructions that some are for, and of these, in order.

    What an instruction reads counts only where its results may be known.

    Args:
        roots: place of what is wanted -> registers that it is wanted for.
        through_all: whether what instructions read counts that have results which are never known, too;
        unknown: places of more such instructions; executed: blocks that are run, None: any.
    """
    table = _registers(flow)
    wanted_for = {place: _bits(names, table.numbers) for place, names in roots.items()}

    def read_by(place: int) -> int:
        if place in wanted_for:
            return wanted_for[place]
        of_all, of_guard, follows = table.read(place)
        return of_all if place not in unknown and (follows or through_all) else of_guard

    wanted_at_start = [0] * len(flow.blocks)
    below = followed_edges(flow)
    if executed is not None:
        below = tuple(tuple(executed.intersection(ways)) if at in executed else () for at, ways in enumerate(below))
    above = predecessors(below)
    waiting = [number for number in range(len(flow.blocks)) if executed is None or number in executed]
    places: list[tuple[int, ...]] = [()] * len(flow.blocks)
    while waiting:
        number = waiting.pop()
        block = flow.blocks[number]
        wanted = 0
        for successor in below[number]:
            wanted |= wanted_at_start[successor]
        kept = []
        for place in range(block.stop - 1, block.first - 1, -1):
            instruction = flow.instructions[place]
            if not table.written[place] & wanted and place not in roots:
                continue
            kept.append(place)
            if not instruction.predicate:
                wanted &= ~table.written[place]
            wanted |= read_by(place)
        places[number] = tuple(reversed(kept))
        if wanted != wanted_at_start[number]:
            wanted_at_start[number] = wanted
            waiting += [predecessor for predecessor in above[number] if predecessor not in waiting]
    return tuple(places)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registers:
    """What instructions read and write, as sets of bits, by place.

    Args:
        numbers: register -> its bit; written: by each instruction.
        read: by one, none by one that tries for a barrier; what its guard reads; whether its results are ever known.
    """

    numbers: dict[str, int]
    written: tuple[int, ...]
    read: Callable[[int], tuple[int, int, bool]]


@lru_cache(maxsize=FLOWS_KEPT)
def _registers(flow: Flow) -> _Registers:
    """Of all instructions of a kernel, which is sliced many times."""
    numbers: dict[str, int] = {}

    @cache  # few are ever in a slice
    def read_by(place: int) -> tuple[int, int, bool]:
        instruction = flow.instructions[place]
        of_guard = _bits(guard_of(instruction), numbers)
        of_all = of_guard if is_try(instruction.opcode) else _bits(read(instruction), numbers)
        return of_all, of_guard, is_followed(instruction)

    by_place = tuple(_bits(written(instruction), numbers) for instruction in flow.instructions)
    return _Registers(numbers=numbers, written=by_place, read=read_by)


def _bits(names: Iterable[str], numbers: dict[str, int]) -> int:
    """A set of registers. Args: numbers: register -> its bit, those that are new are added."""
    value = 0
    for name in names:
        value |= 1 << numbers.setdefault(name, len(numbers))
    return value
