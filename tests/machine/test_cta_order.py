"""The order of CTAs decides device memory traffic as much as block sizes do."""

import pytest
from machine.toys import ONE_PARTITION, TILE_BYTES, launch, run, tensor, tile
from tilesight.simulator.launch.program import Loop, Step
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import simulate

PROBLEM = AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
COMPULSORY = 3 * 4 * 32 * 4096 * 128
X = tile("X", i=1)


def test_head_fast_order_reads_ten_times_the_bytes() -> None:
    """The same kernel with the grid axes swapped touches all heads in every wave, and their K and V do not fit."""
    m_fast, head_fast = (
        simulate(PROBLEM, config=Config(cta_order=order), steady_state=False).total.hbm_read_bytes
        for order in ("m-fast", "head-fast")
    )
    assert m_fast == COMPULSORY
    assert 9 < head_fast / m_fast < 12


@pytest.mark.parametrize("kv_order", ["forward", "sawtooth"])
def test_order_does_not_matter_where_all_heads_fit(kv_order: str) -> None:
    """Four heads of 1 MiB stay in the L2 in either order."""
    problem = AttentionProblem(batch=1, heads=4, seqlen_q=4096, seqlen_k=4096, head_dim=64)
    for cta_order in ("m-fast", "head-fast", "longest-first"):
        seen = simulate(problem, config=Config(cta_order=cta_order, kv_order=kv_order))
        assert seen.total.hbm_read_bytes == 3 * 4 * 4096 * 128


def test_turning_round_at_the_end_saves_what_the_l2_holds() -> None:
    """Five sweeps one after the other over 80 tiles, L2 for 64: forwards each misses all, back and forth 16."""
    held, tiles = ONE_PARTITION.l2_bytes // TILE_BYTES, 80
    body = (Loop(counter="i", first="first", step="step", trips=tiles, body=(Step(name="load", loads=(X,)),)),)
    forwards = [(0, 0, 1)] * 5
    back_and_forth = [(0, 0, 1), (0, tiles - 1, -1)] * 2 + [(0, 0, 1)]
    misses = [
        run(
            launch(body, (tensor("X", tiles),), items, ("slab", "first", "step"), ctas=1), gpu=ONE_PARTITION
        ).hbm_read_bytes // TILE_BYTES
        for items in (forwards, back_and_forth)
    ]  # fmt: skip
    assert misses == [5 * tiles, tiles + 4 * (tiles - held)]
