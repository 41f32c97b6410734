"""Stores stay in L2 until something evicts them: write-back, in LRU order; what is dirty at the end is not written."""

from dataclasses import replace

import pytest
from machine.toys import GPU, ONE_PARTITION, TILE_BYTES, launch, run, run_all, sweeps, tensor, tile, writes
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.launch.program import Loop, Step
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import simulate

L2_TILES = GPU.l2_bytes // TILE_BYTES
H200 = load_device("h200")
both = pytest.mark.parametrize("gpu", [ONE_PARTITION, GPU], ids=["one partition", "two partitions"])


@both
@pytest.mark.parametrize("tiles", [1, 63, 64, 65, 100])
def test_writes_fall_short_of_the_output_by_the_l2(gpu: Device, tiles: int) -> None:
    """The newest 64 KiB stay dirty in L2; of two partitions the writer's holds copies of what is homed in the other."""
    seen = run(writes(tiles=tiles, slabs=(0,)), gpu=gpu)
    held = [L2_TILES] if gpu is ONE_PARTITION else [L2_TILES // 2, L2_TILES]
    assert seen.hbm_write_bytes == sum(max(0, tiles - kept) for kept in held) * TILE_BYTES // len(held)
    assert seen.hbm_read_bytes == 0


@both
def test_a_tile_written_again_and_again_is_written_back_once(gpu: Device) -> None:
    """Ten sweeps of stores over what fits leave everything in L2; the reads after them evict it once."""
    tiles = L2_TILES // gpu.l2_partitions
    write, read = writes(tiles=tiles, slabs=(0,), times=10), sweeps(tiles=2 * L2_TILES, times=1, slabs=(0, 0))
    wrote, after = run_all(write, read, gpu=gpu)
    assert wrote.hbm_write_bytes == 0
    assert after.hbm_write_bytes == tiles * TILE_BYTES


@both
@pytest.mark.parametrize("fraction", [0.25, 0.4, 0.5])
def test_dirty_data_fill_no_more_than_their_share_of_the_l2(gpu: Device, fraction: float) -> None:
    """Of 200 KiB written so much is left unwritten; what is clean may have all of the L2."""
    gpu = replace(gpu, l2_dirty_fraction=fraction)
    seen = run(writes(tiles=200, slabs=(0,)), gpu=gpu)
    assert 200 - seen.hbm_write_bytes / TILE_BYTES == pytest.approx(fraction * L2_TILES, abs=1)
    fits = sweeps(tiles=L2_TILES // gpu.l2_partitions**2, times=5, slabs=(0, 0))
    assert run(fits, gpu=gpu).hbm_read_bytes == run(fits, gpu=replace(gpu, l2_dirty_fraction=1)).hbm_read_bytes


def test_dirty_data_are_read_from_either_side_without_a_copy() -> None:
    """What takes its size in each partition already would take it a third time once the other side reads it."""
    gpu = replace(GPU, l2_dirty_fraction=0.5)
    half = writes(tiles=L2_TILES // 2, slabs=(0,))
    wrote, read, again = run_all(
        half, *[sweeps(tiles=L2_TILES // 2, times=1, slabs=(0, 0), name="Y", role="output")] * 2, gpu=gpu
    )
    assert [seen.hbm_write_bytes for seen in (wrote, read, again)] == [0, 0, 0]
    assert [seen.hbm_read_bytes for seen in (read, again)] == [0, 0]
    # The half that is at home with the writer crosses the fabric to the other SM each time.
    assert [seen.fabric_bytes for seen in (read, again)] == [L2_TILES // 4 * TILE_BYTES] * 2


def test_reads_evict_the_oldest_dirty_lines_first() -> None:
    """16 KiB written, then 48 KiB read: nothing leaves; 8 KiB more: the oldest 8 KiB of output leave."""
    write = writes(tiles=16, slabs=(0,))
    some = run_all(write, sweeps(tiles=48, times=1, slabs=(0,)), gpu=ONE_PARTITION)
    more = run_all(write, sweeps(tiles=56, times=1, slabs=(0,)), gpu=ONE_PARTITION)
    assert [seen.hbm_write_bytes for seen in some] == [0, 0]
    assert [seen.hbm_write_bytes for seen in more] == [0, 8 * TILE_BYTES]


def test_what_has_been_dirty_for_longest_is_written_and_stays() -> None:
    """Beyond the most that may be dirty the oldest is written back, once, and is read from L2 all the same."""
    gpu = replace(ONE_PARTITION, l2_dirty_fraction=0.25)
    reread = sweeps(tiles=40, times=1, slabs=(0,), name="Y", role="output")
    seen = run_all(writes(tiles=40, slabs=(0,)), reread, sweeps(tiles=L2_TILES, times=1, slabs=(0,)), gpu=gpu)
    assert [launched.hbm_write_bytes // TILE_BYTES for launched in seen] == [24, 0, 16]
    assert [launched.hbm_read_bytes // TILE_BYTES for launched in seen] == [0, 0, L2_TILES]


def test_dirty_lines_in_use_stay() -> None:
    """Read again between, the output is younger than the input, so the input makes room and nothing is written."""
    write, read = writes(tiles=16, slabs=(0,)), sweeps(tiles=48, times=1, slabs=(0,))
    reread = sweeps(tiles=16, times=1, slabs=(0,), name="Y", role="output")
    more = sweeps(tiles=48, times=1, slabs=(0,), name="Z")
    seen = run_all(write, read, reread, more, gpu=ONE_PARTITION)
    assert [launched.hbm_write_bytes for launched in seen] == [0, 0, 0, 0]
    assert [launched.hbm_read_bytes // TILE_BYTES for launched in seen] == [0, 48, 0, 48]


def test_evicted_lines_take_their_turn_at_device_memory() -> None:
    """36 KiB of write-backs at 64 B per cycle end 36 x 16 cycles after they began, and the launch with them."""
    seen = run(writes(tiles=100, slabs=(0,)), gpu=ONE_PARTITION)
    assert seen.cycles == 36 * TILE_BYTES / 64


def test_evicted_lines_leave_at_the_rate_of_writes() -> None:
    """36 KiB at 16 B per cycle take 36 x 64 cycles, though reads come at 64 B per cycle."""
    seen = run(writes(tiles=100, slabs=(0,)), gpu=replace(ONE_PARTITION, hbm_write_bytes_per_s=16e9))
    assert seen.cycles == 36 * TILE_BYTES / 16


def test_reads_and_the_write_backs_that_they_cause_share_device_memory() -> None:
    """A stream through an L2 full of output takes the time of both, one through an empty L2 that of the reads."""
    slow = replace(ONE_PARTITION, hbm_read_bytes_per_s=16e9, hbm_write_bytes_per_s=16e9)
    stream, write = sweeps(tiles=L2_TILES, times=1, slabs=(0,), stages=8), writes(tiles=L2_TILES, slabs=(0,))
    once = L2_TILES * TILE_BYTES / 16
    assert once < run(stream, gpu=slow).cycles < once + 400
    assert 2 * once < run_all(write, stream, gpu=slow)[1].cycles < 2 * once + 400


def test_what_was_read_first_is_dirty_once_written() -> None:
    """A tile that came from device memory goes back to it after a store."""
    read, write = sweeps(tiles=10, times=1, slabs=(0,), name="Y", role="output"), writes(tiles=10, slabs=(0,))
    seen = run_all(read, write, sweeps(tiles=L2_TILES, times=1, slabs=(0,)), gpu=ONE_PARTITION)
    assert [launched.hbm_write_bytes for launched in seen] == [0, 0, 10 * TILE_BYTES]


def test_a_store_drops_the_copies_of_what_it_changes() -> None:
    """Half of a buffer crosses the fabric for a store, and half for the SM that did not write it."""
    read, write = sweeps(tiles=8, times=1, slabs=(0, 0), name="Y", role="output"), writes(tiles=8, slabs=(0,))
    undisturbed, changed = run_all(read, read), run_all(read, write, read)
    assert [seen.fabric_bytes // TILE_BYTES for seen in undisturbed] == [8, 0]
    assert [seen.fabric_bytes // TILE_BYTES for seen in changed] == [8, 4, 4]
    assert [seen.hbm_read_bytes // TILE_BYTES for seen in changed] == [8, 0, 0]


@pytest.mark.parametrize(("heads", "seqlen"), [(32, 4096), (64, 2048), (8, 32768)])
def test_attention_writes_fall_short_by_the_newest_output(heads: int, seqlen: int) -> None:
    """On an H200, by 1 to 25 MB: what K, V and Q brought in since has pushed the older output out."""
    problem = AttentionProblem(batch=4, heads=heads, seqlen_q=seqlen, seqlen_k=seqlen, head_dim=64)
    seen = simulate(problem, device=H200, steady_state=False).total
    output = seen.l2_write_bytes
    assert output == 4 * heads * seqlen * (128 + 4)
    assert 1e6 < output - seen.hbm_write_bytes < 25e6


def test_an_output_that_fits_is_not_written_at_all() -> None:
    """A small launch ends before anything has left the L2."""
    problem = AttentionProblem(batch=1, heads=8, seqlen_q=2048, seqlen_k=2048, head_dim=64)
    assert simulate(problem, device=H200).total.hbm_write_bytes == 0


@both
def test_what_is_added_to_is_read_first(gpu: Device) -> None:
    """Sums that L2 lacks come from HBM, though nobody waits; 16 KiB of them that it has do not."""
    step = Step(name="add", stores=(tile("Y", path="atomic", i=1),))
    adds = launch((Loop(counter="i", trips=16, body=(step,)),), (tensor("Y", 16, role="output"),), [(0,)])
    first, again = run_all(adds, adds, gpu=gpu)
    assert (first.hbm_read_bytes, again.hbm_read_bytes) == (16 * TILE_BYTES, 0)
    assert first.l2_read_bytes == 0
    assert run(writes(tiles=16, slabs=(0,)), gpu=gpu).hbm_read_bytes == 0
