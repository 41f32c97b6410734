"""Bytes that the accesses of a launch ask for: those whose addresses are known, and those that are estimated."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from ...limits import SECTOR_BYTES
from ..touch.cta_class import PathClass


class Requested(NamedTuple):
    """What the warps of a launch ask for.

    Args:
        known_bytes: bytes of lanes whose addresses are known [B];
        estimated_bytes: sectors of lanes whose addresses are not, one for each [B].
    """

    known_bytes: int
    estimated_bytes: int


def requested_bytes(classes: Iterable[PathClass], estimated: set[int]) -> Requested:
    """Bytes of all accesses, were each CTA of a class to access what its representative does.

    Args:
        estimated: places of the accesses of which each lane is taken to touch a sector of its own.
    """
    known_bytes = estimated_bytes = 0
    for path_class in classes:
        ctas = sum(len(kind.members) for kind in path_class.masked)
        for access in path_class.representative.accesses:
            lanes = access.lanes * ctas
            if access.place in estimated:
                estimated_bytes += lanes * SECTOR_BYTES
            else:
                known_bytes += lanes * access.size_bytes
    return Requested(known_bytes, estimated_bytes)


def scattered_lanes(path_class: PathClass, estimated: frozenset[int]) -> dict[int, tuple[float, int]]:
    """Place of an estimated access -> lanes of a warp that take part, in the mean, and bytes of each [B]."""
    lanes: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for access in path_class.representative.accesses:
        if access.place in estimated:
            by_warp = access.active.sum(axis=1)
            total = lanes[access.place]
            total[0] += int(by_warp.sum())
            total[1] += int((by_warp > 0).sum())
            total[2] = access.size_bytes
    return {place: (taking / warps, size) for place, (taking, warps, size) in lanes.items() if warps}
