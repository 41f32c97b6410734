"""How far predictions are off what was measured is no more than every answer says: points that no constant saw."""

from collections.abc import Sequence
from math import sqrt
from random import Random
from statistics import mean, stdev

import pytest
from support.lab import DATA
from support.todays_seed import todays_seed
from tilesight.simulator.device.device import load_device
from tilesight.simulator.explore.candidate import ERROR_FRACTIONS
from tilesight.validate.compare.campaign import compare_rows
from tilesight.validate.compare.recompile import with_figures
from tilesight.validate.measure.results_file import Row, read_results
from tilesight.validate.measurement import Lost

BLIND = {
    "h200": [f"h200-2026-11-2{day}-seed{seed}.jsonl.xz" for day, seed in ((2, 9), (3, 10), (3, 11))]
    + ["h200-2026-11-23-seed12.jsonl"],
    "h100-sxm": ["h100-2026-11-22-seed9.jsonl"],
}
"""Draws that were measured after all constants of time were there (docs/accuracy.md, Method)."""
SAMPLE = {"h200": 48, "h100-sxm": 16}
MOST_SCORES = 1 << 30
"""Elements of the score matrices of a point that takes little to predict."""
SAID = {"time_s": ERROR_FRACTIONS["compiled"], "hbm_read_bytes": 0.052, "smem_fill_bytes": 0.004}
"""Mean sizes of errors: of time as `explore` prints with every table, of bytes as docs/accuracy.md says."""
CHANCE = 3.0
"""Standard errors by which the mean of a sample may lie beyond that of all points: one sample of 700 does."""


def points(device: str) -> list[Row]:
    """Those that may be drawn: counted and timed, of attention, no larger than a test can afford."""
    rows = (row for file in BLIND[device] for row in read_results(DATA / file)[1])
    return [
        row
        for row in rows
        if not isinstance(ran := row.outcome, Lost)
        and ran.timing
        and not ran.doubts
        and all(launch.counters for launch in ran.launches)
        and row.point.problem.batch * row.point.problem.heads * row.point.problem.seqlen_q * row.point.problem.seqlen_k
        <= MOST_SCORES
    ]


def beyond(errors: Sequence[float], said: float) -> float:
    """How many standard errors the mean size of a sample's errors lies above what is said."""
    sizes = [abs(error) for error in errors]
    return (mean(sizes) - said) / max(stdev(sizes) / sqrt(len(sizes)), 1e-12)


@pytest.mark.parametrize("name", BLIND)
def test_a_sample_of_blind_points_is_no_further_off_than_is_said(name: str) -> None:
    """Another one every day; time, bytes read from HBM, bytes into the SMs, all from kept code."""
    device, seed = load_device(name), todays_seed()
    chosen = Random(seed).sample(points(name), SAMPLE[name])
    rows, _ = with_figures(chosen, device, "asked for")
    comparisons = [comparison for comparison in compare_rows(rows, device, workers=1) if comparison.prediction]
    assert len(comparisons) > SAMPLE[name] * 3 / 4
    for quantity, said in SAID.items():
        errors = [comparison.errors()[quantity] for comparison in comparisons if quantity in comparison.errors()]
        worst = max(comparisons, key=lambda row: abs(row.errors().get(quantity, 0.0)))
        assert beyond(errors, said) < CHANCE, (
            f"TILESIGHT_TEST_SEED={seed}: {quantity} is {mean(map(abs, errors)):.1%} off in the mean of {len(errors)} "
            f"points, {said:.1%} is said; the worst is {worst.point.key}, {worst.errors()[quantity]:+.1%}"
        )


def test_a_sample_that_is_further_off_is_told_apart_from_chance() -> None:
    """Sixteen points that are 7 and 9 % off are of no model that is 5 % off; those that are 1 and 11 % off may be."""
    assert beyond([0.07, -0.09] * 8, 0.05) > CHANCE
    assert beyond([0.01, -0.11] * 8, 0.05) < CHANCE
