"""Keys of uses: what the accesses of one use have in common; and prologues, whose copies get the key of their loop.

A prologue are copies ahead of a loop that copies the same storage: the first iterations of a software pipeline. They
tell how many iterations ahead of itself the loop copies.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from ...emulator.thread_values import Array
from ...sass.decode import Instruction
from ...sass.memory_instructions import (
    COPY,
    GLOBAL_STORES,
    gives_back,
    is_atomic,
    is_box_copy,
    is_box_load,
    is_evicted_first,
    is_read_at_l2,
    stays_in_l1,
    sums_integers,
)
from ...sass.registers import KEPT
from ..cta.bases import Execution
from ..cta.cta_run import Box, CtaRun
from ..cta.traced_kernel import TracedKernel
from ..positions import Iteration, Position, children_of
from .footprints import Stored, Touched
from .phases import Part, Phases

PAST_L1 = frozenset({"uncached", "async", "tma", "atomic"})
"""Paths on which each access fetches its own sectors, even those that others have fetched."""
BY_WARP = frozenset({"uncached", "async", "atomic"})
"""Paths on which each warp does."""


@dataclass(frozen=True, slots=True)
class AccessKey:
    """What accesses have in common that make one use.

    Args:
        part, phase: of the code; storage: its number; kind: load, store, atomic or reduction;
        path: plain, uncached, cached, async, tma or atomic, as in `program.Tile`; integers: are added to;
        passing: L2 drops it first.
    """

    part: Part
    phase: int
    storage: int
    kind: str
    path: str
    integers: bool = False
    passing: bool = False


@dataclass(frozen=True, slots=True)
class IterationAccess:
    """An access of the representative in one iteration.

    Args:
        place: number of its instruction in the code.
        position: of that instruction in the run.
        touched: bytes; one entry for each warp on the paths `BY_WARP`.
        sectors: numbers of the sectors to fetch, int64; None: all.
        anchor: address of the first thread, or of a box's corner [B]; lowest: of all [B].
        box: copied by TMA; None: the access is no such copy.
        stored: by which warp; None: the access is no plain store.
    """

    place: int
    position: Position
    touched: tuple[Touched, ...]
    sectors: Array | None
    anchor: int
    lowest: int
    box: Box | None
    stored: Stored | None = None

    @property
    def execution(self) -> Execution:
        """That tells it from others in its iteration."""
        return self.place, self.position.turn


Accesses = dict[Iteration, list[IterationAccess]]
"""Iteration of the loops around -> accesses of one use."""
Iterations = Mapping[Iteration, list[IterationAccess]]
"""The same, to be read alone."""


@lru_cache(maxsize=KEPT)
def kind_of(instruction: Instruction) -> str:
    """Kind of an access: load, store, reduction, or atomic, which returns the old value."""
    if is_read_at_l2(instruction):
        return "atomic" if gives_back(instruction) else "reduction"
    if is_box_load(instruction):
        return "load"
    return "store" if instruction.family in GLOBAL_STORES or is_atomic(instruction) else "load"


@lru_cache(maxsize=KEPT)
def path_of(instruction: Instruction) -> str:
    """Path of an access between memory and SM, as in `program.Tile`."""
    if is_read_at_l2(instruction):
        return "atomic"
    if is_box_copy(instruction):
        return "tma"
    if instruction.family != COPY:
        return "plain" if kind_of(instruction) == "store" or stays_in_l1(instruction) else "uncached"
    return "async" if "BYPASS" in instruction.modifiers or "128" in instruction.modifiers else "cached"


def key_of(instruction: Instruction, part: Part, phases: Phases, place: int, storage: int) -> AccessKey:
    """Key of an access. Args: part, place: of it in the code; storage: number of the one that it touches."""
    kind = kind_of(instruction)
    phase, path = phases.of(part, place, kind in ("store", "reduction")), path_of(instruction)
    return AccessKey(part, phase, storage, kind, path, sums_integers(instruction), is_evicted_first(instruction))


@dataclass(frozen=True, slots=True)
class Prologue:
    """Copies ahead of a loop.

    Args:
        before: their key; depth: iterations that the loop copies ahead of itself;
        stage: place of a copy ahead of the loop -> iteration whose data it copies;
        apart: whether they stay there, as the loop copies in its last iterations, too, for the code behind it.
    """

    before: AccessKey
    depth: int
    stage: Mapping[int, int]
    apart: bool = False


def find_prologues(subject: TracedKernel, run: CtaRun, phases: Phases) -> dict[AccessKey, Prologue]:
    """Key of a loop's copies -> the copies ahead of it. Args: run: a CTA, with its masked copies."""
    copies = _copies_by_key(subject, run, phases)
    children = children_of(run.paths)
    made = {access.place for access in run.accesses if access.lanes}
    prologues, to_the_end = dict[AccessKey, Prologue](), _made_to_the_end(run)
    # Copies that this CTA masks throughout come last: they may be of an earlier loop, which it skips.
    for key in sorted(copies, key=lambda key: not any(made & {*places} for places in copies[key].values())):
        region, piece = key.part
        if not copies[key] or piece >= len(children[region]):
            continue
        inner = children[region][piece]
        same = (k for k in copies if k.part[0] == inner and (k.storage, k.path) == (key.storage, key.path))
        into = next(same, None)
        if into is None or into in prologues:
            continue
        prologue = _prologue(key, copies[key], copies[into], max(1, subject.kernel.num_stages - 1))
        if prologue is not None:
            apart = any(not to_the_end.isdisjoint(places) for places in copies[into].values())
            prologues[into] = replace(prologue, apart=apart)
    return prologues


def _made_to_the_end(run: CtaRun) -> set[int]:
    """Places of accesses that some threads make in the last iteration of a loop."""
    lasts: dict[tuple[int, Iteration], int] = {}
    for position in run.positions:
        if position.iteration:
            lasts[position.region, position.iteration[:-1]] = position.iteration[-1]
    made = ((access.place, run.positions[access.visit]) for access in run.accesses if access.lanes)
    return {place for place, at in made if at.iteration and lasts[at.region, at.iteration[:-1]] == at.iteration[-1]}


def joined_ahead(prologues: Mapping[AccessKey, Prologue], key: AccessKey) -> int:
    """How many iterations copies ahead of a loop become of it. Args: key: of the loop's copies."""
    return prologues[key].depth if key in prologues and not prologues[key].apart else 0


def _copies_by_key(subject: TracedKernel, run: CtaRun, phases: Phases) -> dict[AccessKey, dict[Iteration, list[int]]]:
    """Places of the copies of a CTA, by key and iteration, in order.

    A loop that runs once is straight code: its copies end all that is ahead of it, which is not ahead of the next loop.
    """
    copies: dict[AccessKey, dict[Iteration, list[int]]] = defaultdict(lambda: defaultdict(list))
    flow, children = subject.flow, children_of(run.paths)
    headers = {number: flow.loops[loop].header for paths in run.paths.region_of for loop, number in paths.items()}
    block_of = {place: at for at, block in enumerate(flow.blocks) for place in range(block.first, block.stop)}
    for copy in run.copies:
        position = run.positions[copy.visit]
        part = position.region, position.piece
        key = key_of(subject.flow.instructions[copy.place], part, phases, copy.place, copy.storage)
        loop, inner = flow.loop_of(block_of[copy.place]), children[part[0]][part[1] : part[1] + 1]
        if loop >= 0 and any(headers[number] not in flow.loops[loop].blocks for number in inner):
            for other in copies:
                if (other.part, other.storage, other.path) == (part, key.storage, key.path):
                    copies[other].pop(position.iteration, None)
            continue
        copies[key][position.iteration].append(copy.place)
    return copies


def _prologue(
    key: AccessKey, before: Mapping[Iteration, list[int]], loop: Mapping[Iteration, list[int]], most_stages: int
) -> Prologue | None:
    """Copies as a prologue; None where they are no whole number of iterations. Args: before, loop: places of copies."""
    per_iteration = max(len(places) for places in loop.values())
    # More than a pipeline holds is the prologue of an earlier loop that this CTA skips.
    ahead = [places[-per_iteration * most_stages :] for places in before.values()]
    depths = {len(places) // per_iteration for places in ahead if len(places) % per_iteration == 0}
    if len(depths) != 1 or not (depth := depths.pop()):
        return None
    stage = {place: number // per_iteration for places in ahead for number, place in enumerate(places)}
    return Prologue(key, depth, stage)


def join_prologues(accesses: dict[AccessKey, Accesses], prologues: Mapping[AccessKey, Prologue]) -> None:
    """Make copies ahead of loops the first iterations of these. Args: accesses: of one CTA, changed in place."""
    for into, prologue in prologues.items():
        if prologue.apart:
            continue
        before, loop = accesses.pop(prologue.before, {}), accesses.pop(into, {})
        joined: dict[Iteration, list[IterationAccess]] = defaultdict(list)
        others: dict[Iteration, list[IterationAccess]] = defaultdict(list)
        for iteration, copies in before.items():
            for copy in copies:
                if copy.place in prologue.stage:
                    joined[(*iteration, prologue.stage[copy.place])].append(copy)
                else:
                    others[iteration].append(copy)
        for iteration, copies in loop.items():
            joined[(*iteration[:-1], iteration[-1] + prologue.depth)] += copies
        if joined:
            accesses[into] = joined
        if others:
            accesses[prologue.before] = others
