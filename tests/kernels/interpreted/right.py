"""Whether a kernel that keeps O on chip computes attention rightly: O and LSE, judged against fp64."""

from types import MappingProxyType
from typing import Any

from kernels.interpreted.inputs import draw, sinks
from tilesight.kernels.chunked_flash import chunked_flash
from tilesight.kernels.flash2 import flash2
from tilesight.kernels.flash2_tma import flash2_tma
from tilesight.kernels.flash_decode import flash_decode
from tilesight.kernels.masked_flash import masked_flash
from tilesight.kernels.reference import judge_attention
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config

KERNELS = MappingProxyType({"flash2": flash2, "flash2_tma": flash2_tma})


FUNCTIONS = KERNELS | {"flash_decode": flash_decode, "chunked_flash": chunked_flash, "masked_flash": masked_flash}


def right(name: str, problem: AttentionProblem, config: Config, kind: str = "random", seed: int = 0) -> None:
    """Run the kernel of that name and see that it is right. Args: kind: a key of INPUTS; seed: of the input."""
    q, k, v = draw(problem, kind, seed)
    asked: dict[str, Any] = {"causal": problem.causal}
    asked |= {field: value for field in ("window", "mask", "softcap") if (value := getattr(problem, field))}
    asked |= {"sinks": sinks(problem, seed)} if problem.sinks else {}
    o, lse = FUNCTIONS[name](q, k, v, config=config, **asked)
    for output, verdict in zip(("O", "LSE"), judge_attention(o, lse, q, k, v, **asked), strict=True):
        assert verdict.right, f"{output}: {verdict.text}"
