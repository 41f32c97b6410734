"""What `compare --gpus` sends is what `profile` says that a program sends which does it."""

from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

from tilesight.kernels.pytorch.file import record_step
from tilesight.simulator.operations.price import price_step
from tilesight.simulator.operations.priced import KernelEstimate
from tilesight.simulator.operations.sequence_step import sequence_step
from tilesight.simulator.operations.stated import is_collective
from tilesight.simulator.problems.attention import AttentionProblem

H200 = load_device("h200")
CONTEXT = Path(__file__).parents[3] / "docs" / "examples" / "context.py"
TOKENS = 8192


def attend(_: AttentionProblem) -> KernelEstimate:
    """Attention that takes no time to speak of."""
    return KernelEstimate(name="a", source="simulated", time_s=1e-6, bound_by="")


@pytest.mark.parametrize("way", ["ring", "gather", "heads"])
def test_a_program_sends_as_much_for_as_long(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Collectives of `context.py`, in their order: kinds, bytes and times; bytes of keys, queries and outputs."""
    monkeypatch.setenv("TOKENS", str(TOKENS))
    step = record_step(f"{CONTEXT}:{way}", H200, "h200", options={"gpus": 8, "rank": 0}).step
    priced = price_step(step, H200, {})
    ran = [
        (work.name.rpartition("::")[2].strip("_"), sum(kernel.time_s for kernel in kernels))
        for work, kernels in zip(step.operations, priced, strict=True)
        if is_collective(work) and kernels
    ]
    problem = AttentionProblem(
        batch=1, heads=32, seqlen_q=TOKENS, seqlen_k=TOKENS, head_dim=128, dtype="bf16", causal=True
    )
    ours = sequence_step(problem, way, 8, 0, H200, attend)
    planned = [
        (work.name.rpartition("::")[2].strip("_"), sum(kernel.time_s for kernel in kernels))
        for work, kernels in zip(ours.operations, ours.kernels, strict=True)
        if is_collective(work)
    ]
    assert [name for name, _ in ran] == [name for name, _ in planned]
    assert [time_s for _, time_s in ran] == pytest.approx([time_s for _, time_s in planned])
