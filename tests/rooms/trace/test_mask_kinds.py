"""Loops whose accesses are masked between their ends."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tilesight.simulator.trace.touch.mask_kinds import MOST_ITERATIONS, changing_masks

PLACE, REGION, TRIPS, TAIL = 7, 3, 10, 2


def group_of(lanes: list[int], *trips: int) -> Any:
    """CTAs of these trip counts; the representative makes one access in each iteration of a loop, by so many lanes."""
    positions = [SimpleNamespace(region=REGION, iteration=(at,)) for at in range(len(lanes))]
    accesses = [
        SimpleNamespace(visit=at, place=PLACE, active=np.arange(32) < taking) for at, taking in enumerate(lanes)
    ]
    representative = SimpleNamespace(positions=positions, accesses=accesses)
    return SimpleNamespace(representative=representative, trips={REGION: np.array(trips)})


@pytest.mark.parametrize(
    ("lanes", "changes"),
    [
        ([32] * 10, False),
        ([0, *[32] * 9], False),
        ([32] * 8 + [5, 0], False),
        ([32] * 4 + [5] + [0] * 5, True),
        ([32] + [0] * 9, False),
    ],
    ids=["all", "not the first", "a tail", "a group's end", "one iteration"],
)
def test_a_loop_is_looked_at_where_masks_change_between_its_ends(lanes: list[int], changes: bool) -> None:
    """Five groups of grouped_mm_2d2d would be as long as one of them: bytes into the SMs 11 % off."""
    assert changing_masks(group_of(lanes, *[TRIPS] * 4), TAIL) == ({PLACE: REGION} if changes else {})


def test_loops_of_unlike_length_tell_nothing_by_their_masks() -> None:
    """Copies that run ahead of a short loop end at once; and what would take too long is not looked at."""
    lanes = [32] * 4 + [0] * 6
    assert changing_masks(group_of(lanes, TRIPS, 4), TAIL) == {}
    assert changing_masks(group_of(lanes, *[TRIPS] * (MOST_ITERATIONS // TRIPS + 1)), TAIL) == {}
