"""All threads of all CTAs of a class on the way of one of them: what they touch, and whether they touch alike."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from ...limits import WARP_THREADS
from ..executions import special_registers
from ..paths import ControlPath
from ..tma.boxes import Boxes
from ..values import Array, Value
from .doubts import Doubts
from .given import Subject
from .one_cta import OneCta
from .sites import Slice
from .survey import PROBES
from .walking import Trips, Walk

THREADS_AT_ONCE = 1 << 17
"""Threads that are followed at a time, for the sake of memory."""
ToldAll = Callable[[int, Trips, int, Array, Array], None]
"""Gets the place of an access, iterations of the loops around it, the rank of the first CTA, and what these CTAs
touch: addresses, and which threads take part, int64 and bool (CTAs, warps, lanes)."""


def signatures(
    subject: Subject,
    found: Slice,
    one: OneCta,
    ctas: Array,
    trips: Mapping[int, Array],
    doubts: Doubts,
    listed: frozenset[int] = frozenset(),
) -> dict[int, Array]:
    """Numbers that are equal for CTAs that touch alike: who takes part, and where each thread lies from the first.

    All threads are followed, through the first two and the last iterations of every loop.

    Args:
        listed: places of copies by TMA that need not be alike.

    Returns:
        Place in the code -> uint64 (CTAs,).
    """
    found_of: dict[int, Array] = {}
    for chosen in chunks(subject, len(ctas)):
        lengths = {region: each[chosen] for region, each in trips.items()}
        for place, numbers in _signatures(subject, found, one, ctas[chosen], lengths, doubts, listed).items():
            found_of.setdefault(place, np.zeros(len(ctas), dtype=np.uint64))[chosen] = numbers
    return found_of


def _signatures(
    subject: Subject,
    found: Slice,
    one: OneCta,
    ctas: Array,
    trips: Mapping[int, Array],
    doubts: Doubts,
    listed: frozenset[int],
) -> dict[int, Array]:
    totals: dict[int, Array] = defaultdict(lambda: np.zeros(len(ctas), dtype=np.uint64))
    whole = frozenset(range(len(one.ways.regions))) if found.shared else frozenset()
    weights = np.random.default_rng(0).integers(1, 1 << 63, subject.called.warps * WARP_THREADS, dtype=np.uint64)

    walk: Walk | None = None
    for way, warps in warps_by_way(one, found.together):
        shape = (len(ctas), len(warps), WARP_THREADS)

        def told(
            place: int,
            at: Trips,
            addresses: Array,
            active: Array,
            boxes: Boxes | None,
            shape: tuple[int, int, int] = shape,
        ) -> None:
            if place in listed:
                return
            if boxes is None:
                where, taking = np.broadcast_to(addresses, shape), np.broadcast_to(active, shape)
                apart = np.where(taking, where - where[:, :1, :1], -1)
            else:
                apart = _apart(boxes, np.broadcast_to(active, (*shape[:2], 1)))
            apart = apart.reshape(len(ctas), -1).astype(np.uint64)
            summed = (apart * weights[: apart.shape[1]]).sum(axis=1)
            totals[place] = totals[place] * np.uint64(0x9E3779B97F4A7C15) + summed

        special = all_threads(subject, ctas, warps)
        region_of = one.ways.region_of[one.ways.warps.index(way)]
        tail = max(1, subject.called.num_stages)
        walk = Walk(subject, found, doubts, trips, region_of, special, told, whole, tail=tail, before=walk)
        walk.along(way)
    return totals


def _apart(boxes: Boxes, active: Array) -> Array:
    """How far boxes lie from that of the first warp that copies, and how they are clipped, int64 (CTAs, warps, ...).

    Args:
        active: which warps copy, bool (CTAs, warps, 1).
    """
    origin = np.broadcast_to(boxes.origin, active.shape)
    first = np.take_along_axis(origin, active.argmax(axis=1)[:, None], 1)
    clips = boxes.clips()
    parts = [origin - first, np.broadcast_to(clips, (*active.shape[:2], clips.shape[2]))]
    return np.where(active, np.concatenate(parts, axis=2), -1)


def every_access(
    subject: Subject, found: Slice, one: OneCta, ctas: Array, trips: Mapping[int, Array], doubts: Doubts, told: ToldAll
) -> None:
    """Follow all threads of CTAs along the way of one of them, through all iterations. Args: told: gets each access."""
    whole = frozenset(range(len(one.ways.regions)))
    for chosen in chunks(subject, len(ctas)):
        lengths = {region: each[chosen] for region, each in trips.items()}
        walk: Walk | None = None
        for way, warps in warps_by_way(one, found.together):
            shape = (len(ctas[chosen]), len(warps), WARP_THREADS)

            def tell(
                place: int,
                at: Trips,
                addresses: Array,
                active: Array,
                boxes: Boxes | None,
                first: int = chosen.start,
                shape: tuple[int, int, int] = shape,
            ) -> None:
                if boxes is None:
                    told(place, at, first, np.broadcast_to(addresses, shape), np.broadcast_to(active, shape))

            special = all_threads(subject, ctas[chosen], warps)
            region_of = one.ways.region_of[one.ways.warps.index(way)]
            walk = Walk(subject, found, doubts, lengths, region_of, special, tell, whole, before=walk)
            walk.along(way)


def chunks(subject: Subject, ctas: int, together: bool = True) -> Iterator[slice]:
    """Ranks of CTAs that are followed at a time. Args: together: with all of their threads, and not some of each."""
    step = max(1, THREADS_AT_ONCE // (subject.called.warps * WARP_THREADS if together else PROBES))
    return (slice(begin, begin + step) for begin in range(0, ctas, step))


def warps_by_way(one: OneCta, together: bool) -> Iterator[tuple[ControlPath, Sequence[int]]]:
    """Ways of the warps of a CTA, each with the warps that go it.

    Args:
        together: whether one way is to serve all warps, which is so where others only leave out parts of it.
    """
    groups: dict[ControlPath, list[int]] = {}
    for warp, way in enumerate(one.ways.warps):
        groups.setdefault(way, []).append(warp)
    longest = max(range(len(one.paths)), key=lambda warp: len(one.paths[warp]))
    if together and all(_is_part(one.paths[warps[0]], one.paths[longest]) for warps in groups.values()):
        yield one.ways.warps[longest], range(len(one.paths))
    else:
        yield from groups.items()


def _is_part(blocks: Sequence[int], of: Sequence[int]) -> bool:
    """Whether blocks are run in an order that another way runs them in, with others between them."""
    others = iter(of)
    return all(block in others for block in blocks)


def all_threads(subject: Subject, ctas: Array, warps: Sequence[int]) -> dict[str, Value]:
    """Special registers of all threads of some warps."""
    special = special_registers(subject.called.grid, ctas, subject.called.warps)
    special["SR_TID.X"] = special["SR_TID.X"][0][:, warps], True
    return special
