"""What a part of the code does to one storage, over all iterations and all CTAs of a class: a *use*.

A use is a set of runs that moves on by a stride with every iteration, and begins where each CTA has it begin.
Iterations that touch other sets (the last of a row, a diagonal) are uses of their own, for a stretch of iterations.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...limits import SECTOR_BYTES
from ..cta.bases import Seen
from ..cta.given import Subject
from ..cta.one_cta import OneCta
from ..values import Array
from .courses import At, Course, Iterations, begins, course_of, first_iterations, moving_together, was_seen
from .footprints import Runs, layers_of, moved, runs_of, whole_sectors
from .listed_boxes import ListedBoxes, boxes_of
from .listing import Listing
from .phases import Part, Phases
from .sorted_accesses import Made, Prologue, Sort, join_prologues, sorted_accesses

MOST_STRETCHES = 6
"""Stretches of like iterations of a loop that become loops of their own; beyond it each iteration is listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What a phase of the code does to a storage.

    Args:
        part, phase: where; storage: number; kind: load, store, atomic or reduction; path: as in `program.Tile`.
        runs: relative to the base; base: in each CTA of the class, where the first iteration has it, int64 (CTAs,) [B];
        strides: from iteration to iteration of each loop around, the outermost first [B].
        first, last: iterations of the innermost loop in which it is done; last: -1: to the end.
        ahead: iterations that it is done before its own.
        zero_bytes: that come with it as rows of boxes outside of their tensor, in one iteration;
        uneven: where no strides tell it: what it touches, iteration by iteration; listings: the same as lists.
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
    zero_bytes: int = 0
    uneven: "Uneven | None" = None
    listings: tuple[Listing, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Uneven:
    """What a use touches in each iteration of the loops around it, in order: of all, or of all but the innermost.

    Args:
        origins: where an iteration lies in each CTA, int64 (CTAs, iterations) [B]; shapes: runs there, of each;
        sizes: iterations of each of these loops, the outermost first;
        stride: of the innermost loop, which goes on evenly from each of them [B]; None: it is one of them;
        boxes: instead, boxes of each CTA, clipped as they are there.
    """

    origins: Array
    shapes: tuple[Runs, ...]
    sizes: tuple[int, ...]
    stride: int | None = None
    boxes: ListedBoxes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found of a class of CTAs.

    Args:
        uses: all; in_l1: place of a load -> share of its bytes that L1 serves; notes: remarks, one line each;
        uneven: regions of which all iterations have to be seen, as something goes on unevenly there;
        listed: places of copies by TMA that do.
    """

    uses: list[Use]
    in_l1: Mapping[int, float]
    notes: list[str]
    uneven: frozenset[int]
    listed: frozenset[int]


def uses_of(
    subject: Subject,
    one: OneCta,
    phases: Phases,
    seen: Mapping[int, Seen],
    rank: int,
    ctas: int,
    trips: Mapping[int, int],
    room_bytes: float,
    prologues: Mapping[Sort, Prologue],
    whole: frozenset[int] = frozenset(),
    scattered: frozenset[int] = frozenset(),
) -> Found:
    """All uses of a class of CTAs.

    Args:
        one: the CTA that was followed; seen: where accesses of all CTAs begin; rank: of `one` among these `ctas`;
        trips: region -> iterations of a stay, in `one`; room_bytes: of L1, for each CTA of an SM;
        prologues: what runs ahead of itself; whole: regions of which all iterations were seen in all CTAs;
        scattered: places whose uses are made elsewhere.
    """
    made, in_l1 = sorted_accesses(subject, one, phases, seen, rank, room_bytes)
    if scattered:
        made = _without(made, scattered)
    join_prologues(made, prologues)
    notes: list[str] = []
    found: list[Use] = []
    uneven: set[int] = set()
    listed: set[int] = set()
    groups = [
        (key, group)
        for key, every in made.items()
        for group in ([every] if key in prologues else moving_together(every, seen, rank))
    ]
    for key, iterations in groups:
        course = course_of(iterations, seen, prologues[key].depth if key in prologues else 0)
        if not course.even and not course.restarts:
            uneven.add(key.part[0])
            listed |= {copy.place for copies in iterations.values() for copy in copies if copy.box is not None}
        found += _uses(subject, key, iterations, seen, rank, ctas, trips, course, key.part[0] in whole, notes)
    return Found(uses=found, in_l1=in_l1, notes=notes, uneven=frozenset(uneven), listed=frozenset(listed))


def _without(made: Mapping[Sort, Mapping[At, list[Made]]], places: frozenset[int]) -> dict[Sort, dict[At, list[Made]]]:
    """Accesses, but for those at some places."""
    found: dict[Sort, dict[At, list[Made]]] = {}
    for key, iterations in made.items():
        kept = {at: [access for access in own if access.place not in places] for at, own in iterations.items()}
        if any(kept.values()):
            found[key] = {at: own for at, own in kept.items() if own}
    return found


def _uses(
    subject: Subject,
    key: Sort,
    iterations: Mapping[tuple[int, ...], list[Made]],
    seen: Mapping[int, Seen],
    rank: int,
    ctas: int,
    trips: Mapping[int, int],
    course: Course,
    listed: bool,
    notes: list[str],
) -> list[Use]:
    name = subject.memory.storages[key.storage].name if key.storage in subject.memory.storages else "?"
    order = sorted(iterations)
    begin = order[0]
    ahead, strides, moves = course.ahead, course.strides, course.moves
    if not course.even and not course.restarts and not listed:
        line = subject.place_text(iterations[begin][0].place)
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
    starts = _starts(iterations[begin], seen, rank, ctas)
    unlike = not course.even and not course.restarts
    found: list[Use] = []
    boxed = strides and unlike and listed and iterations[begin][0].box is not None
    for runs_at in layers.values() if not boxed else list(layers.values())[:1]:
        stretches = _stretches(runs_at, len(strides))
        slivers = any(stride % SECTOR_BYTES for stride in strides)
        slivers = slivers and max(length for _, _, runs in stretches for _, length in runs) < SECTOR_BYTES
        uneven = None
        each = (unlike and listed) or len(stretches) > MOST_STRETCHES or slivers or not _rounds_are_alike(runs_at)
        if strides and each:
            uneven = _uneven(runs_at, iterations, course, seen, rank, ctas, trips[key.part[0]])
            if boxed:
                uneven = replace(uneven, boxes=boxes_of(iterations, uneven.sizes, seen, rank))
            stretches = [(0, -1, max(runs_at.values(), key=list(runs_at.values()).count))]
        for first, last, runs in stretches:
            zero_bytes = _zero_bytes(iterations[min(at for at, own in runs_at.items() if own == runs)])
            runs = _in_sectors(runs, starts, strides)
            origin = runs[0][0]
            zero = origin - sum(step * then for step, then in zip(strides, begin, strict=True))
            rounds = None
            if course.restarts:
                rounds = _rounds(moved(runs, -origin), origin, iterations, course, seen, rank, ctas)
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
                    zero_bytes=zero_bytes,
                    uneven=uneven or rounds,
                )
            )
    if not strides:
        return found
    total = trips[key.part[0]]
    whole = [replace(use, last=-1 if use.last >= total else use.last) for use in found]
    if ahead:
        # Of a pipelined loop the copies that are masked at its end are those of iterations beyond it.
        return whole if len(whole) > 1 else [_to_the_end(use, total) for use in whole]
    return whole


def _to_the_end(use: Use, total: int) -> Use:
    """A use of all iterations, where only as many are missing at their end as it runs ahead. Args: total: of them."""
    return replace(use, first=0, last=-1) if use.last < 0 or use.last + use.ahead >= total else use


def _in_sectors(runs: Runs, starts: Array, strides: tuple[int, ...]) -> Runs:
    """Runs of whole sectors, which is what moves, where every CTA and iteration has them at the same bytes of these."""
    if (starts % SECTOR_BYTES).any() or any(stride % SECTOR_BYTES for stride in strides):
        return runs
    return tuple(
        (start - start % SECTOR_BYTES, start % SECTOR_BYTES + length + -(start + length) % SECTOR_BYTES)
        for start, length in runs
    )


def _starts(made: Sequence[Made], seen: Mapping[int, Seen], rank: int, ctas: int) -> Array:
    """How much further than in the CTA that was followed an iteration begins in each, int64 (CTAs,) [B].

    What happens in iterations that were not looked at in all CTAs is taken to happen at the same place.
    """
    if not was_seen(made, seen):
        return np.zeros(ctas, dtype=np.int64)
    starts = begins(made, seen)
    found: Array = starts - starts[rank]
    return found


def _zero_bytes(made: Sequence[Made]) -> int:
    """Rows of boxes that lie outside of their tensor [B]."""
    boxes = [(copy.box.descriptor.box_rows, copy.touched[0]) for copy in made if copy.box is not None]
    return sum((rows - inside.addresses.size) * whole_sectors(inside.size) for rows, inside in boxes)


def _rounds_are_alike(runs_at: Mapping[At, Runs]) -> bool:
    """Whether the innermost loop does the same in each round of the loops around it."""
    rounds: dict[At, list[tuple[int, Runs]]] = defaultdict(list)
    for at in sorted(runs_at):
        if at:
            rounds[at[:-1]].append((at[-1], runs_at[at]))
    first = next(iter(rounds.values()), [])
    return all(own == first for own in rounds.values())


def _rounds(
    runs: Runs, origin: int, iterations: Iterations, course: Course, seen: Mapping[int, Seen], rank: int, ctas: int
) -> Uneven:
    """Where each round of the loops around begins. Args: runs: of an iteration; origin: of the first one [B]."""
    firsts = first_iterations(iterations)
    sizes = tuple(max(at[axis] for at in firsts) + 1 for axis in range(len(course.strides) - 1))
    stride = course.strides[-1]
    origins, shapes = [], []
    for around in np.ndindex(*sizes):
        at = firsts.get(around, min(iterations))
        origins.append(_starts(iterations[at], seen, rank, ctas) + origin + course.moves[at] - stride * at[-1])
        shapes.append(runs if around in firsts else ())
    return Uneven(origins=np.stack(origins, axis=1), shapes=tuple(shapes), sizes=sizes, stride=stride)


def _signature(made: Sequence[Made], by: int) -> bytes:
    """Equal where the same bytes are touched, and fetched, relative to where the iteration stands."""
    parts = [part.addresses - by for copy in made for part in copy.touched]
    parts += [copy.sectors * 32 - by for copy in made if copy.sectors is not None]
    sizes = [np.array([part.size, len(part.addresses)]) for copy in made for part in copy.touched]
    return b"".join(part.tobytes() for part in (*sizes, *parts))


def _layers(made: Sequence[Made]) -> list[Runs]:
    parts = [part for copy in made for part in copy.touched]
    if made[0].sectors is None:
        return layers_of(parts)
    sectors = np.unique(np.concatenate([copy.sectors for copy in made if copy.sectors is not None]))
    return [runs_of(parts, sectors)]


def _uneven(
    runs_at: Mapping[tuple[int, ...], Runs],
    iterations: Mapping[tuple[int, ...], list[Made]],
    course: Course,
    seen: Mapping[int, Seen],
    rank: int,
    ctas: int,
    length: int,
) -> Uneven:
    """What is touched in each iteration, nothing in some. Args: length: iterations of the innermost loop."""
    begin = min(runs_at)
    sizes = (*(max(at[axis] for at in iterations) + 1 for axis in range(len(begin) - 1)), length)
    origins, shapes = [], []
    for at in np.ndindex(*sizes):
        made = iterations.get(at)
        starts = _starts(made or iterations[min(iterations)], seen, rank, ctas)
        origins.append(starts + (course.moves[at] if made else 0))
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
