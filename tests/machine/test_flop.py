"""Fewer operations outside the tile products: FlashAttention-2's first change to the algorithm."""

import pytest
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import simulate

PROBLEM = AttentionProblem(batch=1, heads=4, seqlen_q=1024, seqlen_k=1024, head_dim=64)


@pytest.mark.parametrize("block_n", [32, 64, 128])
def test_flash2_computes_less_outside_tile_products_than_flash1(block_n: int) -> None:
    """O is divided by l at the end, and not rescaled twice in every iteration; the products are the same."""
    first, second = (
        simulate(PROBLEM, schedule=schedule, config=Config(block_m=64, block_n=block_n)).total
        for schedule in ("flash1", "flash2")
    )
    assert second.matmul_flop == first.matmul_flop == 4 * 4 * 1024 * 1024 * 64
    assert second.other_flop < first.other_flop
    assert second.exp_count < first.exp_count


def test_the_saving_is_the_second_rescaling_of_o() -> None:
    """At least one multiplication for each element of O and each key tile."""
    first, second = (
        simulate(PROBLEM, schedule=schedule, config=Config(block_m=64, block_n=64)).total
        for schedule in ("flash1", "flash2")
    )
    assert first.other_flop - second.other_flop >= 4 * 1024 * 64 * (1024 // 64)
