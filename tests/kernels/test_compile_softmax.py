"""The row softmaxes compile ahead of time, each in every dtype; their shared memory is that of the schedule."""

from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.online_softmax import SOFTMAX_VARIANT
from tilesight.simulator.schedules.registry import find_schedule

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

from tilesight.kernels.compile.compile import compile_many
from tilesight.kernels.compile.outcomes import Compiled

SOFTMAX = find_schedule("online_softmax")


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "h200"])
def test_every_variant_compiles_in_every_dtype(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without spills; the interpreter would not see a loop that Triton cannot compile."""
    monkeypatch.setenv("TILESIGHT_CACHE_DIR", str(tmp_path))
    device = load_device(name)
    wanted = []
    for dtype, seqlen_k in (("fp16", 8192), ("bf16", 8192), ("fp32", 8192), ("fp32", 1000)):
        problem = AttentionProblem(batch=1, heads=8, seqlen_q=4096, seqlen_k=seqlen_k, head_dim=64, dtype=dtype)
        for variant in SOFTMAX_VARIANT.values:
            (launch,) = SOFTMAX.launches(problem, SOFTMAX.config(softmax_variant=variant), device)
            wanted.append(launch)
    for launch, outcome in zip(wanted, compile_many(wanted, device), strict=True):
        assert isinstance(outcome, Compiled), outcome
        assert outcome.resources.spilled_bytes_per_thread == 0
        assert outcome.resources.smem_bytes_per_cta == launch.resources.smem_bytes_per_cta
