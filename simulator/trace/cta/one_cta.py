"""One CTA, all of its threads: every access that it makes, with the addresses of its lanes, and where it stood then."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...limits import WARP_THREADS
from ..accesses import COPY
from ..executions import Order, run_through, special_registers
from ..jumps import prepare
from ..operands import Threads
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
    """Follow all threads of a CTA through the code.

    Raises:
        Refused: an address or a branch depends on what is not known.
        ValueError: its loops cannot be told apart; one line.
    """
    called = subject.called
    order: Order = []
    accesses: list[Accessed] = []
    copies: list[Copied] = []
    shape = (1, called.warps, WARP_THREADS)

    def note(place: int, addresses: Array, active: Array, boxes: Boxes | None) -> None:
        if len(accesses) > MOST_ACCESSES // called.warps:
            raise Refused(
                f"kernel {called.name}: CTA {cta} makes more than {MOST_ACCESSES // called.warps} accesses to memory: "
                "too many to follow"
            )
        if boxes is not None:
            copying = np.flatnonzero(np.broadcast_to(active, (1, called.warps, 1)))
            accesses.extend(_box(boxes, int(warp), len(order) - 1, place) for warp in copying)
            if subject.flow.instructions[place].family == BOX_LOAD:
                storage = subject.memory.number_of(int(boxes.descriptor.address.flat[0]))
                copies.extend(Copied(len(order) - 1, place, storage) for _ in copying)
            return
        taking = np.broadcast_to(active, shape)[0]
        if subject.flow.instructions[place].family == COPY:
            copies.append(Copied(len(order) - 1, place, subject.memory.number_of(int(addresses.flat[0]))))
        if taking.any():
            where = np.broadcast_to(addresses, shape)[0]
            size = width_of(subject.flow.instructions[place])
            accesses.append(Accessed(len(order) - 1, place, where, taking.copy(), size, int(where.flat[0])))

    code = prepare(subject.flow, found.places, noting(subject, found, doubts, note), doubts.settle)
    special = special_registers(called.grid, np.array([cta]), called.warps)
    threads = Threads(constants=subject.constants, special=special)
    counts, rejoins = run_through(subject.flow, code, threads, 1, called.warps, order)
    paths: list[list[int]] = [[] for _ in range(called.warps)]
    first: list[tuple[int, int]] = []
    for block, present in order:
        warps = np.flatnonzero(np.broadcast_to(present, (1, called.warps, 1)))
        first.append((int(warps[0]), len(paths[warps[0]])))
        for warp in warps:
            paths[warp].append(block)
    same: dict[tuple[int, ...], tuple[int, ...]] = {}
    alike = tuple(same.setdefault(tuple(path), tuple(path)) for path in paths)
    ways = find_paths(subject.flow, alike)
    places = {warp: list(positions_of(ways, warp)) for warp in {warp for warp, _ in first}}
    return OneCta(
        cta=cta,
        paths=alike,
        ways=ways,
        accesses=tuple(accesses),
        copies=tuple(copies),
        positions=tuple(places[warp][number] for warp, number in first),
        issued=counts[0].sum(axis=0),
        rejoined=rejoins[0].sum(axis=0),
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
