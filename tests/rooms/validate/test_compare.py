"""Predicted beside measured: signed errors, statistics, rankings, verdicts; nothing counts twice or goes missing."""

import json
from dataclasses import replace
from math import inf, isclose
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_up_measurements import (
    H200,
    PROBLEM,
    a_point,
    a_timing,
    a_validation,
    compared,
    lost,
    measured,
    predicted,
    some_points,
)
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.refusal import Refusal
from tilesight.simulator.simulate import simulate
from tilesight.validate.compare.campaign import compare_rows
from tilesight.validate.compare.compare import (
    LEAST_RANKED,
    QUANTITIES,
    Ranking,
    all_statistics,
    compare,
    counts,
    rankings,
    spearman,
    statistics,
)
from tilesight.validate.compare.quantities import Pair
from tilesight.validate.compare.verdict import RULES, failures, verdicts
from tilesight.validate.measurement import Measurement
from tilesight.validate.points.point import Point

LARGE = AttentionProblem(batch=16, heads=64, seqlen_q=1024, seqlen_k=1024, head_dim=64)
"""Moves megabytes at every level, so that every quantity counts."""
ERRORS = st.lists(st.tuples(st.text(max_size=3), st.floats(-1, 100)), min_size=1, max_size=40)


def large_point(**options: object) -> Point:
    return a_point(problem=LARGE, **options)


def test_errors_have_signs() -> None:
    """Positive where the prediction is too high, relative to what was measured."""
    assert Pair(110.0, 100.0).relative_error == pytest.approx(0.1)
    assert Pair(90.0, 100.0).relative_error == pytest.approx(-0.1)
    assert Pair(0.0, 0.0).relative_error == 0.0
    assert Pair(1.0, 0.0).relative_error == inf


def test_a_point_that_agrees_has_no_error() -> None:
    """In any quantity; all are compared."""
    errors = compared(large_point()).errors()
    assert set(errors) == set(QUANTITIES)
    for name in set(QUANTITIES) - {"clock_hz"}:
        assert errors[name] == pytest.approx(0, abs=1e-9), name


@pytest.mark.parametrize("quantity", sorted(set(QUANTITIES) - {"clock_hz"}))
def test_each_quantity_is_held_against_its_own(quantity: str) -> None:
    """A prediction 25 % too high shows in that quantity and no other."""
    errors = compared(large_point(), {quantity: 0.25}).errors()
    assert errors.pop(quantity) == pytest.approx(0.25, rel=1e-5)
    errors.pop("clock_hz")
    assert max(map(abs, errors.values())) < 1e-9


@pytest.mark.parametrize(("samples", "lasting"), [(2, False), (200_000, True)])
def test_what_is_measured_for_long_is_held_against_the_clock_that_power_sustains(samples: int, lasting: bool) -> None:
    """A kernel that was slowed down by its own repetition would seem to be predicted too fast."""
    point = large_point()
    prediction = predicted(point)
    timing = replace(a_timing(prediction.time_s), samples=samples)
    pairs = compare(measured(point, prediction, timing=timing), prediction).pairs
    assert prediction.sustained_time_s > 1.01 * prediction.time_s
    assert pairs["time_s"].predicted == (prediction.sustained_time_s if lasting else prediction.time_s)
    ratio = prediction.time_s / prediction.sustained_time_s if lasting else 1.0
    assert pairs["clock_hz"].predicted == pytest.approx(prediction.clock_hz * ratio)


@pytest.mark.parametrize(("samples", "clock_hz"), [(2, 1.7e9), (200_000, 1.5e9)])
def test_the_clock_of_a_short_run_is_that_of_its_counted_launches(samples: int, clock_hz: float) -> None:
    """The clock beside cold times is that of the flushes in between, for the most part."""
    point = large_point()
    prediction = predicted(point)
    row = measured(point, prediction, timing=replace(a_timing(prediction.time_s), samples=samples))
    assert isinstance(row.outcome, Measurement)
    (launch,) = row.outcome.launches
    launch = replace(launch, counters=launch.counters | {"time_s": launch.counters["cycles"] / 1.7e9})
    comparison = compare(replace(row, outcome=replace(row.outcome, launches=(launch,))), prediction)
    assert comparison.pairs["clock_hz"].measured == pytest.approx(clock_hz)


def test_counters_add_up_over_launches() -> None:
    """And each launch keeps its own pair."""
    point = a_point("naive", LARGE)
    comparison = compared(point)
    assert [name for name, _ in comparison.launches] == ["scores", "softmax", "output"]
    for quantity in ("hbm_read_bytes", "smem_fill_bytes", "cycles"):
        parts = [pairs[quantity] for _, pairs in comparison.launches]
        assert comparison.pairs[quantity].predicted == pytest.approx(sum(part.predicted for part in parts))
        assert comparison.pairs[quantity].measured == pytest.approx(sum(part.measured for part in parts))


def test_a_counter_that_one_launch_lacks_is_not_added_up() -> None:
    """A sum over some launches would be less than the prediction for a reason that is none of the model's."""
    point = a_point("naive", LARGE)
    prediction = predicted(point)
    row = measured(point, prediction)
    assert isinstance(row.outcome, Measurement)
    first, *others = row.outcome.launches
    poor = replace(first, counters={name: value for name, value in first.counters.items() if name != "hbm_read_bytes"})
    comparison = compare(replace(row, outcome=replace(row.outcome, launches=(poor, *others))), prediction)
    assert "hbm_read_bytes" not in comparison.pairs
    assert "hbm_write_bytes" in comparison.pairs


def test_without_counters_time_cycles_and_memory_are_compared() -> None:
    """Cycles then come from the time and the sampled clock."""
    comparison = compared(large_point(), counted=False)
    assert set(comparison.pairs) == {"cycles", "time_s", "clock_hz", "peak_memory_bytes"}
    assert comparison.pairs["cycles"].measured == pytest.approx(1.5e9 * comparison.pairs["time_s"].measured)


def test_next_to_nothing_is_no_error_to_speak_of() -> None:
    """Below a megabyte on both sides; one side above it counts."""
    assert not counts("hbm_write_bytes", Pair(0.0, 9e5))
    assert counts("hbm_write_bytes", Pair(0.0, 2e6))
    assert counts("hbm_write_bytes", Pair(2e6, 0.0))
    assert counts("time_s", Pair(1e-6, 2e-6))


def test_launches_that_do_not_match_are_an_error() -> None:
    """A measurement of another number of launches is never paired silently."""
    point = a_point("naive", LARGE)
    prediction = predicted(point)
    row = measured(point, prediction)
    assert isinstance(row.outcome, Measurement)
    with pytest.raises(ValueError, match="zip"):
        compare(replace(row, outcome=replace(row.outcome, launches=row.outcome.launches[:2])), prediction)


@given(named=ERRORS)
def test_statistics_are_those_of_the_sizes(named: list[tuple[str, float]]) -> None:
    """Against the same figures written out; the worst keeps its sign and its key."""
    statistic = statistics(named, "time_s")
    assert statistic
    sizes = sorted(abs(error) for _, error in named)
    assert statistic.points == len(named)
    assert statistic.median == median(sizes)
    assert isclose(statistic.mean, sum(sizes) / len(sizes), rel_tol=1e-9)
    assert isclose(statistic.bias, sum(error for _, error in named) / len(named), rel_tol=1e-9, abs_tol=1e-9)
    assert statistic.worst == sizes[-1]
    assert (statistic.worst_key, statistic.worst_error) in named
    assert sum(size <= statistic.p95 for size in sizes) >= 0.95 * len(sizes)
    assert statistic.p95 in sizes
    assert statistic.within == sum(size <= 0.10 for size in sizes) / len(sizes)


def test_an_infinite_error_is_the_worst_and_no_json_number() -> None:
    """Predicted something where nothing was measured."""
    statistic = statistics([("a", 0.1), ("b", inf)], "hbm_read_bytes")
    assert statistic
    assert (statistic.worst_key, statistic.p95) == ("b", inf)
    assert json.loads(json.dumps(statistic.to_dict(), allow_nan=False))["worst_error"] is None


@given(values=st.lists(st.integers(0, 5), min_size=2, max_size=12), other=st.permutations(range(12)))
def test_rank_correlation_is_that_of_mean_ranks(values: list[int], other: list[int]) -> None:
    """Against ranks counted one by one; equal values share theirs."""
    first, second = np.array(values, float), np.array(other[: len(values)], float)
    ranks = [
        [sum(y < x for y in numbers) + sum(y == x for y in numbers) / 2 for x in numbers] for numbers in (first, second)
    ]
    expected = 0.0 if len(set(values)) == 1 else float(np.corrcoef(ranks)[0, 1])
    assert spearman(first, second) == pytest.approx(expected, abs=1e-9)


def test_rank_correlation_of_the_same_order_is_one() -> None:
    """Whatever the distances; and minus one for the opposite."""
    assert spearman(np.array([1.0, 2, 9]), np.array([1.0, 50, 51])) == pytest.approx(1)
    assert spearman(np.array([1.0, 2, 9]), np.array([3.0, 2, 1])) == pytest.approx(-1)


def test_what_is_doubted_does_not_count() -> None:
    """Wrong, doubted, unpredictable and lost points stay out of statistics and say why."""
    good = compared(large_point())
    wrong = compared(large_point(block_m=64), {"time_s": 9}, oracle_error=1.5)
    doubted = compared(large_point(block_n=32), {"time_s": 9}, doubts=("outputs stale: ...",))
    point = large_point(num_stages=2)
    misfit = compare(measured(point, predicted(point)), Refusal("does not fit", "cannot be predicted: too large"))
    gone = lost(large_point(num_stages=4), "hang")
    every = [good, wrong, doubted, misfit, gone]
    assert all_statistics(every)["time_s"].points == 1
    assert [comparison.objections for comparison in every] == [
        (),
        ("outputs wrong: their error is 1.5 of what is allowed",),
        ("outputs stale: ...",),
        ("cannot be predicted: too large",),
        ("hang",),
    ]


def test_nan_outputs_are_wrong() -> None:
    """An error that is no number is not below 1."""
    assert compared(large_point(), oracle_error=float("nan")).objections
    assert compared(large_point(), oracle_error=inf).objections


def test_configurations_of_a_shape_are_ranked() -> None:
    """The regret is what the configuration predicted fastest takes, over the best measured."""
    points = [large_point(block_m=block_m, block_n=block_n) for block_m in (64, 128) for block_n in (32, 64, 128)]
    times = sorted((predicted(point).time_s, point) for point in points)
    fastest = times[0][1]
    comparisons = [compared(point, {"time_s": -0.5 if point == fastest else 0.0}) for point in points]
    (ranking,) = rankings(comparisons)
    assert ranking.configs == 6
    measured_times = [comparison.pairs["time_s"].measured for comparison in comparisons]
    assert ranking.regret == pytest.approx(2 * times[0][0] / min(measured_times))
    assert ranking.regret > 1
    assert rankings(comparisons[: LEAST_RANKED - 1]) == []


def test_every_rule_gets_a_verdict() -> None:
    """Also those for which nothing was compared, and they say so."""
    reached = verdicts({}, [])
    assert [verdict.rule for verdict in reached] == list(RULES)
    assert {verdict.grade for verdict in reached} == {"not compared"}


@pytest.mark.parametrize(
    ("quantity", "error", "grades"),
    [
        ("smem_fill_bytes", 0.0, {"worst": "aim"}),
        ("smem_fill_bytes", 0.009, {"worst": "must"}),
        ("smem_fill_bytes", -0.02, {"worst": "missed"}),
        ("hbm_read_bytes", 0.004, {"median": "aim", "within": "must", "worst": "aim"}),
        ("hbm_read_bytes", -0.015, {"median": "must", "within": "must", "worst": "aim"}),
        ("hbm_read_bytes", 0.09, {"median": "missed", "within": "must", "worst": "short of aim"}),
        ("hbm_read_bytes", 0.11, {"median": "missed", "within": "missed", "worst": "short of aim"}),
        ("hbm_write_bytes", 0.03, {"median": "must"}),
        ("time_s", 0.05, {"mean": "aim", "spearman": "not compared", "regret": "not compared"}),
        ("time_s", 0.051, {"mean": "must", "spearman": "not compared", "regret": "not compared"}),
        ("time_s", 0.14, {"mean": "must", "spearman": "not compared", "regret": "not compared"}),
        ("time_s", -0.16, {"mean": "missed", "spearman": "not compared", "regret": "not compared"}),
        ("peak_memory_bytes", 0.02, {"worst": "missed"}),
    ],
)
def test_verdicts_follow_the_limits(quantity: str, error: float, grades: dict[str, str]) -> None:
    """On one point with one error."""
    statistic = statistics([("a", error)], quantity)
    assert statistic
    reached = {
        verdict.rule.figure: verdict.grade
        for verdict in verdicts({quantity: statistic}, [])
        if verdict.rule.quantity == quantity
    }
    assert reached == grades


def test_limits_name_what_breaks_them() -> None:
    """Point, quantity, its error and what is allowed; within the limit nothing is said."""
    point = large_point()
    (line,) = failures([compared(point, {"time_s": 0.3})], {"time_s": 0.2, "hbm_read_bytes": 0.1})
    assert line == f"{point.key}: time_s is off by +30.0%, allowed is 20.0%"
    assert failures([compared(point, {"time_s": -0.19})], {"time_s": 0.2}) == []
    assert len(failures([compared(point, {"time_s": -0.3})], {"time_s": 0.2})) == 1
    exact = compared(point, {"time_s": 0.25})
    assert failures([exact], {"time_s": abs(exact.errors()["time_s"])}) == []


def test_the_worst_shape_decides_about_an_order() -> None:
    """The least rank correlation, which may be its limit, and the largest regret, each with its shape."""
    ranked = [Ranking(name=name, configs=6, spearman=rank, regret=regret, mean=0.0)
              for name, rank, regret in (("good", 0.99, 1.04), ("bad", 0.95, 1.06))]  # fmt: skip
    by_figure = {verdict.rule.figure: verdict for verdict in verdicts({}, ranked)}
    assert (by_figure["spearman"].value, by_figure["spearman"].worst, by_figure["spearman"].grade) == (
        0.95,
        "bad",
        "must",
    )
    assert (by_figure["regret"].value, by_figure["regret"].worst, by_figure["regret"].grade) == (
        1.06,
        "bad",
        "short of aim",
    )


def test_what_is_not_known_breaks_a_limit() -> None:
    """A point without counters, or without any measurement, proves nothing; without limits nothing fails."""
    point = large_point()
    (line,) = failures([compared(point, counted=False)], {"hbm_read_bytes": 0.1})
    assert line == f"{point.key}: hbm_read_bytes is not known"
    assert failures([lost(point, "hang")], {"time_s": 0.1}) == [f"{point.key}: hang"]
    assert failures([lost(point, "hang")], {}) == []


def test_predictions_use_what_the_compiler_promised() -> None:
    """Registers of the row, not the estimate; rows that cannot be predicted say why; lost rows are not predicted."""
    points = some_points(3)
    rows = [measured(point, predicted(point)) for point in points]
    tight = replace(rows[0].resources[0], registers_per_thread=255)
    huge = replace(rows[1].resources[0], smem_bytes_per_cta=1 << 20)
    rows[0], rows[1] = replace(rows[0], resources=(tight,)), replace(rows[1], resources=(huge,))
    gone = lost(points[2], "hang")
    rows[2] = replace(rows[2], outcome=gone.outcome)
    comparisons = compare_rows(rows, H200)
    assert comparisons[0].prediction
    assert comparisons[0].prediction.launches[0].registers_per_thread == 255
    assert comparisons[0].prediction.launches[0].resources == "compiled"
    assert comparisons[1].objections[0].startswith("cannot be predicted: shared memory")
    assert comparisons[2].prediction is None


def test_both_sides_start_with_the_same_l2() -> None:
    """A warm point is predicted warm, and launches as in a replayed graph, as they are timed."""
    point = a_point("naive", PROBLEM, l2="warm")
    row = measured(point, predicted(point))
    (comparison,) = compare_rows([row], H200)
    assert comparison.prediction
    cold = predicted(replace(point, l2="cold"))
    assert comparison.prediction.total.hbm_read_bytes < cold.total.hbm_read_bytes
    alike = simulate(
        PROBLEM, schedule="naive", config=point.config, l2="warm", overhead="graph", resources=row.resources
    )
    assert comparison.prediction.time_s == alike.time_s


def test_halves_share_the_points_and_leave_none_out() -> None:
    """JSON holds every point, also those that do not count, and all statistics are numbers or null."""
    comparisons = [compared(point) for point in some_points(12)]
    validation = a_validation(*comparisons, lost(large_point(), "hang"))
    document = json.loads(json.dumps(validation.to_dict(), allow_nan=False))
    assert len(document["points"]) == 13
    halves = document["halves"]
    assert halves["all"]["points"] == 12 == halves["fitting"]["points"] + halves["test"]["points"]
    assert min(halves["fitting"]["points"], halves["test"]["points"]) > 0
    assert document["points"][12]["objections"] == ["hang"]
    assert document["points"][0]["compared"]["time_s"]["relative_error"] == pytest.approx(0, abs=1e-9)
