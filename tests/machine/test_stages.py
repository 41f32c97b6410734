"""How deep loads run ahead: one or two stages expose a load's latency, three hide it behind an iteration."""

from dataclasses import replace
from math import ceil

import pytest
from machine.toys import ONE_PARTITION, TILE_BYTES, cost, launch, run, sweeps, tensor, tile
from tilesight.simulator.launch.program import Loop, Step
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import simulate

TRIPS, MISS = 16, 332


def cycles(stages: int, compute: float, path: str = "async") -> float:
    """A lone CTA: 16 iterations, each of a tile from device memory and so many cycles of work on it."""
    sweep = sweeps(tiles=TRIPS, times=1, slabs=(0,), stages=stages, path=path)  # type: ignore[arg-type]
    return run(sweep, gpu=ONE_PARTITION, costs={"load": cost(compute)}).cycles


@pytest.mark.parametrize("stages", [1, 2])
def test_one_or_two_stages_wait_for_every_tile(stages: int) -> None:
    """The next tile is asked for when an iteration is over, and its latency comes on top."""
    assert cycles(stages, 400) == TRIPS * (MISS + 400)


@pytest.mark.parametrize("stages", [3, 4, 8])
def test_three_stages_hide_a_load_behind_an_iteration(stages: int) -> None:
    """Only the first tile is waited for, where an iteration takes longer than a load."""
    assert cycles(stages, 400) == MISS + TRIPS * 400


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_stages_less_one_loads_are_under_way(stages: int) -> None:
    """Without work to hide behind, a tile comes every latency / (stages - 1)."""
    assert cycles(stages, 0) == pytest.approx(TRIPS * MISS / (stages - 1), rel=0.1)


@pytest.mark.parametrize("stages", [1, 3])
def test_a_loop_that_goes_backwards_loads_the_same_however_far_ahead(stages: int) -> None:
    """Tiles 8, 6, 4, 2 and 0 of nine, none of them past the end of the tensor."""
    step = Step(name="load", loads=(tile("X", i=1),))
    loop = Loop(counter="i", trips=5, first=8, step=-2, stages=stages, body=(step,))
    seen = run(launch((loop,), (tensor("X", 9),), [(0,)]), gpu=ONE_PARTITION)
    assert seen.hbm_read_bytes == seen.l2_read_bytes == 5 * TILE_BYTES


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_warps_that_only_load_have_all_stages_under_way(stages: int) -> None:
    """They need not end an iteration before they ask for the next tile, so two stages hide a latency already."""
    sweep = replace(sweeps(tiles=TRIPS, times=1, slabs=(0,), stages=stages), consumer_warps=4)
    idle, busy = (run(sweep, gpu=ONE_PARTITION, costs={"load": cost(cycles)}).cycles for cycles in (0, 400))
    assert idle == pytest.approx(ceil(TRIPS / stages) * MISS, rel=0.02), "beyond it, the time of the bytes"
    assert busy == MISS + TRIPS * 400


@pytest.mark.parametrize("slack", [-100, 0, 60])
def test_slack_is_taken_off_what_a_tile_comes_late(slack: int) -> None:
    """Of three stages two iterations take the latency, less the slack, and one iteration's work."""
    sweep = sweeps(tiles=8 * TRIPS, times=1, slabs=(0,), stages=3)
    late = run(sweep, gpu=ONE_PARTITION, costs={"load": replace(cost(100), slack_cycles=slack)}).cycles
    assert late / (8 * TRIPS) == pytest.approx((MISS - slack + 100) / 2, rel=0.02)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_plain_loads_do_not_run_ahead(stages: int) -> None:
    """A loop of plain loads is not pipelined, whatever its stages."""
    assert cycles(stages, 400, path="plain") == TRIPS * (MISS + 400)


@pytest.mark.parametrize(("stages", "path"), [(1, "async"), (3, "plain")])
@pytest.mark.parametrize("waits", [1, 2, 3])
def test_a_step_that_waits_again_and_again_takes_its_latency_as_often(stages: int, path: str, waits: int) -> None:
    """Code that asks for V when it has used K waits twice."""
    sweep = sweeps(tiles=TRIPS, times=1, slabs=(0,), stages=stages, path=path)  # type: ignore[arg-type]
    seen = run(sweep, gpu=ONE_PARTITION, costs={"load": replace(cost(400), waits=waits)}).cycles
    assert seen == TRIPS * (waits * MISS + 400)


def test_more_stages_make_attention_faster_until_latency_is_hidden() -> None:
    """One CTA per SM on an H200: two stages beat one a little, three beat two a lot, four change nothing."""
    problem = AttentionProblem(batch=1, heads=32, seqlen_q=2048, seqlen_k=2048, head_dim=64)
    configs = [Config(block_n=128, num_warps=8, num_stages=stages) for stages in (1, 2, 3, 4)]
    cycles_of_1, cycles_of_2, cycles_of_3, cycles_of_4 = (
        simulate(problem, config=config, smem_bytes=120 * 1024).total.cycles for config in configs
    )
    assert cycles_of_3 < 0.85 * cycles_of_2 < cycles_of_2 < cycles_of_1 < 1.2 * cycles_of_2
    assert cycles_of_4 == pytest.approx(cycles_of_3, rel=0.01)
