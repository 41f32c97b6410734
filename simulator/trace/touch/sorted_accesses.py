"""The accesses of one CTA, sorted: by the part of the code, the storage, and how they travel; iteration by iteration.

Copies ahead of a loop that copies the same storage are its first iterations: they tell how far ahead it runs.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...limits import SECTOR_BYTES
from ...sass.decode import Instruction
from ..accesses import COPY
from ..cta.bases import Seen
from ..cta.given import Subject
from ..cta.kinds import STORES, gives_back, is_atomic, is_read_at_l2
from ..cta.one_cta import Accessed, Box, Copied, OneCta, Position, children_of
from ..tma.boxes import is_copy
from ..values import Array
from .footprints import Touched
from .in_l1 import Passing, missed
from .phases import Part, Phases

PAST_L1 = frozenset({"async", "tma", "atomic"})
"""Paths on which each access fetches its own, whatever others have fetched."""


@dataclass(frozen=True, slots=True)
class Sort:
    """What accesses have in common that make one use.

    Args:
        part, phase: of the code; storage: number; kind: load, store, atomic or reduction; path: as in `program.Tile`.
    """

    part: Part
    phase: int
    storage: int
    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class Made:
    """An access in one iteration.

    Args:
        place, position: of it in the code; touched: bytes, of each warp by itself where copies share nothing;
        sectors: those that have to be fetched, None: all; anchor: address of the first thread, or of a box's corner;
        box: that is copied by TMA.
    """

    place: int
    position: Position
    touched: tuple[Touched, ...]
    sectors: Array | None
    anchor: int
    box: Box | None


def kind_of(instruction: Instruction) -> str:
    """load, store, reduction, or an atomic that gives back what was there before."""
    if is_read_at_l2(instruction):
        return "atomic" if gives_back(instruction) else "reduction"
    return "store" if instruction.family in STORES or is_atomic(instruction) else "load"


def path_of(instruction: Instruction) -> str:
    """How an access travels, as in `program.Tile`."""
    if is_read_at_l2(instruction):
        return "atomic"
    if is_copy(instruction):
        return "tma"
    if instruction.family != COPY:
        return "plain"
    return "async" if "BYPASS" in instruction.modifiers or "128" in instruction.modifiers else "cached"


def sorted_accesses(
    subject: Subject, one: OneCta, phases: Phases, seen: Mapping[int, Seen], rank: int, room_bytes: float
) -> tuple[dict[Sort, dict[tuple[int, ...], list[Made]]], dict[int, float]]:
    """All accesses of a CTA.

    Args:
        seen: where accesses of all CTAs of the class begin; rank: of `one` among these;
        room_bytes: of L1, for each CTA of an SM.

    Returns:
        Iteration of the loops around -> accesses, for each sort; place of a load -> share of it that L1 serves.
    """
    code = subject.flow.instructions
    courses = _courses(seen, rank)
    through_l1 = []
    accesses = [access for access in one.accesses if access.active.any()]
    for access in accesses:
        position, kind = one.positions[access.visit], kind_of(code[access.place])
        if path_of(code[access.place]) not in PAST_L1:
            part = position.region, position.piece
            iteration = part, phases.of(part, access.place, kind != "load"), kind, position.trips
            course = courses.get(access.place, 0)
            through_l1.append(Passing(_touched(access), iteration, kind == "load", course))
    fetched = iter(missed(through_l1, room_bytes))
    made: dict[Sort, dict[tuple[int, ...], list[Made]]] = defaultdict(lambda: defaultdict(list))
    hit: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for access in accesses:
        instruction, position = code[access.place], one.positions[access.visit]
        path, kind = path_of(instruction), kind_of(instruction)
        whole = _touched(access)
        sectors = None
        if path not in PAST_L1:
            sectors = next(fetched)
            if kind == "load":
                hit[access.place][0] += len(sectors)
                hit[access.place][1] += len(np.unique(whole.addresses // SECTOR_BYTES))
        storage = subject.memory.number_of(int(access.addresses[access.active].flat[0]))
        key = _sort_of(instruction, position, phases, Copied(access.visit, access.place, storage))
        touched: tuple[Touched, ...] = (whole,)
        if path == "async":
            taking = [
                (row, active) for row, active in zip(access.addresses, access.active, strict=True) if active.any()
            ]
            touched = tuple(Touched(row[active], access.size_bytes) for row, active in taking)
        copied = Made(access.place, position, touched, sectors, access.anchor, access.box)
        made[key][position.trips].append(copied)
    shares = {place: max(0.0, 1.0 - kept / whole) for place, (kept, whole) in hit.items() if whole}
    return made, {place: share for place, share in shares.items() if share > 0}


def _courses(seen: Mapping[int, Seen], rank: int) -> dict[int, int]:
    """Place -> number that is equal for accesses that begin equally far from each other in all CTAs."""
    numbers: dict[bytes, int] = {}
    courses: dict[int, int] = {}
    for place, access in seen.items():
        if access.addresses:
            addresses = access.addresses[min(access.addresses)]
            courses[place] = numbers.setdefault((addresses - addresses[rank]).tobytes(), len(numbers))
    return courses


def sort_of(instruction: Instruction, part: Part, phases: Phases, place: int, storage: int) -> Sort:
    """The sort of an access. Args: part: of the code that it is in; place: in the code; storage: that it touches."""
    kind = kind_of(instruction)
    return Sort(part, phases.of(part, place, kind in ("store", "reduction")), storage, kind, path_of(instruction))


def _sort_of(instruction: Instruction, position: Position, phases: Phases, made: Copied) -> Sort:
    return sort_of(instruction, (position.region, position.piece), phases, made.place, made.storage)


def _touched(access: Accessed) -> Touched:
    return Touched(access.addresses[access.active], access.size_bytes)


@dataclass(frozen=True, slots=True)
class Prologue:
    """Copies ahead of a loop that copies the same storage.

    Args:
        before: what they are sorted as; depth: how many iterations ahead of itself the loop copies;
        stage: place of a copy ahead of the loop -> iteration that it is of.
    """

    before: Sort
    depth: int
    stage: Mapping[int, int]


def find_prologues(subject: Subject, one: OneCta, phases: Phases) -> dict[Sort, Prologue]:
    """What runs ahead of itself in a CTA, in all of its copies: sort of a loop's copies -> those ahead of it."""
    code = subject.flow.instructions
    copies: dict[Sort, dict[tuple[int, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    for copy in one.copies:
        key = _sort_of(code[copy.place], one.positions[copy.visit], phases, copy)
        copies[key][one.positions[copy.visit].trips].append(copy.place)
    children = children_of(one.ways)
    found: dict[Sort, Prologue] = {}
    for key in copies:
        region, piece = key.part
        if piece >= len(children[region]):
            continue
        inner = children[region][piece]
        into = next((k for k in copies if k.part[0] == inner and (k.storage, k.path) == (key.storage, key.path)), None)
        if into is None or into in found:
            continue
        each = max(len(places) for places in copies[into].values())
        # What is more than a pipeline holds, was for a loop before it that this CTA leaves out.
        most = each * max(1, subject.called.num_stages - 1)
        ahead = [before[-most:] for before in copies[key].values()]
        deep = {len(before) // each for before in ahead if len(before) % each == 0}
        if len(deep) != 1 or not (depth := deep.pop()):
            continue
        stage = {place: number // each for before in ahead for number, place in enumerate(before)}
        found[into] = Prologue(key, depth, stage)
    return found


def join_prologues(made: dict[Sort, dict[tuple[int, ...], list[Made]]], prologues: Mapping[Sort, Prologue]) -> None:
    """Make copies ahead of loops their first iterations. Args: prologues: of a CTA that goes the same way."""
    for into, prologue in prologues.items():
        before, loop = made.pop(prologue.before, {}), made.pop(into, {})
        joined: dict[tuple[int, ...], list[Made]] = defaultdict(list)
        for trips, copies in before.items():
            for copy in copies:
                joined[(*trips, prologue.stage.get(copy.place, 0))].append(copy)
        for trips, copies in loop.items():
            joined[(*trips[:-1], trips[-1] + prologue.depth)] += copies
        if joined:
            made[into] = joined
