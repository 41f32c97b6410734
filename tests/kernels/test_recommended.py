"""The regression gate: what is recommended on Hopper compiles without spills, and to wgmma."""

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.walk import steps
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

from tilesight.kernels.compile.compile import compile_many
from tilesight.kernels.launch.registry import recommended
from tilesight.simulator.refusal import Refusal

pytestmark = pytest.mark.usefixtures("own_cache")

H200 = load_device("h200")


def faults(name: str, head_dim: int, causal: bool, config: Config) -> list[str]:
    """What is wrong with the kernels of a configuration on sm_90, one line each."""
    problem = AttentionProblem(
        batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=head_dim, causal=causal, dtype="fp16"
    )
    launches = find_schedule(name).launches(problem, config, H200)
    reasons = []
    for launch, outcome in zip(launches, compile_many(launches, H200), strict=True):
        if isinstance(outcome, Refusal):
            reasons.append(f"{launch.name}: {outcome.reason}")
            continue
        if outcome.resources.spilled_bytes_per_thread:
            reasons.append(f"{launch.name}: spills")
        multiplies = any(step.work.matmuls for step, _ in steps(launch.program.body))
        if multiplies and not outcome.count("HGMMA"):
            reasons.append(f"{launch.name}: no wgmma")
        if outcome.count("HMMA"):
            reasons.append(f"{launch.name}: mma.sync")
    return reasons


@pytest.mark.parametrize(("name", "head_dim", "causal"), recommended())
def test_recommended_kernels_use_wgmma_and_do_not_spill(name: str, head_dim: int, causal: bool) -> None:
    """On sm_90, every launch of the schedule."""
    assert faults(name, head_dim, causal, recommended()[name, head_dim, causal]) == []


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (Config(block_m=256, block_n=64, num_warps=4, num_stages=2), ["flash2: spills"]),
        (Config(block_m=32, block_n=64, num_warps=4, num_stages=2), ["flash2: no wgmma", "flash2: mma.sync"]),
        (Config(block_m=128, block_n=256, num_warps=8, num_stages=2), ["flash2: shared memory: a CTA needs 294912 B"]),
    ],
)
def test_the_gate_catches_bad_configurations(config: Config, said: list[str]) -> None:
    """One that spills, one that falls back to mma.sync, one that does not fit."""
    reasons = faults("flash2", 128, False, config)
    assert [line.split(",")[0] for line in reasons] == said
