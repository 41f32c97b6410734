"""A prediction's figures: what the JSON holds, and how launches make a total."""

import json
from typing import Any

import pytest
from support.made_up import a_launch, a_prediction
from tilesight.simulator.traffic import Traffic

FIGURES = {
    "time_s",
    "cycles",
    "clock_hz",
    "bottleneck",
    "hbm_read_bytes",
    "hbm_write_bytes",
    "l2_read_bytes",
    "l2_write_bytes",
    "l2_hit_fraction",
    "fabric_bytes",
    "smem_fill_bytes",
    "smem_read_bytes",
    "smem_write_bytes",
    "matmul_flop",
    "other_flop",
    "exp_count",
}
OF_A_LAUNCH = {
    "name",
    "grid",
    "ctas_per_sm",
    "waves",
    "occupancy_fraction",
    "registers_per_thread",
    "smem_bytes_per_cta",
    "resources",
}


def test_the_object_has_the_promised_parts() -> None:
    """The keys that programs rely on."""
    shown = a_prediction().to_dict()
    assert {"schema", "device", "schedule", "problem", "config", "launches", "total"} <= set(shown)


def test_each_launch_and_the_total_hold_every_figure() -> None:
    """The same figures at both levels, and more about a launch."""
    shown: dict[str, Any] = a_prediction().to_dict()
    for launch in shown["launches"]:
        assert set(launch) >= FIGURES | OF_A_LAUNCH
    assert FIGURES | {"peak_memory_bytes", "fits"} <= set(shown["total"])


def test_the_total_is_the_sum_of_the_launches() -> None:
    """Whatever adds up is added up."""
    shown: dict[str, Any] = a_prediction(a_launch(time_s=1e-3), a_launch(time_s=2e-3)).to_dict()
    for key in ("time_s", "cycles", "hbm_read_bytes", "smem_fill_bytes", "matmul_flop", "exp_count"):
        assert shown["total"][key] == pytest.approx(sum(launch[key] for launch in shown["launches"]))


def test_hit_fractions_are_not_summed() -> None:
    """The total's fraction weighs launches by what they read."""
    half = a_launch(traffic=Traffic(time_s=1e-3, cycles=1.0, l2_read_bytes=100, l2_hit_bytes=50))
    none = a_launch(traffic=Traffic(time_s=1e-3, cycles=1.0, l2_read_bytes=300, l2_hit_bytes=0))
    assert a_prediction(half, none).total.l2_hit_fraction == pytest.approx(50 / 400)


def test_the_bottleneck_is_that_of_the_longest_launch() -> None:
    """In whatever place it stands."""
    short, long = a_launch(time_s=1e-3, bottleneck="hbm"), a_launch(time_s=2e-3, bottleneck="tensor")
    assert a_prediction(short, long).bottleneck == "tensor"
    assert a_prediction(long, short).longest_launch is long


def test_the_clock_leaves_launch_overhead_out() -> None:
    """Cycles are those of kernels alone."""
    traffic = Traffic(time_s=3e-3, cycles=2e6)
    prediction = a_prediction(a_launch(traffic=traffic, overhead_s=1e-3))
    assert prediction.clock_hz == pytest.approx(1e9)


def test_only_options_that_the_schedule_reads_are_told() -> None:
    """Others would look as if they mattered."""
    prediction = a_prediction(options=("block_m", "num_warps"))
    assert prediction.config_dict() == {"block_m": 128, "num_warps": 4}


def test_the_object_is_json_without_further_ado() -> None:
    """No tuples, no numpy numbers, no NaN."""
    shown = a_prediction().to_dict()
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
