"""What lanes tell each other, against lists of 32 numbers."""

from typing import Any

import numpy as np
import pytest
from tilesight.simulator.emulator.compute import warp_lanes
from tilesight.simulator.emulator.thread_values import Array, word

LANE = np.arange(32, dtype=np.int64).reshape(1, 1, 32)
EVERY = np.ones((1, 1, 32), dtype=np.bool_)


def exchanged(exchange: warp_lanes.Exchange, modifiers: tuple[str, ...], *sources: Array, mask: Array = EVERY) -> Any:
    """Words and predicates, as lists of warp_lanes."""
    words, flags = exchange(modifiers, [(source, True) for source in sources], mask, LANE)
    return [np.broadcast_to(array, (1, 1, 32)).ravel().tolist() for array, _ in (*words, *flags)]


@pytest.mark.parametrize(
    ("kind", "by", "limits", "source"),
    [
        ("IDX", 5, 0x1F, [5] * 32),
        ("IDX", 2, 0x181F, [lane // 8 * 8 + 2 for lane in range(32)]),
        ("BFLY", 4, 0x1F, [lane ^ 4 for lane in range(32)]),
        ("UP", 3, 0, [lane if lane < 3 else lane - 3 for lane in range(32)]),
        ("DOWN", 3, 0x1F, [lane if lane > 28 else lane + 3 for lane in range(32)]),
    ],
)
def test_a_shuffle_takes_the_value_of_another_lane(kind: str, by: int, limits: int, source: list[int]) -> None:
    """Of one beyond the warp, or the segment, nothing: the lane keeps its own, and is told so."""
    words, inside = exchanged(warp_lanes.shuffle, (kind,), LANE * 10, word(by), word(limits))
    assert words == [10 * lane for lane in source]
    assert inside == [kind not in ("UP", "DOWN") or source[lane] != lane for lane in range(32)]


def test_lanes_vote() -> None:
    """A branch that a warp takes together would be taken by some of its lanes; those that are not there do not vote."""
    held, there = LANE < 20, LANE < 25
    ballot, any_lane = exchanged(warp_lanes.vote, ("ANY",), held, mask=there)
    _, every = exchanged(warp_lanes.vote, ("ALL",), held, mask=there)
    _, those = exchanged(warp_lanes.vote, ("ALL",), held, mask=held)
    assert (ballot[0], any_lane[0], every[0], those[0]) == ((1 << 20) - 1, True, False, True)


def test_lanes_with_one_value_find_each_other() -> None:
    """Bits of those that have the same; of ALL all, or none."""
    which, _ = exchanged(warp_lanes.match, ("ANY",), LANE % 3)
    assert which == [sum(1 << other for other in range(lane % 3, 32, 3)) for lane in range(32)]
    same, every = exchanged(warp_lanes.match, ("ALL",), LANE * 0)
    assert (same[0], every[0]) == ((1 << 32) - 1, True)
    assert exchanged(warp_lanes.match, ("ALL",), LANE) == [[0] * 32, [False] * 32]


@pytest.mark.parametrize(
    ("kind", "exact"),
    [(("SUM",), sum(range(5, 32))), (("MIN",), 5), (("MAX",), 31), (("OR",), 31), (("AND",), 0), (("XOR",), 4)],
)
def test_lanes_are_reduced(kind: tuple[str, ...], exact: int) -> None:
    """Those that take part alone."""
    assert exchanged(warp_lanes.reduce, kind, LANE, mask=LANE >= 5) == [[exact] * 32]
    (lowest,) = exchanged(warp_lanes.reduce, ("MIN", "S32"), LANE - 7 & 0xFFFFFFFF)
    assert lowest[0] == -7 % (1 << 32)


def test_a_uniform_register_gets_the_value_of_the_first_lane_that_is_there() -> None:
    """One lane is elected, too: the first."""
    words, _ = exchanged(warp_lanes.uniform, (), LANE + 100, mask=LANE > 6)
    assert words == [107] * 32
    assert exchanged(warp_lanes.elect, ())[1] == [True] + [False] * 31


def test_threads_that_stand_for_warps_tell_each_other_only_what_all_lanes_share() -> None:
    """First and last lane of two warps: of values that differ nobody knows what the others hold."""
    lane = np.array([0, 31, 0, 31], dtype=np.int64).reshape(1, 4, 1)
    shared = np.array([7, 7, 9, 9], dtype=np.int64).reshape(1, 4, 1)
    mask = np.ones((1, 4, 1), dtype=np.bool_)
    shuffle = warp_lanes.of_whole_warps(warp_lanes.shuffle)
    ((array, _),), _ = shuffle(("IDX",), [(shared, True), (word(3), True), (word(31), True)], mask, lane)
    assert array.ravel().tolist() == [7, 7, 9, 9]
    with pytest.raises(warp_lanes.LanesDiffer):
        shuffle(("IDX",), [(lane, True), (word(3), True), (word(31), True)], mask, lane)


def test_of_lanes_that_differ_one_decides_a_vote_or_tells() -> None:
    """An elected lane: whether any is, and what it moves to a uniform register, follow from it alone."""
    lane = np.array([0, 31, 0, 31], dtype=np.int64).reshape(1, 4, 1)
    elected, everyone = lane == 0, np.ones((1, 4, 1), dtype=np.bool_)
    vote = warp_lanes.of_whole_warps(warp_lanes.vote, ballot=False)
    for kind, outcome in (("ANY", True), ("ALL", False)):
        ((holds, known),) = vote((kind,), [(elected, True)], everyone, lane)[1]
        assert holds.ravel().tolist() == [outcome] * 4
        assert known is True
    with pytest.raises(warp_lanes.LanesDiffer):
        warp_lanes.of_whole_warps(warp_lanes.vote)(("ANY",), [(elected, True)], everyone, lane)
    moved = warp_lanes.of_whole_warps(warp_lanes.uniform)
    ((word_of_first, _),) = moved((), [(lane + 100, True)], elected, lane)[0]
    assert word_of_first.ravel().tolist() == [100] * 4
    with pytest.raises(warp_lanes.LanesDiffer):
        moved((), [(lane + 100, True)], lane == 31, lane)


def test_a_uniform_register_is_written_for_all_lanes_of_a_warp() -> None:
    """By whichever of them are there, be they all or the two that stand for a warp."""
    mask = np.array([True, False, False, False]).reshape(1, 4, 1)
    assert warp_lanes.by_warp(mask, whole=False).ravel().tolist() == [True, True, False, False]
    assert warp_lanes.by_warp(LANE.reshape(1, 1, 32) == 5, whole=True).ravel().tolist() == [True]
