"""Loops whose accesses are masked between their ends."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tilesight.simulator.trace.touch.midway import MOST_ITERATIONS, masked_midway

PLACE, REGION, TRIPS, TAIL = 7, 3, 10, 2


def followed(lanes: list[int]) -> Any:
    """A CTA that makes one access in each iteration of a loop, by so many lanes."""
    positions = [SimpleNamespace(region=REGION, trips=(at,)) for at in range(len(lanes))]
    accesses = [
        SimpleNamespace(visit=at, place=PLACE, active=np.arange(32) < taking) for at, taking in enumerate(lanes)
    ]
    return SimpleNamespace(positions=positions, accesses=accesses)


@pytest.mark.parametrize(
    ("lanes", "found"),
    [
        ([32] * 10, False),
        ([0, *[32] * 9], False),
        ([32] * 8 + [5, 0], False),
        ([32] * 4 + [5] + [0] * 5, True),
        ([32] + [0] * 9, False),
    ],
    ids=["all", "not the first", "a tail", "a group's end", "one iteration"],
)
def test_a_loop_is_looked_at_where_masks_change_between_its_ends(lanes: list[int], found: bool) -> None:
    """Five groups of grouped_mm_2d2d would be as long as one of them: bytes into the SMs 11 % off."""
    trips = {REGION: np.full(4, TRIPS)}
    assert masked_midway(followed(lanes), trips, TAIL) == ({PLACE: REGION} if found else {})


def test_loops_of_unlike_length_tell_nothing_by_their_masks() -> None:
    """Copies that run ahead of a short loop end at once; and what would take too long is not looked at."""
    lanes = [32] * 4 + [0] * 6
    assert masked_midway(followed(lanes), {REGION: np.array([TRIPS, 4])}, TAIL) == {}
    assert masked_midway(followed(lanes), {REGION: np.full(MOST_ITERATIONS // TRIPS + 1, TRIPS)}, TAIL) == {}
