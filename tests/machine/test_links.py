"""Every link takes requests one after the other at its bandwidth; what lies behind it adds its latency."""

from dataclasses import replace

import pytest
from machine.toys import GPU, ONE_PARTITION, TILE_BYTES, cost, launch, run, run_all, sweeps, tensor, tile
from tilesight.simulator.launch.program import Loop, Step

PORT = TILE_BYTES / 64
MISS = 16 + 200 + 100 + PORT
HIT = TILE_BYTES / 256 + 100 + PORT


def test_a_miss_takes_device_memory_l2_and_the_port() -> None:
    """16 cycles of transfer and 200 of latency to L2, 100 from there, 16 into the SM."""
    assert run(sweeps(tiles=1, times=1, slabs=(0,)), gpu=ONE_PARTITION).cycles == MISS == 332


def test_a_hit_takes_l2_and_the_port() -> None:
    """4 cycles of transfer, 100 of latency, 16 into the SM."""
    twice = run(sweeps(tiles=1, times=2, slabs=(0,)), gpu=ONE_PARTITION)
    assert twice.cycles == MISS + HIT == 332 + 120


@pytest.mark.parametrize(("order", "cycles"), [("XY", MISS), ("YX", PORT + MISS)])
def test_a_step_waits_for_the_tile_that_comes_last_not_for_the_one_named_last(order: str, cycles: float) -> None:
    """X misses and Y hits: the step waits for X, and what is named second passes the port second."""
    before, both = Step(name="one", loads=(tile("Y"),)), Step(name="both", loads=tuple(tile(name) for name in order))
    program = launch((before, both), (tensor("X", 1), tensor("Y", 1)), [(0,)])
    assert run(program, gpu=ONE_PARTITION).cycles == MISS + cycles


def test_what_is_homed_far_adds_the_fabric() -> None:
    """Half of a tile comes from the other partition: 50 cycles later on a miss, and on a hit 4 for its transfer."""
    near, both = (run(sweeps(tiles=1, times=2, slabs=(0,)), gpu=gpu).cycles for gpu in (ONE_PARTITION, GPU))
    assert both == near + 50 + 4


def test_a_copy_from_the_far_partition_takes_the_fabric_alone() -> None:
    """What the other SM's partition holds comes in 4 cycles of transfer, 50 + 100 of latency, and 16 into the SM."""
    body = (
        Loop(counter="i", trips="waits", body=(Step(name="wait"),)),
        Loop(counter="j", trips="loads", body=(Step(name="load", loads=(tile("X"),)),)),
    )
    near, far = (
        launch(body, (tensor("X", 1),), items, ("slab", "waits", "loads"))
        for items in ([(0, 0, 1)], [(0, 1, 0), (0, 0, 1)])
    )
    first, second = run_all(near, far, costs={"wait": cost(1)})
    assert first.cycles == MISS + 50
    assert (second.hbm_read_bytes, second.fabric_bytes) == (0, TILE_BYTES / 2)
    assert second.cycles == TILE_BYTES / 2 / 128 + 50 + 100 + PORT


def test_nobody_gets_data_before_it_is_there() -> None:
    """SMs of both partitions that ask for a tile at once get it together, though one finds its tags in L2."""
    seen = run(sweeps(tiles=16, times=1, slabs=(0, 0)), record=True)
    assert list(seen.timeline[:, 3]) == [16 * (MISS + 50)] * 2


@pytest.mark.parametrize(("request_fraction", "cycles"), [(0.0, 400), (0.25, 450), (1.0, 600)])
def test_l2_takes_stores_beside_loads_and_their_requests(request_fraction: float, cycles: float) -> None:
    """100 stores take 4 cycles each at their port; 50 loads, of two SMs each, 4 at theirs and a part of it there."""
    numbers = replace(ONE_PARTITION.sm, l2_request_fraction=request_fraction)
    gpu = replace(ONE_PARTITION, sm=numbers, sm_fill_bytes_per_cycle=8192, l2_latency_cycles=1)
    both = tuple(tile(name, i=1) for name in "XY")
    step = Step(name="turn", loads=both[:1], stores=both[1:])
    warming, turns = (
        launch((Loop(counter="i", trips=25, body=body),), (tensor("X", 25), tensor("Y", 25, role="output")), items)
        for body, items in (((Step(name="load", loads=both[:1]),), [(0,)]), ((step,), [(0,)] * 4))
    )
    assert run_all(warming, turns, gpu=gpu)[1].cycles == pytest.approx(cycles, rel=0.05)


@pytest.mark.parametrize("waiting", [2, 5, 40])
def test_device_memory_serves_one_after_the_other(waiting: int) -> None:
    """Loads of one step leave HBM 16 cycles apart: the last of n comes 16 (n - 1) cycles after the first."""
    gpu = replace(ONE_PARTITION, sm_fill_bytes_per_cycle=8192)
    loads = tuple(tile("X", one=i) for i in range(waiting))
    seen = run(launch([Step(name="load", loads=loads)], (tensor("X", 40),), [(0, 1)], ("slab", "one")), gpu=gpu)
    assert seen.cycles == pytest.approx(MISS - PORT + 16 * (waiting - 1), abs=waiting * TILE_BYTES / 8192)


def test_a_stream_runs_at_the_bandwidth_of_device_memory() -> None:
    """With enough loads under way, twice the bandwidth is half the time, to within the latency."""
    stream = sweeps(tiles=400, times=1, slabs=(0, 1), stages=8)
    slow = replace(ONE_PARTITION, hbm_read_bytes_per_s=16e9)
    faster = replace(ONE_PARTITION, hbm_read_bytes_per_s=32e9)
    for gpu, bytes_per_cycle in ((slow, 16), (faster, 32)):
        assert run(stream, gpu=gpu).cycles == pytest.approx(800 * TILE_BYTES / bytes_per_cycle, abs=2 * MISS)


def test_the_port_of_an_sm_limits_what_it_takes_in() -> None:
    """Hits alone, 64 B per cycle: two SMs take twice as much in the same time."""
    wide = replace(ONE_PARTITION, l2_bytes_per_s=1e12, hbm_peak_bytes_per_s=1e12, hbm_read_bytes_per_s=1e12)
    tiles, times = 16, 40
    alone, both = (run(sweeps(tiles=tiles, times=times, slabs=slabs, stages=8), gpu=wide) for slabs in ((0,), (0, 1)))
    assert alone.cycles >= tiles * times * PORT
    assert both.cycles == pytest.approx(alone.cycles, rel=0.05)


def test_the_partitions_share_the_bandwidth_of_the_l2() -> None:
    """Four SMs on one slow partition take as long as two on each of two: a partition has its half of the rate."""
    slow = {"sms": 4, "l2_bytes_per_s": 16e9, "fabric_bytes_per_s": 1e12, "fabric_latency_cycles": 0}
    sweep = sweeps(tiles=8, times=20, slabs=(0, 1, 2, 3))
    whole, split = (run(sweep, gpu=replace(gpu, **slow)) for gpu in (ONE_PARTITION, GPU))
    assert whole.cycles == pytest.approx(4 * 8 * 20 * TILE_BYTES / 16, rel=0.02)
    assert split.cycles == pytest.approx(whole.cycles, rel=0.02)
