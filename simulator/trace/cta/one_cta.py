"""One CTA, all of its threads: every access that it makes, with the addresses of its lanes, and where it stood then."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...limits import WARP_THREADS
from ..accesses import COPY
from ..executions import Order, run_through, special_registers
from ..jumps import prepare
from ..operands import Step, Threads
from ..paths import ControlPath, CtaPaths, LoopVisit, find_paths
from ..tma.boxes import BOX_LOAD, Boxes
from ..tma.descriptor import Descriptor
from ..values import Array
from .doubts import Doubts
from .given import Refused, Subject
from .kinds import width_of
from .sites import Slice, noting

MOST_ACCESSES = 1 << 20
"""Accesses of warps that are followed in one CTA, each with the addresses of its lanes."""


class Box(NamedTuple):
    """A box of a tensor. Args: place: coordinates of its corner, the innermost first; descriptor: of the tensor."""

    place: tuple[int, ...]
    descriptor: Descriptor


@dataclass(frozen=True, slots=True)
class Accessed:
    """An execution of an access.

    Args:
        visit: number of the block's execution; place: of the instruction in the code;
        addresses: int64 (warps, lanes); active: which of them take part; of a copy by TMA (1, rows) of a box, all;
        size_bytes: what lies at each address [B];
        anchor: address that moves on with iterations; box: that is copied by TMA.
    """

    visit: int
    place: int
    addresses: Array
    active: Array
    size_bytes: int
    anchor: int
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy to shared memory, even one of which all threads are masked.

    Args:
        visit, place: as of `Accessed`; storage: number of the one that the first thread's address names.
    """

    visit: int
    place: int
    storage: int


@dataclass(frozen=True, slots=True)
class Position:
    """Where in the program an execution of a block stands.

    Args:
        region: region of the code, -1 outside; piece: how many of the regions inside it have begun before, in order;
        trips: number of the iteration of each region around it, the outermost first.
    """

    region: int
    piece: int
    trips: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCta:
    """A CTA that was followed.

    Args:
        cta: its number; paths: per warp the blocks that it runs, in order; ways: the same, as loops;
        accesses: in order; copies: those among them, and masked ones; positions: by number of the visit;
        issued: block -> times that warps of the CTA issue it; rejoined: block -> times that its BSYNC is, besides.
    """

    cta: int
    paths: tuple[tuple[int, ...], ...]
    ways: CtaPaths
    accesses: tuple[Accessed, ...]
    copies: tuple[Copied, ...]
    positions: tuple[Position, ...]
    issued: Array
    rejoined: Array


def follow_cta(subject: Subject, found: Slice, cta: int, doubts: Doubts) -> OneCta:
    """Follow all threads of a CTA through the code. Raises: as `follow_ctas`."""
    return follow_ctas(subject, found, [cta], doubts)[0]


def follow_ctas(subject: Subject, found: Slice, ctas: Sequence[int], doubts: Doubts) -> list[OneCta]:
    """Follow all threads of some CTAs through the code, each as if it were alone. Args: ctas: their numbers.

    Raises:
        Refused: an address or a branch depends on what is not known.
        ValueError: its loops cannot be told apart; one line.
    """
    if found.copying and len(ctas) > 1:  # descriptors are those of one CTA
        return [follow_cta(subject, found, cta, doubts) for cta in ctas]
    warps = subject.called.warps
    notebook = _Notebook(subject, ctas)
    steps = noting(subject, found, doubts, notebook.note)
    code = prepare(
        subject.flow,
        found.places,
        {place: notebook.watched(step) for place, step in steps.items()},
        doubts.settle,
    )
    special = special_registers(subject.called.grid, np.array(ctas), warps)
    threads = Threads(constants=subject.constants, special=special)
    counts, rejoins = run_through(subject.flow, code, threads, len(ctas), warps, notebook.order)
    return [notebook.one(number, counts[number], rejoins[number]) for number in range(len(ctas))]


class _Notebook:
    """What CTAs do, each for itself, while they are followed. `order`: blocks that are run, and by which warps."""

    def __init__(self, subject: Subject, ctas: Sequence[int]) -> None:
        self.order: Order = []
        self._subject, self._ctas = subject, ctas
        self._accesses: list[list[Accessed]] = [[] for _ in ctas]
        self._copies: list[list[Copied]] = [[] for _ in ctas]
        self._mask: Array = np.ones((1, 1, 1), dtype=np.bool_)
        self._visits, self._counted = np.zeros(len(ctas), dtype=np.int64), 0

    def watched(self, step: Step) -> Step:
        """A step that says who runs it."""

        def run(threads: Threads, mask: Array) -> None:
            self._mask = mask
            step(threads, mask)

        return run

    def note(self, place: int, addresses: Array, active: Array, boxes: Boxes | None) -> None:
        """Take an access down: as `sites.Note`."""
        shape = (len(self._ctas), self._subject.called.warps, WARP_THREADS)
        for _, present in self.order[self._counted :]:
            self._visits += present.any(axis=(1, 2))
        self._counted = len(self.order)
        here = np.broadcast_to(self._mask.any(axis=(1, 2)), shape[:1])
        for number in np.flatnonzero(here).tolist():
            self._check(number)
            visit = int(self._visits[number]) - 1
            if boxes is not None:
                self._note_boxes(visit, place, active, boxes)
            else:
                taking, where = np.broadcast_to(active, shape)[number], np.broadcast_to(addresses, shape)[number]
                self._note_lanes(number, visit, place, where, taking)

    def _check(self, number: int) -> None:
        called = self._subject.called
        if len(self._accesses[number]) > MOST_ACCESSES // called.warps:
            raise Refused(
                f"kernel {called.name}: CTA {self._ctas[number]} makes more than {MOST_ACCESSES // called.warps} "
                "accesses to memory: too many to follow"
            )

    def _note_boxes(self, visit: int, place: int, active: Array, boxes: Boxes) -> None:
        copying = np.flatnonzero(np.broadcast_to(active, (1, self._subject.called.warps, 1)))
        self._accesses[0].extend(_box(boxes, int(warp), visit, place) for warp in copying)
        if self._subject.flow.instructions[place].family == BOX_LOAD:
            storage = self._subject.memory.number_of(int(boxes.descriptor.address.flat[0]))
            self._copies[0].extend(Copied(visit, place, storage) for _ in copying)

    def _note_lanes(self, number: int, visit: int, place: int, where: Array, taking: Array) -> None:
        first, instruction = int(where.flat[0]), self._subject.flow.instructions[place]
        if instruction.family == COPY:
            self._copies[number].append(Copied(visit, place, self._subject.memory.number_of(first)))
        if taking.any():
            access = Accessed(visit, place, where, taking.copy(), width_of(instruction), first)
            self._accesses[number].append(access)

    def one(self, number: int, counts: Array, rejoins: Array) -> OneCta:
        """A CTA that has ended. Args: counts, rejoins: of its warps, int64 (warps, blocks)."""
        warps = self._subject.called.warps
        paths: list[list[int]] = [[] for _ in range(warps)]
        first: list[tuple[int, int]] = []
        for block, present in self.order:
            own = np.flatnonzero(np.broadcast_to(present[number if len(present) > 1 else 0], (warps, 1)))
            if len(own):
                first.append((int(own[0]), len(paths[own[0]])))
            for warp in own:
                paths[warp].append(block)
        same: dict[tuple[int, ...], tuple[int, ...]] = {}
        alike = tuple(same.setdefault(tuple(path), tuple(path)) for path in paths)
        ways = find_paths(self._subject.flow, alike)
        places = {warp: list(positions_of(ways, warp)) for warp in {warp for warp, _ in first}}
        return OneCta(
            cta=self._ctas[number],
            paths=alike,
            ways=ways,
            accesses=tuple(self._accesses[number]),
            copies=tuple(self._copies[number]),
            positions=tuple(places[warp][at] for warp, at in first),
            issued=counts.sum(axis=0),
            rejoined=rejoins.sum(axis=0),
        )


def _box(boxes: Boxes, warp: int, visit: int, place: int) -> Accessed:
    """The box that a warp copies, as an access of its rows."""
    rows, width = boxes.rows(0, warp)
    return Accessed(
        visit=visit,
        place=place,
        addresses=rows[None, :],
        active=np.ones((1, len(rows)), dtype=np.bool_),
        size_bytes=width,
        anchor=boxes.corner(0, warp),
        box=Box(place=boxes.place(0, warp), descriptor=boxes.descriptor),
    )


def positions_of(ways: CtaPaths, warp: int) -> Iterator[Position]:
    """Positions of all blocks that a warp runs, in order."""
    regions = ways.region_of[warp]
    children = children_of(ways)

    def walk(items: ControlPath, region: int, trips: tuple[int, ...]) -> Iterator[Position]:
        piece = 0
        begun: Counter[int] = Counter()
        for item in items:
            if not isinstance(item, LoopVisit):
                yield Position(region, piece, trips)
                continue
            inner = regions[item.loop]
            for number, one in enumerate(item.iterations, begun[inner]):
                yield from walk(one, inner, (*trips, number))
            begun[inner] += len(item.iterations)
            piece = max(piece, children[region].index(inner) + 1)

    return walk(ways.warps[warp], -1, ())


def blocks_of(ways: CtaPaths, warp: int) -> Iterable[tuple[int, Position]]:
    """Blocks that a warp runs, in order, each with where it stands."""
    return zip((block for block, _ in ways.executed(warp)), positions_of(ways, warp), strict=True)


def children_of(ways: CtaPaths) -> dict[int, list[int]]:
    """Region, or -1 -> regions directly inside, in order."""
    found: dict[int, list[int]] = {number: [] for number in range(-1, len(ways.regions))}
    for number, region in enumerate(ways.regions):
        found[region.parent].append(number)
    return found
