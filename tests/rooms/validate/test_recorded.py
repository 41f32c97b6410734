"""What real instruments printed, recorded on an H200: every field is read, and the figures are those of the launches.

`tests/recorded` holds the table of one `ncu` run over `POINTS`, and its list of metrics (cut to the families in use).
"""

from pathlib import Path

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.launch.walk import tally
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.validate.counters.ncu_output import CountedLaunch, offered, parse
from tilesight.validate.counters.table import COUNTERS, fields_of, resolve
from tilesight.validate.measure.doubts import counter_doubts
from tilesight.validate.measurement import LaunchMeasurement
from tilesight.validate.points.point import Point, runnable_config

RECORDED = Path(__file__).parents[2] / "recorded"
TABLE, QUERY = RECORDED / "ncu-h200.csv", RECORDED / "ncu-h200-metrics.txt"
needs_counters = pytest.mark.skipif(not TABLE.exists(), reason="no counters are recorded yet")

H200 = load_device("h200")
SMALL = AttentionProblem(batch=2, heads=16, seqlen_q=1024, seqlen_k=1024, head_dim=64)
BASE = AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
POINTS = [
    Point(schedule=schedule, problem=problem, config=runnable_config(schedule), l2=l2)
    for schedule, problem, l2 in (
        ("flash2", SMALL, "cold"),
        ("flash2", SMALL, "warm"),
        ("flash2", BASE, "cold"),
        ("flash2", BASE, "warm"),
        ("flash1", SMALL, "cold"),
    )
]
ALLOCATED = ("registers_per_thread", "smem_bytes_per_cta")


def counted() -> list[tuple[Point, Launch, CountedLaunch, dict[str, float]]]:
    """Each launch of the recorded run: what was asked for, what ncu printed, and our fields of it."""
    launches = [(point, launch) for point in POINTS for launch in point.launches(H200)]
    rows = parse(TABLE.read_text("utf-8"))
    metrics = resolve(offered(QUERY.read_text("utf-8")))
    return [(point, launch, row, fields_of(row, metrics)) for (point, launch), row in zip(launches, rows, strict=True)]


@needs_counters
def test_an_h200_has_a_counter_for_every_field() -> None:
    """The list that its ncu prints resolves the whole table."""
    assert set(resolve(offered(QUERY.read_text("utf-8")))) == {counter.field for counter in COUNTERS}


@needs_counters
def test_every_launch_was_counted_in_order() -> None:
    """One row for each launch of each point, with its grid and warps, and a value for every field."""
    for _, launch, row, fields in counted():
        assert (row.kernel, row.grid, row.num_warps) == (f"{launch.name}_kernel", launch.grid, launch.num_warps)
        assert all(fields[name] > 0 for name in ("registers_per_thread", "cycles", "time_s", "instructions")), fields
        assert fields["smem_bytes_per_cta"] >= 0


@needs_counters
def test_honest_counters_raise_no_doubt() -> None:
    """What an H200 really counted passes the checks for what cannot be."""
    for _, launch, row, fields in counted():
        measured = LaunchMeasurement(
            name=launch.name,
            grid=row.grid,
            num_warps=row.num_warps,
            registers_per_thread=int(fields["registers_per_thread"]),
            spilled_bytes_per_thread=0,
            smem_bytes_per_cta=int(fields["smem_bytes_per_cta"]),
            counters=fields,
        )
        assert counter_doubts(launch, measured, H200) == []


@needs_counters
def test_bytes_into_the_sms_are_those_that_the_program_loads() -> None:
    """Where loads go past L1: to 1 %."""
    for _, launch, _, fields in counted():
        if launch.name == "flash2":
            asked = sum(tally(launch.program).load_bytes.values())
            assert fields["smem_fill_bytes"] == pytest.approx(asked, rel=0.01)


@needs_counters
def test_a_cold_launch_reads_its_inputs_from_hbm_once() -> None:
    """Our own flush leaves nothing in L2, and K and V that fit are read once: to 2 %."""
    for point, launch, _, fields in counted():
        if launch.name == "flash2" and point.l2 == "cold":
            inputs = sum(tensor.size_bytes for tensor in launch.program.tensors if tensor.role == "input")
            assert fields["hbm_read_bytes"] == pytest.approx(inputs, rel=0.02)


@needs_counters
def test_a_warm_launch_finds_its_inputs_in_l2() -> None:
    """Where all tensors fit, a second run reads less than a tenth of them from HBM."""
    for point, launch, _, fields in counted():
        if launch.name == "flash2" and (point.problem, point.l2) == (SMALL, "warm"):
            inputs = sum(tensor.size_bytes for tensor in launch.program.tensors if tensor.role == "input")
            assert fields["hbm_read_bytes"] < 0.1 * inputs


@needs_counters
def test_the_clock_lies_between_idle_and_boost() -> None:
    """Cycles over time is a clock that the GPU has."""
    for _, _, _, fields in counted():
        assert 0.5 * H200.tensor_clock_hz < fields["cycles"] / fields["time_s"] < 1.05 * H200.boost_clock_hz
