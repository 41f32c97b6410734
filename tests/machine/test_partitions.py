"""An L2 of two partitions: far data is copied into the near one, so shared data takes two places, private data 1.5."""

from dataclasses import replace

import pytest
from machine.toys import GPU, KIB, ONE_PARTITION, TILE_BYTES, every_sm_sweeps, run, sweeps
from tilesight.simulator.device.device import load_device

L2_TILES = GPU.l2_bytes // TILE_BYTES
H200 = replace(load_device("h200"), l2_set_spread=0)
MB = 10**6
MIB = 1 << 20
BOTH_SMS = (0, 0)


@pytest.mark.parametrize("resolution", ["chunk", "line"])
def test_data_that_all_sms_share_counts_twice(resolution: str) -> None:
    """Swept four times by SMs of both partitions, half the L2 is read once."""
    seen = run(sweeps(tiles=L2_TILES // 2 - 1, times=4, slabs=BOTH_SMS), resolution=resolution)
    assert seen.hbm_read_bytes == (L2_TILES // 2 - 1) * TILE_BYTES


def test_shared_data_of_half_the_l2_just_fits() -> None:
    """The capacity is exact: one tile more than half the L2 and LRU misses every tile of every sweep."""
    fits = run(sweeps(tiles=L2_TILES // 2, times=4, slabs=BOTH_SMS))
    too_much = run(sweeps(tiles=L2_TILES // 2 + 1, times=4, slabs=BOTH_SMS))
    assert fits.hbm_read_bytes == L2_TILES // 2 * TILE_BYTES
    assert too_much.hbm_read_bytes == 4 * (L2_TILES // 2 + 1) * TILE_BYTES


def test_one_partition_holds_shared_data_once() -> None:
    """Without a second partition all of the L2 is there for it, and nothing crosses a fabric."""
    fits = run(sweeps(tiles=L2_TILES, times=4, slabs=BOTH_SMS), gpu=ONE_PARTITION)
    too_much = run(sweeps(tiles=L2_TILES + 1, times=4, slabs=BOTH_SMS), gpu=ONE_PARTITION)
    assert fits.hbm_read_bytes == L2_TILES * TILE_BYTES
    assert too_much.hbm_read_bytes == 4 * (L2_TILES + 1) * TILE_BYTES
    assert fits.fabric_bytes == too_much.fabric_bytes == 0


def test_private_data_counts_one_and_a_half_times() -> None:
    """Two thirds of the L2 in two slabs, one per SM, are read once; two tiles more are read in every sweep."""
    share = L2_TILES // 3
    fits = run(sweeps(tiles=share, times=4, slabs=(0, 1)))
    too_much = run(sweeps(tiles=share + 1, times=4, slabs=(0, 1)))
    assert fits.hbm_read_bytes == 2 * share * TILE_BYTES
    assert too_much.hbm_read_bytes == 4 * 2 * (share + 1) * TILE_BYTES


@pytest.mark.parametrize("tiles", [20, 40])
def test_fabric_carries_shared_data_once_and_private_data_half(tiles: int) -> None:
    """Each partition fetches the half that is homed in the other; with private data only one of them does."""
    shared = run(sweeps(tiles=tiles, times=4, slabs=BOTH_SMS))
    private = run(sweeps(tiles=tiles, times=4, slabs=(0, 1)))
    assert shared.fabric_bytes == shared.hbm_read_bytes
    assert private.fabric_bytes == private.hbm_read_bytes / 2


def test_lines_find_their_home_by_hash() -> None:
    """Line by line, fabric bytes differ from the exact half only as a fair coin does."""
    seen = run(sweeps(tiles=20, times=1, slabs=(0, 1)), resolution="line")
    lines = seen.hbm_read_bytes / 128
    assert abs(seen.fabric_bytes / 128 - lines / 2) < 3 * (lines / 4) ** 0.5


@pytest.mark.parametrize(("mb", "times_read"), [(28, 1), (31, 1), (32, 3)])
def test_h200_misses_a_shared_buffer_above_28_to_32_mb(mb: int, times_read: int) -> None:
    """Three sweeps of all 132 SMs over one buffer: read once up to half of the L2, each time beyond."""
    seen, size = every_sm_sweeps(H200, total_bytes=mb * MB, shared=True, times=3)
    assert seen.hbm_read_bytes == times_read * size
    assert seen.fabric_bytes == seen.hbm_read_bytes


@pytest.mark.parametrize(("bytes_", "times_read"), [(39.9 * MIB, 1), (41.3 * MIB, 3), (48 * MB, 3)])
def test_h200_misses_private_buffers_above_40_mib(bytes_: float, times_read: int) -> None:
    """Three sweeps of each SM over a buffer of its own, in step: read once up to two thirds of the L2."""
    gpu = replace(H200, hbm_channels=1)
    seen, size = every_sm_sweeps(gpu, total_bytes=int(bytes_), shared=False, times=3)
    assert abs(size - bytes_) < 132 * 8 * KIB
    assert seen.hbm_read_bytes == times_read * size
    assert seen.fabric_bytes == seen.hbm_read_bytes / 2
