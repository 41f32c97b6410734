"""Costs from freshly compiled kernels: every schedule's code is followed, and all of its products are paid for."""

from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.walk import tally
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.residency.residency import residency_of
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import launches_of
from tilesight.simulator.sm.from_code import compiled_costs
from tilesight.simulator.sm.step_cost import PIPES

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

from support.compiling import compile_launch
from tilesight.kernels.compile.compile import with_resources
from tilesight.kernels.compile.outcomes import Compiled

H200 = load_device("h200")
FLOP_PER_CYCLE = 4096.0
PROBLEM = AttentionProblem(batch=1, heads=4, seqlen_q=4096, seqlen_k=4096, head_dim=64)


@pytest.fixture(autouse=True)
def cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of this test's own: what is tested is compiled."""
    monkeypatch.setenv("TILESIGHT_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize(
    ("schedule", "name", "options"),
    [
        ("flash1", "flash1", {"block_m": 64, "block_n": 64, "num_stages": 2}),
        ("flash2", "flash2", {"num_stages": 1}),
        ("flash2", "flash2", {"num_stages": 3, "persistent": 1}),
        ("flash2_tma", "flash2_tma", {"num_stages": 3}),
        ("flash2_tma", "flash2_tma", {"num_stages": 2, "block_n": 128, "warp_specialize": 1}),
        ("naive", "scores", {"num_stages": 2}),
        ("naive", "output", {"num_stages": 1}),
    ],
    ids=lambda value: (
        "-".join(f"{key}={option}" for key, option in value.items()) if isinstance(value, dict) else value
    ),
)
def test_all_products_of_a_kernel_are_paid_for(schedule: str, name: str, options: dict[str, int]) -> None:
    """A loop would be paid for too often, or by a step that runs less often, or a role of warps would be left out."""
    chosen = find_schedule(schedule)
    fixed: dict[str, Any] = {"block_m": 128, "block_n": 64, "num_warps": 4} | options
    if "warp_split" in chosen.options:
        fixed["warp_split"] = "q"
    launch = next(
        candidate
        for candidate in launches_of(PROBLEM, schedule, chosen.config(**fixed), H200)
        if candidate.name == name
    )
    outcome = compile_launch(launch, H200, code=True)
    assert isinstance(outcome, Compiled)
    compiled = with_resources(launch, outcome)
    costs = compiled_costs(compiled, residency_of(compiled, H200), H200)
    executed = tally(launch.program).executions
    tensor = PIPES.index("tensor")
    cycles = sum(cost.pipe_cycles[tensor] * executed[step] for step, cost in costs.steps.items())
    flop = sum(cost.executed_flop * executed[step] for step, cost in costs.steps.items())
    assert cycles == pytest.approx(flop / FLOP_PER_CYCLE, rel=0.02)
    assert not costs.unknown
