"""All threads of all CTAs of a group: every access that they make, or hashes of these that tell CTAs apart."""

from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np

from ...emulator.thread_values import Array
from ...emulator.tma.boxes import Boxes
from ...limits import WARP_THREADS
from ..positions import Iteration
from .address_slice import Tracer
from .group import CtaGroup, Shape, chunks, walk_group
from .path_replay import RecordAt

RecordAll = Callable[[int, Iteration, int, Array, Array], None]
"""Gets the place of an access, its iteration, the rank of the first CTA, and what these CTAs touch: addresses, int64,
and which threads take part, bool, both (CTAs, warps, lanes)."""


def signatures(
    tracer: Tracer,
    group: CtaGroup,
    wanted: frozenset[int] | None = None,
    even: Mapping[int, Array] | None = None,
) -> dict[int, Array]:
    """Hashes that are equal for CTAs that touch alike: the same threads, at the same distances from the first one.

    All threads are followed, through the first two and the last iterations of every loop.

    Args:
        wanted: places of accesses that have to be alike; None: all; even: as in `Loops`.

    Returns:
        Place in the code -> uint64 (CTAs,).
    """
    hashes: dict[int, Array] = {}
    for ranks in chunks(tracer.subject, len(group)):
        for place, part in _signatures(tracer, group.subset(ranks), wanted, even or {}).items():
            hashes.setdefault(place, np.zeros(len(group), dtype=np.uint64))[ranks] = part
    return hashes


def _signatures(
    tracer: Tracer, group: CtaGroup, wanted: frozenset[int] | None, even: Mapping[int, Array]
) -> dict[int, Array]:
    """The same of CTAs that are few enough to be followed at a time."""
    kernel = tracer.subject.kernel
    hashes: dict[int, Array] = defaultdict(lambda: np.zeros(len(group), dtype=np.uint64))
    weights = np.random.default_rng(0).integers(1, 1 << 63, kernel.warps * WARP_THREADS, dtype=np.uint64)

    def recorder(shape: Shape) -> RecordAt:
        def record(place: int, iteration: Iteration, addresses: Array, active: Array, boxes: Boxes | None) -> None:
            if wanted is not None and place not in wanted:
                return
            if boxes is None:
                where, taking = np.broadcast_to(addresses, shape), np.broadcast_to(active, shape)
                distances = np.where(taking, where - where[:, :1, :1], -1)
            else:
                distances = _box_distances(boxes, np.broadcast_to(active, (*shape[:2], 1)))
            distances = distances.reshape(len(group), -1).astype(np.uint64)
            summed = (distances * weights[: distances.shape[1]]).sum(axis=1)
            hashes[place] = hashes[place] * np.uint64(0x9E3779B97F4A7C15) + summed

        return record

    walk_group(tracer, group, recorder, tail=max(1, kernel.num_stages), even=even)
    return hashes


def _box_distances(boxes: Boxes, active: Array) -> Array:
    """Distances of boxes from that of the first warp that copies [B], and how each is clipped [elements].

    Args:
        active: which warps copy, bool (CTAs, warps, 1).

    Returns:
        int64 (CTAs, warps, 1 + 2 x axes); -1 for warps that do not copy.
    """
    origin = np.broadcast_to(boxes.origin, active.shape)
    first = np.take_along_axis(origin, active.argmax(axis=1)[:, None], 1)
    clips = boxes.clips()
    parts = [origin - first, np.broadcast_to(clips, (*active.shape[:2], clips.shape[2]))]
    return np.where(active, np.concatenate(parts, axis=2), -1)


def every_access(tracer: Tracer, group: CtaGroup, record_all: RecordAll) -> None:
    """Follow all threads of a group through all iterations. Args: record_all: gets each access, boxes aside."""
    for ranks in chunks(tracer.subject, len(group)):

        def recorder(shape: Shape, first: int = ranks.start) -> RecordAt:
            def record(place: int, iteration: Iteration, addresses: Array, active: Array, boxes: Boxes | None) -> None:
                if boxes is None:
                    where, taking = np.broadcast_to(addresses, shape), np.broadcast_to(active, shape)
                    record_all(place, iteration, first, where, taking)

            return record

        walk_group(tracer, group.subset(ranks), recorder, in_full=group.all_regions)
