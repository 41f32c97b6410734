"""Nothing is faster than its busiest resource allows, nor than the roofline."""

from dataclasses import replace

from closed_forms.roofline import launch_roofline
from hypothesis import given, settings
from hypothesis import strategies as st
from laws.cases import Case, cases
from machine.toys import ONE_PARTITION, TILE_BYTES, run, sweeps

laws = settings(max_examples=150)
ROUNDING = 1e-9
CONTINUED = 1e-3
"""Where a grid is continued from its steady state, bytes and cycles are told from windows that differ a little."""


@laws
@given(case=cases(), l2=st.sampled_from(("cold", "warm")))
def test_no_launch_beats_its_roofline_nor_its_resources(case: Case, l2: str) -> None:
    """Compulsory bytes, products and exponentials at full rate; nothing of it is busy for longer than it lasts."""
    # Later launches may find their input in L2.
    for number, (seen, launch) in enumerate(zip(case.simulate(l2=l2).launches, case.launches, strict=True)):
        bound = launch_roofline(launch, case.device, l2="cold" if l2 == "cold" and number == 0 else "warm")
        assert seen.traffic.cycles / seen.clock_hz >= bound.bound_s * (1 - ROUNDING)
        assert seen.traffic.time_s >= case.device.launch_graph_s
        for name, share in seen.utilisation.items():
            assert share <= 1 + (ROUNDING if seen.simulated_fraction == 1 else CONTINUED), (seen.name, name)


@settings(max_examples=100)
@given(
    tiles=st.integers(1, 200),
    slabs=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    stages=st.integers(1, 8),
    rates=st.tuples(st.integers(10, 64), st.integers(10, 64)),
)
def test_more_bandwidth_never_slows_a_stream(tiles: int, slabs: list[int], stages: int, rates: tuple[int, int]) -> None:
    """Each CTA reads once from end to end; of several slabs, what comes sooner may change who waits for one tile."""
    stream = sweeps(tiles=tiles, times=1, slabs=slabs, stages=stages)
    slow, fast = (run(stream, gpu=replace(ONE_PARTITION, hbm_read_bytes_per_s=rate * 1e9)) for rate in sorted(rates))
    one_tile = TILE_BYTES / min(rates) if len(set(slabs)) > 1 else 0.0
    assert fast.cycles <= slow.cycles * (1 + ROUNDING) + one_tile
    assert fast.hbm_read_bytes == slow.hbm_read_bytes or len(set(slabs)) > 1
    assert slow.cycles >= tiles * len(set(slabs)) * TILE_BYTES / min(rates)


@laws
@given(case=cases())
def test_a_gpu_that_is_twice_as_fast_in_all_takes_half_the_time(case: Case) -> None:
    """Clocks, bandwidths and latencies in seconds: the same cycles and bytes, to the last bit."""
    rates = [name for name in type(case.device).__slots__ if name.endswith(("_bytes_per_s", "_clock_hz"))]
    faster = {name: 2 * getattr(case.device, name) for name in rates}
    device = replace(case.device, hbm_latency_s=case.device.hbm_latency_s / 2, **faster)
    for slow, fast in zip(case.simulate().launches, replace(case, device=device).simulate().launches, strict=True):
        assert slow.clock_hz * 2 == fast.clock_hz
        assert slow.traffic.cycles == fast.traffic.cycles
        assert slow.traffic.hbm_read_bytes == fast.traffic.hbm_read_bytes
