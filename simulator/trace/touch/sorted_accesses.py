"""The accesses of one CTA, sorted: by the part of the code, the storage, and how they travel; iteration by iteration.

Copies ahead of a loop that copies the same storage are its first iterations: they tell how far ahead it runs.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from ...limits import SECTOR_BYTES
from ...sass.decode import Instruction
from ..accesses import COPY
from ..cta.given import Subject
from ..cta.one_cta import Accessed, Box, OneCta, Position, children_of
from ..cta.sites import STORES, is_atomic
from ..tma.boxes import is_copy
from ..values import Array
from .footprints import Touched
from .in_l1 import Passing, missed
from .phases import Part, Phases

PAST_L1 = frozenset({"async", "tma"})
"""Paths on which each access fetches its own, whatever others have fetched."""


@dataclass(frozen=True, slots=True)
class Sort:
    """What accesses have in common that make one use.

    Args:
        part, phase: of the code; storage: number; kind: load, store or atomic; path: as in `program.Tile`.
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
    """load, store or atomic."""
    return "atomic" if is_atomic(instruction) else "store" if instruction.family in STORES else "load"


def path_of(instruction: Instruction) -> str:
    """How an access travels, as in `program.Tile`."""
    if is_copy(instruction):
        return "tma"
    if instruction.family != COPY:
        return "plain"
    return "async" if "BYPASS" in instruction.modifiers or "128" in instruction.modifiers else "cached"


def sorted_accesses(
    subject: Subject, one: OneCta, phases: Phases, room_bytes: float
) -> tuple[dict[Sort, dict[tuple[int, ...], list[Made]]], dict[int, float]]:
    """All accesses of a CTA.

    Args:
        room_bytes: of L1, for each CTA of an SM.

    Returns:
        Iteration of the loops around -> accesses, for each sort; place of a load -> share of it that L1 serves.
    """
    code = subject.flow.instructions
    through_l1 = []
    accesses = [access for access in one.accesses if access.active.any()]
    for access in accesses:
        position, kind = one.positions[access.visit], kind_of(code[access.place])
        if path_of(code[access.place]) not in PAST_L1 and kind != "atomic":
            part = position.region, position.piece
            iteration = part, phases.of(part, access.place, kind != "load"), kind, position.trips
            through_l1.append(Passing(_touched(access), iteration, kind == "load"))
    fetched = iter(missed(through_l1, room_bytes))
    made: dict[Sort, dict[tuple[int, ...], list[Made]]] = defaultdict(lambda: defaultdict(list))
    hit: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for access in accesses:
        instruction, position = code[access.place], one.positions[access.visit]
        path, kind = path_of(instruction), kind_of(instruction)
        storage = subject.memory.number_of(int(access.addresses[access.active].flat[0]))
        whole = _touched(access)
        sectors = None
        if path not in PAST_L1 and kind != "atomic":
            sectors = next(fetched)
            if kind == "load":
                hit[access.place][0] += len(sectors)
                hit[access.place][1] += len(np.unique(whole.addresses // SECTOR_BYTES))
        part = position.region, position.piece
        key = Sort(part, phases.of(part, access.place, kind != "load"), storage, kind, path)
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


def _touched(access: Accessed) -> Touched:
    return Touched(access.addresses[access.active], access.size_bytes)


def join_prologues(one: OneCta, made: dict[Sort, dict[tuple[int, ...], list[Made]]]) -> dict[Sort, int]:
    """Make copies ahead of a loop its first iterations. Returns: how many iterations ahead each use of a loop runs."""
    children = children_of(one.ways)
    found: dict[Sort, int] = {}
    for key in [key for key in made if key.path != "plain" and key.kind == "load"]:
        region, piece = key.part
        if piece >= len(children[region]):
            continue
        inner = children[region][piece]
        into = next(
            (k for k in made if k.part[0] == inner and (k.storage, k.path, k.kind) == (key.storage, key.path, "load")),
            None,
        )
        if into is None or into in found:
            continue
        loop = made[into]
        first = min(loop)
        each = len(loop[first])
        deep = {len(before) // each for before in made[key].values() if len(before) % each == 0}
        if len(deep) != 1 or not (depth := deep.pop()):
            continue
        joined: dict[tuple[int, ...], list[Made]] = defaultdict(list)
        for trips, before in made[key].items():
            for number, copy in enumerate(before):
                joined[(*trips, number // each)].append(copy)
        for trips, copies in loop.items():
            joined[(*trips[:-1], trips[-1] + depth)] += copies
        made[into] = joined
        found[into] = depth
        del made[key]
    return found
