"""Device memory is several servers: a tile takes as long as its channels, and waits for who wants the same ones."""

from dataclasses import replace

import pytest
from machine.toys import ONE_PARTITION, TILE_BYTES, launch, run, run_all, sweeps, tensor, tile, writes
from tilesight.simulator.launch.program import Loop, Step

MISS = 16 + 200 + 100 + TILE_BYTES / 64


@pytest.mark.parametrize("channels", [1, 4, 16])
def test_a_tile_comes_at_the_bandwidth_of_its_channel(channels: int) -> None:
    """On an H200, 8 KiB come 140 cycles later than latencies and the whole bandwidth say."""
    seen = run(sweeps(tiles=1, times=1, slabs=(0,)), gpu=replace(ONE_PARTITION, hbm_channels=channels))
    assert seen.cycles == MISS + 16 * (channels - 1)


@pytest.mark.parametrize("channels", [4, 16])
def test_tiles_of_many_channels_come_at_the_bandwidth_of_all(channels: int) -> None:
    """Loads of one step: the last one waits as long as with one server, but for how unevenly they fall."""
    gpu = replace(ONE_PARTITION, sm_fill_bytes_per_cycle=8192, hbm_channels=channels)
    loads = tuple(tile("X", one=i) for i in range(640))
    loading = launch([Step(name="load", loads=loads)], (tensor("X", 640),), [(0, 1)], ("slab", "one"))
    assert 640 * 16 <= run(loading, gpu=gpu).cycles - MISS < 1.4 * 640 * 16


def test_who_waits_for_a_tile_waits_for_those_before_it_in_its_channel() -> None:
    """At half of the bandwidth, tiles would come as if nobody else loaded; on an H200 they come 70 to 220 later."""
    gpu = replace(ONE_PARTITION, sms=32, hbm_channels=8, l2_bytes=1 << 22, l2_bytes_per_s=1e12)
    step = Step(name="load", loads=(tile("X", i=1),))

    def wait(sms: int) -> float:
        body = (Loop(counter="i", trips=40, body=(step,)),)
        return run(launch(body, (tensor("X", 40, slabs=sms),), [(slab,) for slab in range(sms)]), gpu=gpu).cycles / 40

    alone, busy = wait(1), wait(16)
    assert alone == MISS + 16 * 7
    assert 30 < busy - alone < 200


def test_what_is_written_waits_for_a_channel_with_time() -> None:
    """Reads would wait behind what L2 writes back."""
    small = {"sms": 8, "l2_bytes": 1 << 16, "l2_bytes_per_s": 1e12, "hbm_channels": 16}
    gpu = replace(ONE_PARTITION, **small)  # type: ignore[arg-type]
    store = writes(tiles=100, slabs=(0, 1, 2, 3))
    first, second = run_all(store, store, gpu=gpu)
    assert second.hbm_write_bytes == pytest.approx(400 * TILE_BYTES, rel=0.05)
    assert second.cycles == pytest.approx(400 * 16, rel=0.1)
    assert first.cycles <= second.cycles
