"""Figures that are kept of a kernel: each number of CTAs on an SM has its own, and none stands for another."""

from dataclasses import replace

import numpy as np
import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Figures, Launch, Resources
from tilesight.simulator.launch.walk import steps
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.residency.residency import residency_of
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.sm.kept import FIELDS, PIPE_COUNT, condition_of, kept_costs
from tilesight.simulator.sm.step_cost import PIPES, StepCost, step_cost

H200 = load_device("h200")
TENSOR = PIPES.index("tensor")
KEPT = 3
"""CTAs on an SM that figures are made up for."""


def launch(sms_filled: float, registers: int = 64) -> Launch:
    """So many CTAs for each SM; its figures are 1000 cycles of a lone CTA, 2000 of two, 3000 of three.

    Those of the tensor cores are what the matmuls take.
    """
    problem = AttentionProblem(batch=1, heads=4, seqlen_q=1024, seqlen_k=1024, head_dim=64)
    (made,) = find_schedule("flash2").launches(problem, find_schedule("flash2").default, H200)
    names = tuple(step.name for step, _ in steps(made.program.body))
    values = np.zeros((1, KEPT, len(names), PIPE_COUNT + len(FIELDS)))
    values[...] = 1000.0 * np.arange(1, KEPT + 1)[None, :, None, None]
    # Matmuls take the tensor cores as long whoever shares the SM.
    values[..., TENSOR] = [step_cost(step, made, H200).pipe_cycles[TENSOR] for step, _ in steps(made.program.body)]
    slowdown = np.zeros((1, KEPT, len(names), KEPT))
    for resident in range(KEPT):
        slowdown[:, resident, :, : resident + 1] = 1.0 + resident
    figures = Figures(
        steps=names, conditions=np.array([condition_of(made, H200)]), values=values, slowdown_by_age=slowdown
    )
    resources = Resources(registers_per_thread=registers, smem_bytes_per_cta=0, figures=figures)
    return replace(made, resources=resources, grid=(round(sms_filled * H200.sms), 1, 1))


def costs(of: Launch) -> list[StepCost]:
    return list(kept_costs(of, residency_of(of, H200), H200).values())


@pytest.mark.parametrize(("sms_filled", "resident"), [(0.5, 1), (1.0, 1), (1.5, 2), (2.0, 2), (3.0, 3)])
def test_costs_are_those_of_as_many_ctas_as_share_an_sm(sms_filled: float, resident: int) -> None:
    """A full SM would cost what a lone CTA does, or a small grid what a full SM does."""
    for cost in costs(launch(sms_filled)):
        assert cost.pipe_cycles[TENSOR + 1 :] == (1000.0 * resident,) * (PIPE_COUNT - 1)
        assert cost.critical_path_cycles == 1000.0 * resident
        assert cost.slowdown_by_age == (float(resident),) * resident


def test_of_more_ctas_than_are_kept_the_most_count() -> None:
    """Eight fit an SM, and figures are at hand for three."""
    full = launch(8.0)
    assert residency_of(full, H200).ctas_per_busy_sm == 8
    assert {cost.pipe_cycles[-1] for cost in costs(full)} == {1000.0 * KEPT}
