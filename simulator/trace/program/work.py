"""What the parts of a CTA's control path compute: matmuls and exponentials, by the instructions that its warps run."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from ...launch.program import Matmul, Work
from ...limits import WARP_THREADS
from ...sass.matrix import matmul_shape_of
from ..paths import CtaPaths
from ..positions import blocks_of
from ..touch.phases import Part

TILE = 64
"""Extent (m, n) of the matmuls that stand for the operations of a part: what counts are the operations alone."""
DTYPES = {"tf32": "fp32", "fp8": "fp8", "mxfp8": "fp8", "fp8_acc16": "fp8", "int8": "i8", "fp64": "fp64"}
"""Kind of matmul -> element type of its operands; fp16 where there is none."""


def work_of(paths: CtaPaths) -> dict[Part, Work]:
    """Work of one execution of each part, all warps together."""
    flop: dict[Part, float] = defaultdict(float)
    exps: Counter[Part] = Counter()
    times: dict[Part, set[tuple[int, ...]]] = {}
    kinds = {block: _of_block(paths, block) for block in range(len(paths.flow.blocks))}
    for path, warps in Counter(paths.warps).items():
        warp = paths.warps.index(path)
        for block, position in blocks_of(paths, warp):
            part = position.region, position.piece
            times.setdefault(part, set()).add(position.iteration)
            flop[part] += warps * kinds[block][0]
            exps[part] += warps * kinds[block][1]
    return {part: _work(flop[part] / len(trips), exps[part] / len(trips)) for part, trips in times.items()}


def dtype_of(paths: CtaPaths) -> str:
    """Element type of the operands of a CTA's matmuls; fp16 where it has none."""
    kinds = Counter(
        matmul.kind for instruction in paths.flow.instructions if (matmul := matmul_shape_of(instruction)) is not None
    )
    return DTYPES.get(kinds.most_common(1)[0][0], "fp16") if kinds else "fp16"


def _of_block(paths: CtaPaths, block: int) -> tuple[float, int]:
    flop, exps = 0.0, 0
    for instruction in paths.flow.code(block):
        if matmul := matmul_shape_of(instruction):
            flop += matmul.flop / matmul.warps
        if instruction.family == "MUFU":
            exps += WARP_THREADS
    return flop, exps


def _work(flop: float, exps: float) -> Work:
    if not flop:
        return Work(exp_count=round(exps))
    deep = max(1, round(flop / 2 / TILE**2))
    return Work(matmuls=(Matmul(m=TILE, n=TILE, k=deep),), exp_count=round(exps))


def executions_of(paths: CtaPaths, steps: Mapping[Part, tuple[str, ...]]) -> dict[str, int]:
    """Step name -> executions in a CTA. Args: steps: part -> the steps that stand for it."""
    seen: dict[Part, set[tuple[int, ...]]] = {}
    for warp in {paths.warps.index(path) for path in paths.warps}:
        for _, position in blocks_of(paths, warp):
            seen.setdefault((position.region, position.piece), set()).add(position.iteration)
    return {name: len(seen.get(part, ())) for part, names in steps.items() for name in names}
