"""How warps divide a tile product decides the bytes through shared memory: FlashAttention-2's third improvement."""

import pytest
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import simulate
from tilesight.simulator.traffic import Traffic

PROBLEM = AttentionProblem(batch=1, heads=4, seqlen_q=1024, seqlen_k=1024, head_dim=64)


def total(schedule: str, split: str, device: str = "a100-sxm-80gb") -> Traffic:
    """All launches, with mma.sync, 4 warps and 128 x 64 score tiles."""
    config = Config(block_m=128, block_n=64, num_warps=4, warp_split=split)
    return simulate(PROBLEM, schedule=schedule, config=config, device=device).total


@pytest.mark.parametrize("schedule", ["flash1", "flash2"])
def test_split_q_moves_fewer_bytes_through_shared_memory(schedule: str) -> None:
    """Split-K makes the warps add up their partial outputs through shared memory; split-Q needs no exchange."""
    q, k = (total(schedule, split) for split in ("q", "k"))
    assert q.smem_write_bytes < k.smem_write_bytes
    assert q.smem_read_bytes + q.smem_write_bytes < 0.6 * (k.smem_read_bytes + k.smem_write_bytes)


def test_split_k_exchanges_a_partial_output_per_warp_and_tile() -> None:
    """4 warps x 128 rows x (64 columns, a maximum and a sum) in fp32 are written in each of 4 x 8 x 16 iterations."""
    q, k = (total("flash2", split) for split in ("q", "k"))
    assert k.smem_write_bytes - q.smem_write_bytes == 4 * 8 * 16 * (4 * 128 * (64 + 2) * 4)


def test_the_split_changes_no_byte_outside_the_sm() -> None:
    """Device memory and fill are the same either way."""
    q, k = (total("flash2", split) for split in ("q", "k"))
    assert q.hbm_read_bytes == k.hbm_read_bytes
    assert q.smem_fill_bytes == k.smem_fill_bytes
    assert q.executed_flop == k.executed_flop


def test_split_q_is_faster() -> None:
    """The exchange costs shared-memory cycles and barriers."""
    assert total("flash2", "q").cycles < total("flash2", "k").cycles
