"""An L2 full of data that others wrote: a launch has them written back, so far as it needs the room."""

from dataclasses import replace

import pytest
from machine.toys import GPU, ONE_PARTITION, TILE_BYTES, run, run_all, sweeps, writes
from tilesight.simulator.device.device import load_device

DIRTY = replace(ONE_PARTITION, l2_dirty_fraction=0.5)
LEFT_BYTES = DIRTY.l2_bytes // 2
DRIVEN = DIRTY.sm.l2_driven_out_fraction


@pytest.mark.parametrize("tiles", [1, 20, 60, 300, 2000])
def test_reads_drive_out_their_share_until_nothing_is_left(tiles: int) -> None:
    """Each byte that comes into L2 has a fixed part of a byte written back, all that is dirty at most."""
    seen = run(sweeps(tiles=tiles, times=1, slabs=(0,)), gpu=DIRTY, l2="dirty")
    assert seen.hbm_read_bytes == tiles * TILE_BYTES
    assert seen.hbm_write_bytes == pytest.approx(min(LEFT_BYTES, DRIVEN * tiles * TILE_BYTES), abs=2 * tiles)


@pytest.mark.parametrize("tiles", [1, 16, 32, 64, 200])
def test_every_byte_stored_has_one_written_back(tiles: int) -> None:
    """Where as much is dirty as may be, what is stored pushes out the oldest: others' data, then its own."""
    seen = run(writes(tiles=tiles, slabs=(0,)), gpu=DIRTY, l2="dirty")
    assert seen.hbm_write_bytes == pytest.approx(tiles * TILE_BYTES, abs=2 * tiles)


def test_from_an_empty_l2_nothing_of_others_is_written() -> None:
    """A cold reader writes nothing, whatever part of L2 may be dirty."""
    assert run(sweeps(tiles=500, times=1, slabs=(0,)), gpu=DIRTY).hbm_write_bytes == 0


def test_the_second_launch_finds_what_is_left_of_the_zeros() -> None:
    """Data of others are written back once in a pipeline, not once a launch."""
    first, second = run_all(
        *[sweeps(tiles=300, times=1, slabs=(slab,), name=name) for slab, name in ((0, "X"), (1, "Y"))],
        gpu=DIRTY, l2="dirty",
    )  # fmt: skip
    assert first.hbm_write_bytes + second.hbm_write_bytes == pytest.approx(LEFT_BYTES, abs=1000)


def test_a_dirty_start_takes_longer_than_a_clean_one_by_what_is_written_back() -> None:
    """The delay is the time of the write-back at the rate of device memory, within what mixing costs."""
    slow = dict.fromkeys(("hbm_peak_bytes_per_s", "hbm_read_bytes_per_s", "hbm_write_bytes_per_s"), 1e10)
    gpu = replace(GPU, l2_dirty_fraction=0.5, **slow)
    reader = sweeps(tiles=2000, times=1, slabs=(0, 1), stages=4)
    clean, dirty = (run(reader, gpu=gpu, l2=l2) for l2 in ("cold", "dirty"))
    written_s = (dirty.hbm_write_bytes - clean.hbm_write_bytes) / gpu.hbm_write_bytes_per_s
    longer_s = (dirty.cycles - clean.cycles) / gpu.boost_clock_hz
    assert 0.5 * written_s < longer_s < 3.0 * written_s


def test_what_is_written_back_is_not_extrapolated() -> None:
    """A grid that is continued from a steady state writes the data of others back once, as one stepped through."""
    gpu = replace(load_device("h100-sxm"), sms=4)
    launch = sweeps(tiles=8, times=1, slabs=tuple(range(40000)))
    whole, continued = (run(launch, gpu=gpu, l2="dirty", steady_state=steady) for steady in (False, True))
    assert continued.simulated_fraction < 0.9
    assert continued.hbm_write_bytes == pytest.approx(whole.hbm_write_bytes, rel=0.01)
