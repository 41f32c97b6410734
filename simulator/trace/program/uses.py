"""What a part of the code does to one storage, over all iterations and all CTAs of a class: a *use*.

A use is a set of runs that moves on by a stride with every iteration, and begins where each CTA has it begin.
Iterations that touch other sets (the last of a row, a diagonal) are uses of their own, for a stretch of iterations.
Copies ahead of a loop that copies the same storage are its first iterations: they tell how far ahead it runs.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...limits import SECTOR_BYTES
from ...sass.decode import Instruction
from ..accesses import COPY, bytes_of
from ..values import Array
from .bases import Seen
from .footprints import Runs, Touched, layers_of, moved, runs_of
from .given import Subject
from .in_l1 import Passing, missed
from .listing import Listing
from .one_cta import Accessed, OneCta, Position, children_of
from .phases import Part, Phases
from .sites import STORES, is_atomic

MOST_STRETCHES = 6
"""Stretches of like iterations of a loop that become loops of their own; beyond it each iteration is listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What a phase of the code does to a storage.

    Args:
        part, phase: where; storage: number; kind: load, store or atomic; path: as in `program.Tile`.
        runs: relative to the base; base: in each CTA of the class, where the first iteration has it, int64 (CTAs,) [B];
        strides: from iteration to iteration of each loop around, the outermost first [B].
        first, last: iterations of the innermost loop in which it is done; last: -1: to the end.
        ahead: iterations that it is done before its own.
        uneven: where no strides tell it: what it touches, iteration by iteration; listing: the same as lists.
    """

    part: Part
    phase: int
    storage: int
    kind: str
    path: str
    runs: Runs
    base: Array
    strides: tuple[int, ...]
    first: int = 0
    last: int = -1
    ahead: int = 0
    uneven: "Uneven | None" = None
    listing: Listing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uneven:
    """What a use touches in each iteration of all loops around it, in order.

    Args:
        origins: where an iteration lies in each CTA, int64 (CTAs, iterations) [B]; shapes: runs there, of each;
        sizes: iterations of each loop, the outermost first.
    """

    origins: Array
    shapes: tuple[Runs, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Key:
    part: Part
    phase: int
    storage: int
    kind: str
    path: str


@dataclass(slots=True)
class _Made:
    """An access in one iteration: what it touches, and what of it has to be fetched."""

    place: int
    position: Position
    touched: tuple[Touched, ...]
    sectors: Array | None
    anchor: int


def uses_of(
    subject: Subject,
    one: OneCta,
    phases: Phases,
    seen: Mapping[int, Seen],
    rank: int,
    trips: Mapping[int, int],
    room_bytes: float,
    whole: frozenset[int] = frozenset(),
) -> tuple[list[Use], dict[int, float], list[str], frozenset[int]]:
    """All uses of a class of CTAs.

    Args:
        one: the CTA that was followed; seen: where accesses of all CTAs begin; rank: of `one` among these;
        trips: region -> iterations of a stay, in `one`; room_bytes: of L1, for each CTA of an SM;
        whole: regions of which all iterations were seen in all CTAs.

    Returns:
        Uses; place of a load -> share of its bytes that L1 serves; remarks, one line each; regions of which all
        iterations have to be seen, as something goes on unevenly there.
    """
    made, in_l1 = _made(subject, one, phases, room_bytes)
    ahead = _join_prologues(one, made)
    notes: list[str] = []
    found: list[Use] = []
    uneven: set[int] = set()
    for key, iterations in made.items():
        course = _course(iterations, seen, ahead.get(key, 0))
        if not course.even:
            uneven.add(key.part[0])
        found += _uses(subject, key, iterations, seen, rank, trips, course, key.part[0] in whole, notes)
    return found, in_l1, notes, frozenset(uneven)


def kind_of(instruction: Instruction) -> str:
    """load, store or atomic."""
    return "atomic" if is_atomic(instruction) else "store" if instruction.family in STORES else "load"


def path_of(instruction: Instruction) -> str:
    """How an access travels, as in `program.Tile`."""
    if instruction.family != COPY:
        return "plain"
    return "async" if "BYPASS" in instruction.modifiers or "128" in instruction.modifiers else "cached"


def width_of(instruction: Instruction) -> int:
    """What a lane moves, vectors of atomics included [B]."""
    vector = 4 if any(one.endswith("x4") for one in instruction.modifiers) else 1
    vector = 2 if any(one.endswith("x2") for one in instruction.modifiers) else vector
    return bytes_of(instruction) * vector


def _made(
    subject: Subject, one: OneCta, phases: Phases, room_bytes: float
) -> tuple[dict[_Key, dict[tuple[int, ...], list[_Made]]], dict[int, float]]:
    code = subject.flow.instructions
    through_l1 = []
    for access in one.accesses:
        position, kind = one.positions[access.visit], kind_of(code[access.place])
        if path_of(code[access.place]) != "async" and kind != "atomic":
            part = position.region, position.piece
            iteration = part, phases.of(part, access.place, kind != "load"), kind, position.trips
            through_l1.append(Passing(_touched(access, code), iteration, kind == "load"))
    fetched = iter(missed(through_l1, room_bytes))
    made: dict[_Key, dict[tuple[int, ...], list[_Made]]] = defaultdict(lambda: defaultdict(list))
    hit: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for access in one.accesses:
        instruction, position = code[access.place], one.positions[access.visit]
        path, kind = path_of(instruction), kind_of(instruction)
        storage = subject.memory.number_of(int(access.addresses[access.active].flat[0]))
        whole = _touched(access, code)
        sectors = None
        if path != "async" and kind != "atomic":
            sectors = next(fetched)
            if kind == "load":
                hit[access.place][0] += len(sectors)
                hit[access.place][1] += len(np.unique(whole.addresses // 32))
        part = position.region, position.piece
        key = _Key(part, phases.of(part, access.place, kind != "load"), storage, kind, path)
        touched: tuple[Touched, ...] = (whole,)
        if path == "async":
            size = width_of(instruction)
            taking = [
                (row, active) for row, active in zip(access.addresses, access.active, strict=True) if active.any()
            ]
            touched = tuple(Touched(row[active], size) for row, active in taking)
        made[key][position.trips].append(_Made(access.place, position, touched, sectors, int(access.addresses.flat[0])))
    shares = {place: max(0.0, 1.0 - kept / whole) for place, (kept, whole) in hit.items() if whole}
    return made, {place: share for place, share in shares.items() if share > 0}


def _touched(access: Accessed, code: Sequence[Instruction]) -> Touched:
    return Touched(access.addresses[access.active], width_of(code[access.place]))


def _join_prologues(one: OneCta, made: dict[_Key, dict[tuple[int, ...], list[_Made]]]) -> dict[_Key, int]:
    """Make copies ahead of a loop its first iterations. Returns: how many iterations ahead each use of a loop runs."""
    children = children_of(one.ways)
    found: dict[_Key, int] = {}
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
        joined: dict[tuple[int, ...], list[_Made]] = defaultdict(list)
        for trips, before in made[key].items():
            for number, copy in enumerate(before):
                joined[(*trips, number // each)].append(copy)
        for trips, copies in loop.items():
            joined[(*trips[:-1], trips[-1] + depth)] += copies
        made[into] = joined
        found[into] = depth
        del made[key]
    return found


def _uses(
    subject: Subject,
    key: _Key,
    iterations: Mapping[tuple[int, ...], list[_Made]],
    seen: Mapping[int, Seen],
    rank: int,
    trips: Mapping[int, int],
    course: "_Course",
    listed: bool,
    notes: list[str],
) -> list[Use]:
    name = subject.memory.storages[key.storage].name if key.storage in subject.memory.storages else "?"
    order = sorted(iterations)
    begin = order[0]
    ahead, strides, moves = course.ahead, course.strides, course.moves
    line = subject.place_text(iterations[begin][0].place)
    if not course.even and not listed:
        notes.append(f"{line}: {key.kind} of {name} does not move on evenly; taken as if it did")
    layers: dict[int, dict[tuple[int, ...], Runs]] = defaultdict(dict)
    known: dict[bytes, list[Runs]] = {}
    for at in order:
        own = _signature(iterations[at], moves[at])
        if own not in known:
            known[own] = [moved(runs, -moves[at]) for runs in _layers(iterations[at])]
        for layer, runs in enumerate(known[own]):
            if runs:
                layers[layer][at] = runs
    starts = _starts(iterations[begin], seen, rank)
    found: list[Use] = []
    for runs_at in layers.values():
        stretches = _stretches(runs_at, len(strides))
        slivers = any(stride % SECTOR_BYTES for stride in strides)
        slivers = slivers and max(length for _, _, runs in stretches for _, length in runs) < SECTOR_BYTES
        uneven = None
        if strides and ((not course.even and listed) or len(stretches) > MOST_STRETCHES or slivers):
            uneven = _uneven(runs_at, iterations, course, seen, rank, trips[key.part[0]])
            stretches = [(0, -1, max(runs_at.values(), key=list(runs_at.values()).count))]
        for first, last, runs in stretches:
            origin = runs[0][0]
            zero = origin - sum(step * then for step, then in zip(strides, begin, strict=True))
            found.append(
                Use(
                    part=key.part,
                    phase=key.phase,
                    storage=key.storage,
                    kind=key.kind,
                    path=key.path,
                    runs=moved(runs, -origin),
                    base=starts + zero,
                    strides=strides,
                    first=first,
                    last=last,
                    ahead=ahead,
                    uneven=uneven,
                )
            )
    if not strides:
        return found
    total = trips[key.part[0]]
    whole = [replace(use, last=-1 if use.last >= total else use.last) for use in found]
    if ahead:
        # The copies of a pipelined loop are of all of its iterations, whatever is masked at its end.
        return whole if len(whole) > 1 else [replace(use, first=0, last=-1) for use in whole]
    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """How a use goes on from iteration to iteration.

    Args:
        ahead: iterations that it is done before its own; strides: of each loop around [B];
        moves: iteration -> how far it is from the first [B]; even: whether that is strides alone, in all CTAs.
    """

    ahead: int
    strides: tuple[int, ...]
    moves: Mapping[tuple[int, ...], int]
    even: bool


def _course(iterations: Mapping[tuple[int, ...], list[_Made]], seen: Mapping[int, Seen], ahead: int) -> _Course:
    begin = min(iterations)
    anchors = {at: _anchor(made, ahead > 0) for at, made in iterations.items()}
    strides = _strides(anchors, begin)
    moves = {at: sum(step * (now - then) for step, now, then in zip(strides, at, begin, strict=True)) for at in anchors}
    even = all(anchors[at] - anchors[begin] == moves[at] for at in anchors)
    if not even:
        moves = {at: anchor - anchors[begin] for at, anchor in anchors.items()}
    for made in iterations.values() if even and not ahead and begin else ():
        own = seen[made[0].place].addresses
        first, second = made[0].position.trips, (*made[0].position.trips[:-1], made[0].position.trips[-1] + 1)
        if first in own and second in own and second in iterations and np.ptp(own[second] - own[first]):
            return _Course(ahead=ahead, strides=strides, moves=moves, even=False)
    return _Course(ahead=ahead, strides=strides, moves=moves, even=even)


def _starts(made: Sequence[_Made], seen: Mapping[int, Seen], rank: int) -> Array:
    """How much further than in the CTA that was followed an iteration begins in each, int64 (CTAs,) [B]."""
    addresses = seen[made[0].place].addresses
    at = made[0].position.trips
    starts = addresses[at] if at in addresses else addresses[min(addresses)]
    found: Array = starts - starts[rank]
    return found


def _anchor(made: Sequence[_Made], pipelined: bool) -> int:
    """What moves on with iterations: the first thread's address; of copies in several places, the lowest."""
    if not pipelined:
        return made[0].anchor
    return min(int(part.addresses.min()) for copy in made for part in copy.touched)


def _strides(anchors: Mapping[tuple[int, ...], int], begin: tuple[int, ...]) -> tuple[int, ...]:
    found = []
    for axis in range(len(begin)):
        along = sorted(at for at in anchors if at[:axis] == begin[:axis] and at[axis + 1 :] == begin[axis + 1 :])
        found.append(
            (anchors[along[1]] - anchors[along[0]]) // (along[1][axis] - along[0][axis]) if len(along) > 1 else 0
        )
    return tuple(found)


def _signature(made: Sequence[_Made], by: int) -> bytes:
    """Equal where the same bytes are touched, and fetched, relative to where the iteration stands."""
    parts = [part.addresses - by for copy in made for part in copy.touched]
    parts += [copy.sectors * 32 - by for copy in made if copy.sectors is not None]
    sizes = [np.array([part.size, len(part.addresses)]) for copy in made for part in copy.touched]
    return b"".join(part.tobytes() for part in (*sizes, *parts))


def _layers(made: Sequence[_Made]) -> list[Runs]:
    parts = [part for copy in made for part in copy.touched]
    if made[0].sectors is None:
        return layers_of(parts)
    sectors = np.unique(np.concatenate([copy.sectors for copy in made if copy.sectors is not None]))
    return [runs_of(parts, sectors)]


def _uneven(
    runs_at: Mapping[tuple[int, ...], Runs],
    iterations: Mapping[tuple[int, ...], list[_Made]],
    course: "_Course",
    seen: Mapping[int, Seen],
    rank: int,
    length: int,
) -> Uneven:
    """What is touched in each iteration, nothing in some. Args: length: iterations of the innermost loop."""
    begin = min(runs_at)
    sizes = (*(max(at[axis] for at in iterations) + 1 for axis in range(len(begin) - 1)), length)
    origins, shapes = [], []
    for at in np.ndindex(*sizes):
        made = iterations.get(at)
        origins.append(_starts(made or iterations[min(iterations)], seen, rank) + (course.moves[at] if made else 0))
        shapes.append(runs_at.get(at, ()))
    return Uneven(origins=np.stack(origins, axis=1), shapes=tuple(shapes), sizes=sizes)


def _stretches(runs_at: Mapping[tuple[int, ...], Runs], depth: int) -> list[tuple[int, int, Runs]]:
    """Stretches of iterations of the innermost loop that touch the same: from, to before, what."""
    if depth == 0:
        return [(0, -1, next(iter(runs_at.values())))]
    inner: dict[int, Runs] = {}
    for at in sorted(runs_at):
        inner.setdefault(at[-1], runs_at[at])
    found: list[tuple[int, int, Runs]] = []
    for number, runs in sorted(inner.items()):
        if found and found[-1][1] == number and found[-1][2] == runs:
            found[-1] = found[-1][0], number + 1, runs
        else:
            found.append((number, number + 1, runs))
    return found
