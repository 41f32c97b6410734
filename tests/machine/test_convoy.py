"""CTAs that start one after the other along one head bunch behind the leader, who waits for device memory for all."""

import numpy as np
from machine.toys import ONE_PARTITION, cost, launch, run_all, tensor, tile
from tilesight.simulator.launch.program import Loop, Step
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import simulate

TILES, LATE = 40, 2000


def _staggered() -> tuple[float, float]:
    """End of two CTAs that walk 40 tiles, the second 2000 cycles late: from an empty L2, and again from a full one."""
    body = (
        Loop(counter="w", trips="late", body=(Step(name="wait"),)),
        Loop(counter="i", trips=TILES, body=(Step(name="load", loads=(tile("X", i=1),)),)),
    )
    pair = launch(body, (tensor("X", TILES),), [(0, 0), (0, 1)], ("slab", "late"))
    cold, warm = run_all(pair, pair, gpu=ONE_PARTITION, costs={"wait": cost(LATE)}, record=True)
    return tuple(float(np.diff(seen.timeline[:, 3])[0]) for seen in (cold, warm))  # type: ignore[return-value]


def test_followers_catch_up_with_a_leader_that_misses() -> None:
    """2000 cycles behind at the start, none at the end: they hit what the leader fetched, until they wait too."""
    cold, warm = _staggered()
    assert abs(cold) < 1
    assert warm == LATE


def test_causal_ctas_of_one_head_share_what_their_leaders_read() -> None:
    """CTAs of all lengths along a head of 50 MB: each byte from device memory serves a dozen of them."""
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=196608, seqlen_k=196608, head_dim=64, causal=True)
    seen = simulate(problem, config=Config(block_n=128, num_stages=3), steady_state=False).total
    assert seen.smem_fill_bytes / seen.hbm_read_bytes > 10
