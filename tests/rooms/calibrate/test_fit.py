"""Fits on planted samples: the number that was planted comes out, whatever one disturbed sample says."""

import random

import pytest
from tilesight.validate.calibrate import fit


def test_slope_ignores_a_constant_and_one_bad_point() -> None:
    """Launch overhead is the same for every size, and one point of six may be off by a factor of ten."""
    points = {x: [5.0 + 3.0 * x] for x in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)}
    assert fit.slope(points) == pytest.approx(3.0)
    assert fit.slope(points | {4.0: [170.0]}) == pytest.approx(3.0)


def test_slope_takes_the_median_of_samples() -> None:
    """One slow launch among seven moves nothing."""
    points = {x: [2.0 * x] * 6 + [100.0] for x in (1.0, 2.0, 3.0)}
    assert fit.slope(points) == pytest.approx(2.0)


def test_one_point_has_no_slope() -> None:
    """It is refused rather than answered with 0."""
    with pytest.raises(ValueError, match="two points"):
        fit.slope({1.0: [1.0]})


def planted_sides(
    away: set[int], sms: int = 12, crossing: float = 150.0
) -> tuple[list[list[float]], list[list[float]]]:
    """First and second latencies: half of the lines are at home with the first SM, copies on its side."""
    chance = random.Random(0)
    second = [[270 + chance.uniform(-40, 40) for _ in range(64)] for _ in range(sms)]
    first = [
        [value + (crossing if sm in away and i % 2 else 0) + chance.uniform(-8, 8) for i, value in enumerate(row)]
        for sm, row in enumerate(second)
    ]
    return first, second


def test_sides_are_told_apart_by_slow_first_loads() -> None:
    """SMs that see half of the lines slowly are on the other side; by how much is the median of the slow ones."""
    away = {1, 4, 5, 9, 10}
    sides, threshold, crossing = fit.split_sides(*planted_sides(away))
    assert sides == [[0, 2, 3, 6, 7, 8, 11], sorted(away)]
    assert 40 < threshold < 150
    assert crossing == pytest.approx(150, abs=5)


def test_one_partition_has_one_side() -> None:
    """Where no first load is slow there is nothing to cross."""
    assert fit.split_sides(*planted_sides(set())) == ([list(range(12))], float("inf"), 0.0)


def test_a_histogram_gives_the_share_of_quick_loads() -> None:
    """Those that took less than the limit."""
    assert fit.share_below({"264": 3, "272": 4, "560": 3}, 400) == 0.7


def test_what_stays_of_too_large_a_buffer_is_the_capacity() -> None:
    """A cache of 30 MB keeps 30 MB of 40, 50 and 60; buffers that fit say nothing."""
    knee = {
        str(size): {"272": round(1000 * min(1.0, 30 / size)), "560": 1000 - round(1000 * min(1.0, 30 / size))}
        for size in (10, 20, 30, 32, 40, 50, 60)
    }
    assert fit.held_bytes(knee, 400) == pytest.approx(30, rel=0.01)
    assert fit.held_bytes({"10": {"272": 5}}, 400) is None
