"""Kernels follow each other in a stream at least 6 us apart; each has a ramp of 3,700 cycles, on an H200."""

from dataclasses import replace

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import simulate

H200 = load_device("h200")
TINY = AttentionProblem(batch=1, heads=1, seqlen_q=64, seqlen_k=64, head_dim=64)
LARGE = AttentionProblem(batch=4, heads=32, seqlen_q=2048, seqlen_k=2048, head_dim=64)


@pytest.mark.parametrize(("schedule", "launches"), [("flash2", 1), ("naive", 3), ("unfused", 6)])
def test_tiny_launches_in_a_stream_take_the_launch_interval(schedule: str, launches: int) -> None:
    """The kernel itself hides behind the launch of the next."""
    seen = simulate(TINY, schedule=schedule, device=H200, overhead="stream")
    assert len(seen.launches) == launches
    assert seen.time_s == pytest.approx(launches * 6.0e-6)
    assert all(launch.bottleneck in ("launch", "latency") for launch in seen.launches)


@pytest.mark.parametrize("problem", [TINY, LARGE], ids=["tiny", "large"])
def test_a_graph_adds_nothing_to_a_ramp_that_is_longer(problem: AttentionProblem) -> None:
    """Nor less than its interval to a kernel without a ramp."""
    seen = simulate(problem, schedule="naive", device=H200, overhead="graph")
    bare = simulate(problem, schedule="naive", device=replace(H200, launch_ramp_cycles=0), overhead="graph")
    for launch, other in zip(seen.launches, bare.launches, strict=True):
        assert launch.traffic.time_s == pytest.approx(launch.traffic.cycles / launch.clock_hz)
        # What L2 has not taken of the last stores it takes within the ramp.
        assert launch.traffic.cycles == pytest.approx(other.traffic.cycles + H200.launch_ramp_cycles, abs=10)
        assert other.traffic.time_s == pytest.approx(other.traffic.cycles / other.clock_hz + H200.launch_graph_s)


def test_overhead_changes_neither_cycles_nor_bytes() -> None:
    """Only the time between kernels differs."""
    stream, graph = (simulate(TINY, schedule="unfused", overhead=way).total for way in ("stream", "graph"))
    assert stream.time_s > graph.time_s
    assert stream.cycles == graph.cycles
    assert stream.hbm_read_bytes == graph.hbm_read_bytes


def test_a_long_kernel_hides_the_stream_interval() -> None:
    """Beyond 6 us a stream costs no more than a graph."""
    stream, graph = (simulate(LARGE, device=H200, overhead=way).time_s for way in ("stream", "graph"))
    assert stream == graph > 10 * H200.launch_stream_s
