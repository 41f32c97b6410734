"""CTAs that are in each other's way are so by age: an older one for less of the time."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from machine.toys import KIB, ONE_PARTITION, cost, launch, run, tensor
from tilesight.simulator.launch.program import Loop, Step
from tilesight.simulator.sm.step_cost import StepCost

FIRST_WAVE_US = (2044, 2126, 2388, 2717)
SECOND_WAVE_US = (2143, 2257, 2418, 2581)
"""flash2, 64 x 64 tiles, four CTAs on an SM of an H200, 2026-11-21 (docs/decisions/0010)."""
SLOWDOWN = (0.869, 0.905, 1.043, 1.273)
"""By age, of the mean, from the first wave alone: the second is older, and so faster, from 2044 us on, and so on."""
PIPE = 100
THIRDS = cost(critical_path=10, tensor=PIPE, slowdown_by_age=(2 / 3, 2.0))
"""Of two CTAs, the older takes two thirds of 200 cycles, the younger twice as long: together 100, and 100 alone."""


def timeline(
    steps: Sequence[int], body: dict[str, StepCost], *, ctas_per_sm: int, sms: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Start and end of CTAs, of which number i goes `steps[i]` times through a loop of these steps."""
    gpu = replace(ONE_PARTITION, sms=sms)
    loop = Loop(counter="i", trips="steps", body=tuple(Step(name=name) for name in body))
    smem_bytes = gpu.smem_per_sm_bytes // ctas_per_sm - 2 * KIB
    items = [(0, count) for count in steps]
    program = launch((loop,), (tensor("X", 1),), items, ("slab", "steps"), smem_bytes=smem_bytes)
    seen = run(program, gpu=gpu, costs=body, record=True).timeline
    return seen[:, 2], seen[:, 3]


def ends(steps: Sequence[int], step: StepCost, ctas_per_sm: int, sms: int = 1) -> list[float]:
    """When CTAs end that take so many steps of one kind."""
    return list(timeline(steps, {"work": step}, ctas_per_sm=ctas_per_sm, sms=sms)[1])


def waves(costs: Sequence[float]) -> np.ndarray:
    """How long CTAs of four waves take, in us of an H200: scaled so that the first wave takes as long as it did."""
    body = {f"step {i}": cost(tensor=pipe_cycles, slowdown_by_age=SLOWDOWN) for i, pipe_cycles in enumerate(costs)}
    start, end = timeline([4000 // len(costs)] * 16, body, ctas_per_sm=4)
    durations = (end - start).reshape(4, 4)
    scaled: np.ndarray = durations * np.mean(FIRST_WAVE_US) / durations[0].mean()
    return scaled


def test_the_younger_move_up_when_the_oldest_ends() -> None:
    """CTA 0 ends after 100 x 133 cycles, CTA 1 has then done 33 of 200 steps, and goes on alone."""
    assert ends([100, 200], THIRDS, 2) == pytest.approx([13_333, 13_333 + 167 * 100], rel=0.02)


def test_a_cta_in_the_place_of_the_oldest_is_the_youngest() -> None:
    """CTA 2 begins where CTA 0 ran, and takes 400 cycles a step while CTA 1 takes 133 and then, alone, 100."""
    assert ends([100, 200, 50], THIRDS, 2) == pytest.approx([13_333, 33_333 + 1_667, 33_333], rel=0.02)


def test_age_counts_on_a_cta_s_own_sm() -> None:
    """Four CTAs on two SMs: 0 and 1 are the oldest of theirs, and nothing that happens next door changes that."""
    assert ends([100] * 4, THIRDS, 2, sms=2) == pytest.approx([13_333, 13_333, 20_000, 20_000], rel=0.02)


@pytest.mark.parametrize("slowdown", [(), (0.1, 0.1), (5.0, 5.0)])
def test_a_cta_that_shares_no_pipe_is_not_slowed_by_its_age(slowdown: tuple[float, ...]) -> None:
    """Two CTAs of 250 cycles a step, of which the pipe takes 100, are in each other's way at no time."""
    assert ends([50, 50], cost(critical_path=250, tensor=PIPE, slowdown_by_age=slowdown), 2) == [50 * 250] * 2


def test_paces_that_are_no_mean_share_a_pipe_no_more_than_once() -> None:
    """By a tenth of the mean each, both would be done after 20 cycles of a pipe that either wants for 100."""
    assert ends([1, 1], cost(critical_path=10, tensor=PIPE, slowdown_by_age=(0.1, 0.1)), 2) == pytest.approx(
        [2 * PIPE] * 2
    )


def test_an_older_cta_that_gets_just_what_it_wants_leaves_the_rest() -> None:
    """Numbers of a sum in CUDA C++: by rounding the older was above and below all paces in turns, for ever."""
    share, slowdown = 0.50005477351153, (0.9998904649761757, 1.000109559024925)
    older, younger = ends([50, 50], cost(critical_path=1024, tensor=1024 * share, slowdown_by_age=slowdown), 2)
    assert older == pytest.approx(50 * 1024, rel=1e-3)
    assert younger == pytest.approx(50 * 1024 * 2 * share, rel=1e-3)


def test_paces_of_the_first_wave_give_the_second_of_an_h200() -> None:
    """Steps unlike each other: all eight CTAs within 3 %, although those of the second wave age on their way."""
    durations = waves(np.random.default_rng(0).exponential(PIPE, 16))
    assert durations[0] == pytest.approx(FIRST_WAVE_US, rel=0.03)
    assert durations[1] == pytest.approx(SECOND_WAVE_US, rel=0.03)


def test_paces_hold_for_steps_alike() -> None:
    """The same for the loop of an attention kernel, whose iterations all cost the same."""
    durations = waves([PIPE])
    assert durations[0] == pytest.approx(FIRST_WAVE_US, rel=0.03)
    assert durations[1] == pytest.approx(SECOND_WAVE_US, rel=0.03)
