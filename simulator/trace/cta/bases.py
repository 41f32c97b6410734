"""Where the accesses of all CTAs of a class begin, and whether they are alike: a run through the way of one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...limits import WARP_THREADS
from ..compute.lanes import LanesDiffer
from ..tma.boxes import Boxes
from ..values import Array, Value
from .doubts import Doubts
from .every_thread import all_threads, chunks, warps_by_way
from .given import Subject
from .one_cta import OneCta
from .sites import Slice
from .survey import PROBES, probes
from .walking import Trips, Walk


@dataclass(slots=True)
class Seen:
    """An access in all CTAs of a class, in the first iterations of the loops around it.

    Args:
        addresses: iteration of each loop around it -> int64 (CTAs,), of the first thread of the warps that make it;
        active: the same -> bool (CTAs, 4), whether the threads of `survey.probes` take part;
        clips, numbers: the same, of copies by TMA -> int64 (CTAs, 2 x axes), as in `Boxes`, of the first warp's.
    """

    addresses: dict[Trips, Array] = field(default_factory=dict)
    active: dict[Trips, Array] = field(default_factory=dict)
    clips: dict[Trips, Array] = field(default_factory=dict)
    numbers: dict[Trips, Array] = field(default_factory=dict)


def bases(
    subject: Subject,
    found: Slice,
    one: OneCta,
    ctas: Array,
    trips: Mapping[int, Array],
    doubts: Doubts,
    whole: frozenset[int] = frozenset(),
) -> dict[int, Seen]:
    """Follow a few threads of CTAs along the way of one of them; all threads where these tell each other addresses.

    Args:
        ctas: numbers of CTAs that go the same way, int64 (CTAs,); trips: region -> iterations of a stay, int64 (CTAs,).
        whole: regions all of whose iterations are run, as addresses there go on unevenly.

    Returns:
        Place in the code -> what was seen there.
    """
    if not found.together:
        try:
            return _in_parts(subject, found, one, ctas, trips, doubts, whole, together=False)
        except LanesDiffer:
            pass
    return _in_parts(subject, found, one, ctas, trips, doubts, whole, together=True)


def _in_parts(
    subject: Subject,
    found: Slice,
    one: OneCta,
    ctas: Array,
    trips: Mapping[int, Array],
    doubts: Doubts,
    whole: frozenset[int],
    together: bool,
) -> dict[int, Seen]:
    """The same of some CTAs at a time. Args: together: whether all threads are followed, and not some of each CTA."""
    parts = []
    for chosen in chunks(subject, len(ctas), together):
        lengths = {region: each[chosen] for region, each in trips.items()}
        parts.append(_bases(subject, found, one, ctas[chosen], lengths, doubts, whole, together))
    return _joined(parts) if len(parts) > 1 else parts[0]


def _bases(
    subject: Subject,
    found: Slice,
    one: OneCta,
    ctas: Array,
    trips: Mapping[int, Array],
    doubts: Doubts,
    whole: frozenset[int],
    together: bool,
) -> dict[int, Seen]:
    seen: dict[int, Seen] = {}
    if found.shared:
        whole = frozenset(range(len(one.ways.regions)))
    walk: Walk | None = None
    for way, warps in warps_by_way(one, together):
        threads = len(warps) if together else PROBES
        shape = (len(ctas), threads, WARP_THREADS if together else 1)
        edges = ([0, 0, -1, -1], [0, -1, 0, -1]) if together else (list(range(PROBES)), [0] * PROBES)

        def told(
            place: int,
            at: Trips,
            addresses: Array,
            active: Array,
            boxes: Boxes | None,
            shape: tuple[int, ...] = shape,
            edges: tuple[list[int], list[int]] = edges,
        ) -> None:
            own = seen.setdefault(place, Seen())
            if at in own.addresses or min(at, default=0) < 0:
                return
            taking = np.broadcast_to(active, (len(active), *shape[1:]))[:, edges[0], edges[1]]
            own.active[at] = np.broadcast_to(taking, (shape[0], taking.shape[1]))
            if boxes is None:
                own.addresses[at] = np.broadcast_to(addresses[:, 0, 0].copy(), shape[:1])
                return
            own.addresses[at] = _of_first_warp(boxes.origin, active, shape)[:, 0]
            own.clips[at] = _of_first_warp(boxes.clips(), active, shape)
            own.numbers[at] = _of_first_warp(boxes.numbers(), active, shape)

        special = (all_threads if together else probed)(subject, ctas, warps)
        region_of = one.ways.region_of[one.ways.warps.index(way)]
        walk = Walk(subject, found, doubts, trips, region_of, special, told, whole, together=together, before=walk)
        walk.along(way)
    return seen


def _joined(parts: Sequence[Mapping[int, Seen]]) -> dict[int, Seen]:
    """What was seen of some CTAs, and then of others, where it was seen of all."""
    joined: dict[int, Seen] = {}
    for place in parts[0]:
        every = [part[place] for part in parts if place in part]
        if len(every) < len(parts):
            continue
        ats = [at for at in every[0].addresses if all(at in seen.addresses for seen in every)]
        # Parts are given up one by one, for the sake of memory.
        joined[place] = Seen(
            {at: end_to_end([seen.addresses.pop(at) for seen in every]) for at in ats},
            {at: end_to_end([seen.active.pop(at) for seen in every]) for at in ats},
            {at: end_to_end([seen.clips.pop(at) for seen in every]) for at in ats if at in every[0].clips},
            {at: end_to_end([seen.numbers.pop(at) for seen in every]) for at in ats if at in every[0].numbers},
        )
    return joined


def end_to_end(parts: Sequence[Array]) -> Array:
    """Rows of CTAs, and then of others; one row where it is the same for all of them."""
    first = parts[0][:1]
    if all(part.strides[0] == 0 and np.array_equal(part[:1], first) for part in parts):
        return np.broadcast_to(first, (sum(len(part) for part in parts), *first.shape[1:]))
    return np.concatenate(parts)


def only(seen: Seen, chosen: Array) -> Seen:
    """The same of some of the CTAs. Args: chosen: their ranks, rising."""

    def of(every: dict[Trips, Array]) -> dict[Trips, Array]:
        return {at: _rows_of(each, chosen) for at, each in every.items()}

    return Seen(of(seen.addresses), of(seen.active), of(seen.clips), of(seen.numbers))


def _rows_of(each: Array, chosen: Array) -> Array:
    if len(chosen) == len(each):
        return each
    return np.broadcast_to(each[:1], (len(chosen), *each.shape[1:])) if each.strides[0] == 0 else each[chosen]


def _of_first_warp(values: Array, active: Array, shape: Sequence[int]) -> Array:
    """What the first warp that copies has, int64 (CTAs, numbers). Args: values: (CTAs, warps, numbers)."""
    first = np.broadcast_to(active, (*shape[:2], 1)).argmax(axis=1)[:, None]
    return np.take_along_axis(np.broadcast_to(values, (*shape[:2], values.shape[2])), first, 1)[:, 0]


def probed(subject: Subject, ctas: Array, warps: Sequence[int]) -> dict[str, Value]:
    """Special registers of `survey.probes`, of some warps alone."""
    special = probes(subject.called.grid, ctas, subject.called.warps)
    first, last = min(warps), max(warps)
    own = np.array([first, first, last, last], dtype=np.int64).reshape(1, PROBES, 1)
    special["SR_TID.X"] = WARP_THREADS * own + special["SR_LANEID"][0], True
    return special
