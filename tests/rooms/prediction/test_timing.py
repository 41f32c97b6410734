"""Time as people measure it: one run, do_bench, again and again."""

from dataclasses import replace

import pytest
from support.made_rows import prediction_of, row_of
from tilesight.simulator.device.device import load_device
from tilesight.simulator.engine.clock import Activity, sustained_clock_hz
from tilesight.simulator.prediction.prediction import LaunchPrediction
from tilesight.simulator.prediction.timing import (
    EVENTS_S,
    ZEROED_BYTES,
    at_clock,
    at_do_bench_clock,
    in_graph,
    timing_text,
)

H100 = load_device("h100-sxm")
BUSY, IDLE = Activity(tensor=1.0, fill=0.3, hbm=0.2), Activity(0.0, 0.0, 0.0)


def launch(time_s: float) -> LaunchPrediction:
    """A launch at the clock of a burst with matrix products."""
    made = row_of(time_s).prediction
    assert made
    return at_clock(replace(made, traffic=replace(made.traffic, cycles=time_s * H100.tensor_boost_clock_hz)),
                    H100.tensor_boost_clock_hz)  # fmt: skip


def test_another_clock_keeps_cycles_and_overhead() -> None:
    """Half the clock is twice the time, but for the overhead."""
    slow = at_clock(replace(launch(1e-3), overhead_s=1e-4), H100.tensor_boost_clock_hz / 2)
    assert slow.traffic.time_s == pytest.approx(2.1e-3)
    assert slow.traffic.cycles == launch(1e-3).traffic.cycles


def test_do_bench_leaves_the_clock_of_what_has_no_products() -> None:
    """Zeroing memory and streaming it stay below the power limit."""
    (timed,) = at_do_bench_clock([launch(1e-4)], [IDLE], H100)
    assert timed.clock_hz == launch(1e-4).clock_hz


@pytest.mark.parametrize("time_s", [1e-5, 1e-4, 1e-3, 1e-2])
def test_the_clock_of_do_bench_lies_between_burst_and_sustained(time_s: float) -> None:
    """Products are slowed down, and never below where they would be without pauses."""
    (timed,) = at_do_bench_clock([launch(time_s)], [BUSY], H100)
    assert sustained_clock_hz(H100.tensor_boost_clock_hz, BUSY, H100) < timed.clock_hz <= H100.tensor_boost_clock_hz


def test_longer_launches_pause_less_and_clock_lower() -> None:
    """The pause of zeroing 256 MiB counts for less beside a longer launch."""
    clocks = [at_do_bench_clock([launch(time_s)], [BUSY], H100)[0].clock_hz for time_s in (1e-5, 1e-4, 1e-3, 1e-2)]
    assert clocks == sorted(clocks, reverse=True)
    assert clocks[0] > clocks[-1]


def test_launches_of_one_function_share_one_rhythm() -> None:
    """Two halves of a launch clock as the whole does."""
    halves = at_do_bench_clock([launch(5e-4)] * 2, [BUSY] * 2, H100)
    (whole,) = at_do_bench_clock([launch(1e-3)], [BUSY], H100)
    assert halves[0].clock_hz == halves[1].clock_hz == pytest.approx(whole.clock_hz)


def test_zeroing_is_what_triton_zeroes() -> None:
    """256 MiB, at the rate of device memory some 85 us of an H100 (89 measured: validate/lab/do_bench.py)."""
    assert 8e-5 < ZEROED_BYTES / H100.hbm_write_bytes_per_s < 1e-4


def test_events_are_counted_once_for_all_launches() -> None:
    """The total of do_bench is the sum of its launches and one pair of events."""
    row = replace(row_of(1e-3), do_bench=row_of(1.25e-3).prediction)
    prediction = replace(prediction_of(row), rows=(row, row))
    shown = prediction.measured_as("do_bench")
    assert shown.total.time_s == pytest.approx(2.5e-3 + EVENTS_S)
    assert [other.traffic.time_s for other in shown.rows] == [1.25e-3] * 2
    assert shown.times == prediction.times
    assert "as do_bench shows it" in shown.title
    assert shown.to_dict()["times"]["single"]["time_s"] == pytest.approx(2e-3)


def test_ways_that_agree_are_not_named() -> None:
    """The line stands where times differ by more than three percent alone."""
    assert timing_text({"single": (1e-3, 1e9), "sustained": (1.02e-3, 1e9)}, "single") == ""
    text = timing_text({"single": (1e-3, 2e9), "do_bench": (1.01e-3, 2e9), "sustained": (1.5e-3, 1e9)}, "single")
    assert text == "1.00 ms as a single run at 2.00 GHz (this table), 1.50 ms repeated without a pause at 1.00 GHz"
    assert timing_text({"single": (1e-3, 2e9), "do_bench": (2e-3, 2e9)}, "do_bench") == (
        "2.00 ms as do_bench shows it (this table), 1.00 ms as a single run"
    )


def test_what_was_not_predicted_is_refused() -> None:
    """A launch without a prediction for do_bench is refused so, in one line; a way that there is not is no way."""
    prediction = prediction_of(row_of(1e-3))
    shown = prediction.measured_as("do_bench")
    assert shown.refused == 1 and not shown.complete
    assert shown.rows[0].refused == "kernel k: its time as do_bench shows it is not predicted"
    with pytest.raises(ValueError, match="timing = 'ncu': must be one of single, do_bench, sustained"):
        prediction.measured_as("ncu")


def test_a_launch_in_a_graph_has_no_overhead_beside_its_cycles() -> None:
    """From its begin to that of the next one, at the same clock."""
    made = in_graph(replace(launch(1e-6), overhead_s=3e-6, graph_cycles=4000.0))
    assert made is not None
    assert made.overhead_s == 0.0
    assert made.traffic.time_s == pytest.approx(4000.0 / launch(1e-6).clock_hz)


def test_a_graph_is_refused_in_one_line_where_its_gaps_are_not_known() -> None:
    """It names the key of the device's file; other ways to measure still answer."""
    row = row_of(1e-6)
    assert row.measured_as("graph").prediction is None
    assert "graph_gap_s" in str(row.measured_as("graph").refused)
    assert "graph" not in prediction_of(row).times
    assert "single" in prediction_of(row).times
