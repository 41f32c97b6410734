"""Between SMs and L2, simultaneous reads of neighbouring SMs reach the L2 once."""

from dataclasses import replace

import pytest
from machine.toys import ONE_PARTITION, TILE_BYTES, cost, launch, run, sweeps, tensor, tile
from tilesight.simulator.launch.program import Loop, Step
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import simulate

APART = replace(ONE_PARTITION, coalescer_sms=1)
NEIGHBOURS = replace(ONE_PARTITION, coalescer_sms=2)
FOUR_SMS = {"sms": 4, "coalescer_sms": 2}
TILES = 20


def test_sms_in_step_behind_one_coalescer_read_l2_once() -> None:
    """Two SMs ask for the same tiles at the same times: the L2 sees one of them."""
    sweep = sweeps(tiles=TILES, times=1, slabs=(0, 0))
    assert run(sweep, gpu=NEIGHBOURS).l2_read_bytes == TILES * TILE_BYTES
    assert run(sweep, gpu=APART).l2_read_bytes == 2 * TILES * TILE_BYTES


def test_only_neighbours_share_a_coalescer() -> None:
    """Four SMs in pairs: two requests of four reach the L2."""
    sweep = sweeps(tiles=TILES, times=1, slabs=(0, 0, 0, 0))
    assert run(sweep, gpu=replace(ONE_PARTITION, **FOUR_SMS)).l2_read_bytes == 2 * TILES * TILE_BYTES


def test_different_data_does_not_coalesce() -> None:
    """Two SMs with a slab each."""
    assert run(sweeps(tiles=TILES, times=1, slabs=(0, 1)), gpu=NEIGHBOURS).l2_read_bytes == 2 * TILES * TILE_BYTES


@pytest.mark.parametrize(("delay", "requests"), [(0, 1), (100, 1), (315, 1), (316, 2), (1000, 2)])
def test_reads_coalesce_while_the_first_is_under_way(delay: int, requests: int) -> None:
    """A tile is 316 cycles under way to the coalescer; who asks for it meanwhile waits for the same reply."""
    body = (
        Loop(counter="wait", trips="late", body=(Step(name="wait"),)),
        Step(name="load", loads=(tile("X"),)),
    )
    pair = launch(body, (tensor("X", 1),), [(0, 0), (0, 1)], ("slab", "late"))
    seen = run(pair, gpu=NEIGHBOURS, costs={"wait": cost(delay)})
    assert seen.l2_read_bytes == requests * TILE_BYTES


def test_coalescing_leaves_the_bytes_into_the_sms_alone() -> None:
    """On an H200 fewer bytes leave the L2 than arrive at the SMs, between 0.3 and 1 of them."""
    problem = AttentionProblem(batch=4, heads=32, seqlen_q=2048, seqlen_k=2048, head_dim=64)
    seen = simulate(problem).total
    q_tiles = 2048 // 128
    assert seen.smem_fill_bytes == 4 * 32 * 2048 * 128 * (1 + 2 * q_tiles)
    assert 0.3 < seen.l2_read_bytes / seen.smem_fill_bytes < 1
