"""A lone CTA alternates between its tile products and its softmax; several on an SM overlap them."""

import pytest
from machine.toys import GPU, KIB, cost, launch, run, tensor
from tilesight.simulator.launch.program import Loop, Step
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import simulate
from tilesight.simulator.sm.step_cost import StepCost

TRIPS = 50
BOTH = cost(critical_path=100 + 100, tensor=100, mufu=100)
"""100 cycles of tile products, then 100 of exponentials."""


def cycles(ctas: int, step: StepCost, ctas_per_sm: int = 8) -> float:
    """So many CTAs on two SMs, each 50 steps of work without a load."""
    work = Loop(counter="i", trips=TRIPS, body=(Step(name="work"),))
    smem_bytes = GPU.smem_per_sm_bytes // ctas_per_sm - 2 * KIB
    program = launch((work,), (tensor("X", 1),), [(0,)] * ctas, smem_bytes=smem_bytes)
    return run(program, costs={"work": step}).cycles


@pytest.mark.parametrize(("ctas", "iteration"), [(1, 200), (2, 200), (3, 300), (4, 400), (8, 800)])
def test_ctas_of_an_sm_share_its_pipes(ctas: int, iteration: float) -> None:
    """One CTA leaves each pipe idle half of the time; a second takes that half; more share it."""
    assert cycles(2 * ctas, BOTH) == TRIPS * iteration


def test_one_cta_at_a_time_takes_twice_as_long_as_two() -> None:
    """The same eight CTAs, one after the other, cannot fill the pipes."""
    assert cycles(8, BOTH, ctas_per_sm=1) == 4 * TRIPS * 200
    assert cycles(8, BOTH, ctas_per_sm=2) == 2 * TRIPS * 200


def test_an_sm_keeps_no_pipe_of_another_busy() -> None:
    """CTAs on different SMs do not wait for each other, those on one SM do."""
    busy = cost(critical_path=200, tensor=200)
    assert [cycles(ctas, busy) for ctas in (1, 2, 3)] == [TRIPS * 200, TRIPS * 200, TRIPS * 400]


def test_a_second_cta_per_sm_raises_the_throughput_of_attention() -> None:
    """On an H200 the same kernel is faster with room for two CTAs per SM than for one, and not twice as fast."""
    problem = AttentionProblem(batch=2, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
    alone, pair = (
        simulate(problem, config=Config(block_n=128, num_stages=3), smem_bytes=kib * KIB) for kib in (120, 100)
    )
    assert [seen.launches[0].ctas_per_sm for seen in (alone, pair)] == [1, 2]
    assert 1.2 < alone.total.cycles / pair.total.cycles < 2
