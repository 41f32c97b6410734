"""Laws of the library's own data: the costs that are kept of kernels hold the time of the matmuls that a launch makes.

Nothing here compiles or simulates: FLOP are those of the tile program, cycles those of the files.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.explore.space import configs_of
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.launch.walk import steps, tally
from tilesight.simulator.library.lookup import find_kernel
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.sm.step_cost import PIPES
from tilesight.simulator.sm.tensor_rate import LIKE, tensor_cycles_of

from tilesight import AttentionProblem

QUERIES, LENGTHS = 1024, (512, 4096, 8192)
"""Twice the last but one is the last."""
KINDS = [
    ("h200", "flash1", 64),
    ("h200", "flash1", 128),
    ("h200", "flash2", 64),
    ("h200", "flash2", 128),
    ("h200", "flash2_tma", 64),
    ("h200", "flash2_tma", 128),
    ("h200", "naive", 64),
    ("h200", "naive", 128),
    ("a100-sxm-80gb", "flash2", 64),
    ("a100-sxm-80gb", "naive", 128),
]
Case = tuple[str, Launch, np.ndarray, dict[str, int]]


@cache
def cases(device: str, schedule: str, head_dim: int, seqlen_k: int) -> tuple[Case, ...]:
    """Every launch with matmuls of the space that `explore` offers, where its kernel is kept with costs.

    Returns:
        Label, launch, cycles float64 (conditions, residents, steps, pipes and `sm`), and executions of the steps.
    """

    def launches() -> Iterator[Case]:
        gpu, chosen = load_device(device), find_schedule(schedule)
        problem = AttentionProblem(batch=4, heads=32, seqlen_q=QUERIES, seqlen_k=seqlen_k, head_dim=head_dim)
        for config in configs_of(chosen, [chosen], {}, "compiled"):
            for launch in chosen.launches(problem, config, gpu):
                if not any(step.work.matmuls for step, _ in steps(launch.program.body)):
                    continue
                kernel = find_kernel(launch, gpu)
                if kernel is None or kernel.figures is None:
                    continue
                executions = tally(launch.program).executions
                assert kernel.figures.steps == tuple(executions)
                yield (
                    f"{launch.name} {config}",
                    launch,
                    kernel.figures.values[..., : len(PIPES) + 1],
                    executions,
                )

    return tuple(launches())


def pipe_cycles(case: Case, pipe: int) -> np.ndarray:
    """Cycles of a pipe for the whole launch; float64 (conditions, residents)."""
    _, _, values, executions = case
    total: np.ndarray = values[..., pipe] @ np.array(list(executions.values()), dtype=float)
    return total


@pytest.mark.parametrize(("device", "schedule", "head_dim"), KINDS)
def test_kept_costs_hold_the_time_of_the_matmuls_of_every_launch(device: str, schedule: str, head_dim: int) -> None:
    """At every length; kernels of short loops once stood for long ones, and did up to 16 times what an SM can."""
    gpu, wrong, seen = load_device(device), [], 0
    for seqlen_k in LENGTHS:
        for case in cases(device, schedule, head_dim, seqlen_k):
            label, launch, _, executions = case
            least, most = tensor_cycles_of(launch, executions, gpu)
            tensor = pipe_cycles(case, PIPES.index("tensor"))
            seen += 1
            if tensor.min() < (1.0 - LIKE) * least or tensor.max() > (1.0 + LIKE) * most:
                wrong.append((seqlen_k, label, tensor.min() / least, tensor.max() / most))
    assert not wrong
    assert seen or schedule == "flash1"


@pytest.mark.parametrize(("device", "schedule", "head_dim"), KINDS)
def test_no_kept_kernel_does_more_flop_a_cycle_than_an_sm_has(device: str, schedule: str, head_dim: int) -> None:
    """Of a full SM: cycles after which it finishes another CTA, for any number of CTAs that share it."""
    gpu = load_device(device)
    for case in cases(device, schedule, head_dim, LENGTHS[-1]):
        label, launch, values, executions = case
        least, _ = tensor_cycles_of(launch, executions, gpu)
        cycles = pipe_cycles(case, values.shape[-1] - 1)
        assert cycles.min() >= (1.0 - LIKE) * least, label


@pytest.mark.parametrize(("device", "schedule", "head_dim"), KINDS)
@pytest.mark.parametrize("pipe", ["tensor", "issue"])
def test_twice_the_keys_take_twice_the_cycles(device: str, schedule: str, head_dim: int, pipe: str) -> None:
    """From 1.8 to 2.2 times as many: what is outside of the loop over keys is the same, and little."""
    for short, long in zip(*(cases(device, schedule, head_dim, length) for length in LENGTHS[1:]), strict=True):
        assert short[0] == long[0]
        before, after = (pipe_cycles(case, PIPES.index(pipe)).mean() for case in (short, long))
        assert 1.8 <= after / before <= 2.2, (short[0], after / before)
