"""Whether a kernel that keeps O on chip computes attention rightly: O and LSE, judged against fp64."""

from types import MappingProxyType

from kernels.interpreted.inputs import draw
from tilesight.kernels.flash2 import flash2
from tilesight.kernels.flash2_tma import flash2_tma
from tilesight.kernels.flash_decode import flash_decode
from tilesight.kernels.reference import judge_attention
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config

KERNELS = MappingProxyType({"flash2": flash2, "flash2_tma": flash2_tma})


FUNCTIONS = KERNELS | {"flash_decode": flash_decode}


def right(name: str, problem: AttentionProblem, config: Config, kind: str = "random", seed: int = 0) -> None:
    """Run the kernel of that name and see that it is right. Args: kind: a key of INPUTS; seed: of the input."""
    q, k, v = draw(problem, kind, seed)
    mask = {"causal": problem.causal} | ({"window": problem.window} if problem.window else {})
    o, lse = FUNCTIONS[name](q, k, v, config=config, **mask)
    for output, verdict in zip(("O", "LSE"), judge_attention(o, lse, q, k, v, **mask), strict=True):
        assert verdict.right, f"{output}: {verdict.text}"
