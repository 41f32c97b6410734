"""Kernels before a launch: what they have read and written it finds in L2, or has written back."""

from dataclasses import replace

import pytest
from machine.toys import ONE_PARTITION, TILE_BYTES, run, run_all, sweeps, writes
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.launch.before import Before, StorageUse, recent
from tilesight.simulator.launch.program import Launch

GPU = replace(ONE_PARTITION, l2_dirty_fraction=0.5)
ROOM = GPU.l2_bytes // TILE_BYTES
"""Tiles that L2 holds."""


def numbered(launch: Launch, storage: int) -> Launch:
    """The launch, whose only tensor is a storage."""
    (tensor,) = launch.program.tensors
    return replace(launch, program=replace(launch.program, tensors=(replace(tensor, storage=storage),)))


def used(number: int, tiles: float, written: bool = False) -> StorageUse:
    """A kernel's use of a storage."""
    return StorageUse(number=number, bytes=tiles * TILE_BYTES, written=written)


def reads(tiles: int, before: Before, gpu: Device = GPU) -> tuple[int, int]:
    """Bytes that HBM sends and takes in while a launch reads storage 7."""
    seen = run(numbered(sweeps(tiles=tiles, times=1, slabs=(0,)), 7), gpu=gpu, before=before)
    return seen.hbm_read_bytes, seen.hbm_write_bytes


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("gpu", [GPU, replace(load_device("h100-sxm"), sms=4)])
def test_what_fits_l2_is_read_from_there(gpu: Device, written: bool) -> None:
    """Read or written before, a storage of a third of L2 does not come from HBM again, nor go there."""
    tiles = gpu.l2_bytes // TILE_BYTES // 3
    assert reads(tiles, ((used(7, tiles, written),),), gpu) == (0, 0)


def test_what_others_have_read_since_is_gone() -> None:
    """The least recently used leaves first: a kernel that sweeps L2 leaves nothing of what was there."""
    kept, swept = (used(7, ROOM // 3),), (used(8, 2 * ROOM),)
    assert reads(ROOM // 3, (swept, kept)) == (0, 0)
    assert reads(ROOM // 3, (kept, swept)) == (ROOM // 3 * TILE_BYTES, 0)


def test_the_part_that_was_used_is_the_first() -> None:
    """Of a storage that was read by half, the other half comes from HBM."""
    tiles = ROOM // 2
    sent, _ = reads(tiles, ((used(7, tiles / 2),),))
    assert sent == pytest.approx(tiles / 2 * TILE_BYTES, abs=TILE_BYTES)


def test_dirty_data_of_others_are_written_back_once() -> None:
    """A kernel that goes through all of L2 has HBM take in whatever was dirty: as much as may be."""
    _, written = reads(3 * ROOM, ((used(8, 3 * ROOM, written=True),),))
    assert written == pytest.approx(GPU.l2_dirty_fraction * GPU.l2_bytes, rel=0.1)


def test_streams_share_l2_by_their_bytes() -> None:
    """A kernel that reads three times what it writes leaves a quarter of L2 dirty, however long it ran."""
    streamed = (used(8, 9 * ROOM), used(9, 3 * ROOM, written=True))
    _, written = reads(3 * ROOM, (streamed,))
    assert written == pytest.approx(GPU.l2_bytes / 4, rel=0.1)


def test_a_launch_before_and_its_account_leave_the_same() -> None:
    """A pipeline of two launches moves what the second moves behind an account of the first."""
    first, second = (numbered(sweeps(tiles=ROOM // 2, times=1, slabs=(0,)), 7) for _ in range(2))
    _, whole = run_all(first, second, gpu=GPU)
    alone = run(second, gpu=GPU, before=((used(7, ROOM // 2),),))
    assert (whole.hbm_read_bytes, whole.hbm_write_bytes) == (alone.hbm_read_bytes, alone.hbm_write_bytes)


def test_written_again_what_is_dirty_is_not_written_back() -> None:
    """Stores to what is still in L2 make no more of it dirty."""
    launch = numbered(writes(tiles=ROOM // 3, slabs=(0,)), 7)
    assert run(launch, gpu=GPU, before=((used(7, ROOM // 3, written=True),),)).hbm_write_bytes == 0


def test_kernels_count_until_they_fill_l2_twice() -> None:
    """Older ones are left out, as nothing of theirs is there."""
    kernels = [(used(number, ROOM),) for number in range(5)]
    assert recent(kernels, GPU.l2_bytes) == tuple(kernels[3:])
    assert recent(kernels[:1], GPU.l2_bytes) == tuple(kernels[:1])
    assert recent([], GPU.l2_bytes) == ()


def test_a_kernel_that_used_more_of_a_storage_than_the_last_has_swept_what_was_there() -> None:
    """Each use of a storage counts for as much as it took, not for what the last took."""
    kept, swept, little = (used(7, ROOM // 3),), (used(8, 2 * ROOM),), (used(8, 1),)
    assert reads(ROOM // 3, (kept, little, little)) == (0, 0)
    assert reads(ROOM // 3, (kept, swept, little)) == (ROOM // 3 * TILE_BYTES, 0)
