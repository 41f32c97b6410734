"""The next launch starts with the L2 as the last one left it, and with empty L1s."""

import pytest
from machine.toys import ONE_PARTITION, TILE_BYTES, run, run_all, sweeps, writes
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import simulate


def test_a_launch_reads_in_l2_what_the_last_one_wrote() -> None:
    """A scratch tensor that fits is never read from device memory."""
    wrote, read = run_all(writes(tiles=64, slabs=(0,)), sweeps(tiles=64, times=1, slabs=(0,), name="Y", role="output"),
                          gpu=ONE_PARTITION)  # fmt: skip
    assert (wrote.hbm_write_bytes, read.hbm_read_bytes, read.hbm_write_bytes) == (0, 0, 0)
    assert read.l2_read_bytes == 64 * TILE_BYTES


def test_a_warm_start_finds_what_the_same_pipeline_left() -> None:
    """What fits is not read again; a sweep of one tile too much finds nothing, as LRU must."""
    fits, too_much = (run(sweeps(tiles=tiles, times=1, slabs=(0,)), gpu=ONE_PARTITION, l2="warm") for tiles in (64, 65))
    assert fits.hbm_read_bytes == 0
    assert too_much.hbm_read_bytes == 65 * TILE_BYTES


def test_a_warm_start_writes_back_what_the_last_run_left_dirty() -> None:
    """In the steady rhythm of repeated launches every output byte is written back once a launch."""
    cold, warm = (run(writes(tiles=100, slabs=(0,)), gpu=ONE_PARTITION, l2=l2) for l2 in ("cold", "warm"))
    assert cold.hbm_write_bytes == 36 * TILE_BYTES
    assert warm.hbm_write_bytes == 100 * TILE_BYTES


def test_l1_does_not_outlive_a_launch() -> None:
    """A second launch misses L1 and hits L2."""
    sweep = sweeps(tiles=4, times=2, slabs=(0,), path="plain")
    for seen in run_all(sweep, sweep):
        assert seen.l1_hit_bytes == seen.l2_read_bytes == 4 * TILE_BYTES


@pytest.mark.parametrize("schedule", ["flash2", "flash1", "naive", "unfused"])
def test_a_small_problem_touches_no_device_memory_when_warm(schedule: str) -> None:
    """All tensors of 2 heads of 512 tokens fit into the L2 of an H200, scores included."""
    problem = AttentionProblem(batch=1, heads=2, seqlen_q=512, seqlen_k=512, head_dim=64)
    seen = simulate(problem, schedule=schedule, l2="warm").total
    assert seen.hbm_read_bytes == seen.hbm_write_bytes == 0


def test_a_score_matrix_that_fits_stays_on_chip() -> None:
    """Naive attention reads Q, K and V from device memory and neither S nor P, where both fit into L2."""
    small = AttentionProblem(batch=1, heads=2, seqlen_q=1024, seqlen_k=1024, head_dim=64)
    large = AttentionProblem(batch=1, heads=64, seqlen_q=1024, seqlen_k=1024, head_dim=64)
    on_chip, off_chip = (simulate(problem, schedule="naive").total for problem in (small, large))
    assert on_chip.hbm_read_bytes == 3 * 2 * 1024 * 128
    scores = 64 * 1024 * 1024 * 2
    assert off_chip.hbm_read_bytes > 3 * 64 * 1024 * 128 + scores
