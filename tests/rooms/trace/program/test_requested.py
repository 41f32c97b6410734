"""Bytes that warps ask for: of lanes whose addresses are known, and of others."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from tilesight.simulator.trace.program.requested import Requested, requested_bytes, scattered_lanes


def access(place: int, *lanes: int, size: int = 4) -> Any:
    """An access of warps of which so many lanes take part."""
    active = np.arange(32)[None, :] < np.array(lanes)[:, None]
    return SimpleNamespace(place=place, active=active, lanes=sum(lanes), size_bytes=size)


def path_class(*accesses: Any, members: tuple[int, ...] = (1,)) -> Any:
    """CTAs that do as one does. Args: members: how many of each kind of masks."""
    kinds = tuple(SimpleNamespace(members=range(count)) for count in members)
    return SimpleNamespace(representative=SimpleNamespace(accesses=accesses), masked=kinds)


def test_a_lane_asks_for_its_bytes_and_where_it_lands_nobody_knows_for_a_sector() -> None:
    """20 lanes of 2 B in each of 5 CTAs; of the scattered access 40 lanes, 32 B each."""
    made = path_class(access(0, 20, size=2), access(1, 32, 8, size=2), members=(2, 3))
    assert requested_bytes([made], set()) == Requested(5 * (20 + 40) * 2, 0)
    assert requested_bytes([made, made], {1}) == Requested(2 * 5 * 20 * 2, 2 * 5 * 40 * 32)


def test_a_warp_that_takes_no_part_makes_no_other_smaller() -> None:
    """The mean is over warps that touch something."""
    assert scattered_lanes(path_class(access(7, 32, 0, 8)), frozenset({7})) == {7: (20.0, 4)}
    assert scattered_lanes(path_class(access(7, 0)), frozenset({7})) == {}
