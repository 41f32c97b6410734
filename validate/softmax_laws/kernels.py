"""The project's own kernels as the laws call them, with what they declare: `softmax_kernels:flash2` and so on.

Every schedule with a kernel is here under its name (the registry finds them), and each variant of the row softmax.
Lengths are drawn from a few shapes, as Triton compiles anew where a length becomes 1, a multiple of 16 or of a block:
one key, less than a block, whole and ragged blocks, more rows than keys, sums and multiples of others.
On a GPU they take CUDA tensors, in Triton's interpreter (TRITON_INTERPRET=1) those of the CPU.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..kernels.launch.availability import missing_package
from ..simulator.problems.attention import AttentionProblem
from ..simulator.problems.softmax import SoftmaxProblem
from ..simulator.schedules.contract import Schedule
from ..simulator.schedules.registry import find_schedule

SHAPES = ((5, 7), (64, 64), (64, 32), (64, 96), (33, 65), (70, 40), (1, 1), (1, 130), (130, 130))
ROW_SHAPES = ((3, 5), (4, 64), (4, 128), (16, 192), (2, 33), (1, 1), (3, 130), (2, 1025))
BLOCK_M = 64
BLOCK_N = 32
COMMON = {"dtypes": ["fp16", "bf16", "fp32"], "blocks": [32, 64], "block": "block_n"}
ATTENTION = {
    "adapter": "attention",
    "rank": 4,
    "causal": "last",
    "shapes": SHAPES,
    "head_dims": [16],
    "products": "tf32",
}
ROWS = {"adapter": "softmax", "rank": 2, "lse": "none", "shapes": ROW_SHAPES}


def names() -> tuple[str, ...]:
    """Names of all kernels that the laws can be run against here; none without torch and triton."""
    if missing_package():
        return ()
    twinned = import_module("tilesight.kernels.launch.registry").twinned
    every = [find_schedule(name) for name in twinned()]
    # Kernels of outlined schedules take few queries alone, and the laws draw any number.
    attention = [item.name for item in every if item.problem is AttentionProblem and not item.outlined]
    return (*attention, *_row_kernels())


def kernel(name: str) -> Callable[..., Any]:
    """A kernel, as a function that carries its declaration. Raises: ValueError: there is none of that name."""
    if name not in names():
        raise ValueError(f"kernel = {name!r}: must be one of {', '.join(names())}")
    arrays = "torch" if import_module("tilesight.kernels.launch.launch").interpreted() else "cuda"
    if name in _row_kernels():
        schedule, options = _row_kernels()[name]
        function, declared = _rows(schedule, options), ROWS | _row_limits(schedule, options)
    else:
        function, declared = _attention(name), ATTENTION | _declared(name)
    function.softmax_laws = {**COMMON, **declared, "arrays": arrays}  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = name
    return function


def _row_kernels() -> dict[str, tuple[Schedule, dict[str, Any]]]:
    """Name -> the schedule of a row softmax and the options that choose it: one for each variant, where there are."""
    kernels: dict[str, tuple[Schedule, dict[str, Any]]] = {}
    for name in import_module("tilesight.kernels.launch.registry").twinned():
        schedule = find_schedule(name)
        if schedule.problem is SoftmaxProblem:
            variants = schedule.options["softmax_variant"].values if "softmax_variant" in schedule.options else ()
            kernels |= {f"{variant}_softmax": (schedule, {"softmax_variant": variant}) for variant in variants}
            kernels |= {} if variants else {name: (schedule, {})}
    return kernels


def _row_limits(schedule: Schedule, options: dict[str, Any]) -> dict[str, Any]:
    """The largest element that a kernel of a row softmax takes, where its module says that there is one."""
    largest = getattr(import_module(f"tilesight.kernels.{schedule.name}"), "LARGEST_SCORES", {})
    variant = options.get("softmax_variant")
    return {"largest_score": largest[variant]} if variant in largest else {}


def _declared(name: str) -> dict[str, Any]:
    """What a kernel declares beside what all attention kernels do: how it rounds on its way, through memory."""
    roundings = import_module("tilesight.kernels.launch.registry").roundings_of(name)
    if roundings.scores:
        return {"lse": "none", "score_roundings": roundings.scores, "largest_score": 16000.0}
    return {"output_block": BLOCK_N} if roundings.output_each_key_tile else {}


def _attention(name: str) -> Callable[..., Any]:
    run = getattr(import_module(f"tilesight.kernels.{name}"), name)
    schedule = find_schedule(name)
    split = {"warp_split": "q"} if "warp_split" in schedule.options else {}

    def attention(q: Any, k: Any, v: Any, causal: bool = False, block_n: int = BLOCK_N) -> Any:
        config = schedule.config(block_m=BLOCK_M, block_n=block_n, num_warps=4, num_stages=2, **split)
        return run(q, k, v, causal=causal, config=config)

    return attention


def _rows(schedule: Schedule, options: dict[str, Any]) -> Callable[..., Any]:
    run = getattr(import_module(f"tilesight.kernels.{schedule.name}"), schedule.name)

    def softmax(x: Any, block_n: int = BLOCK_N) -> Any:
        config = schedule.config(block_m=4, block_n=block_n, num_warps=4, **options)
        return run(x[None, None], config=config)[0, 0]

    return softmax


def __getattr__(name: str) -> Any:
    if name in names():
        return kernel(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
