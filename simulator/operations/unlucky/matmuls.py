"""Advice on matrix products off the fast path, for their rows, sizes or types."""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, prod

from ...device.device import Device
from ...prediction.what_helps import Advice
from ..cost_model import KernelCostModel
from ..families.products.matmul import ALIGNMENT_BYTES, ctas_of, is_aligned
from ..groups import time_of
from ..operation import Operand, Operation
from ..priced import KernelEstimate
from .hint import concerning, listed

MATMULS = {"mm": 0, "addmm": 1, "bmm": 0, "baddbmm": 1, "_scaled_mm": 0}
"""Products -> which input is the first matrix."""
EVEN = 64
"""Dimensions that are multiples of it fill the tiles of vendors' matrix products."""


def alignment(operations: Sequence[Operation], costs_s: Sequence[float]) -> Advice | None:
    """Matrices whose rows do not begin at multiples of `ALIGNMENT_BYTES`."""
    places = [
        place
        for place, operation in enumerate(operations)
        if _matrices(operation) and not all(map(is_aligned, (*_matrices(operation), *operation.outputs)))
    ]
    return concerning(
        *("alignment", places, operations, costs_s),
        text=f"matrix products whose rows are no multiple of {ALIGNMENT_BYTES} bytes: {_shapes(operations, places)}",
        cure=f"pad the dimension to a multiple of {EVEN}",
    )


def uneven(operations: Sequence[Operation], costs_s: Sequence[float]) -> Advice | None:
    """Tiles of products that stand over the edge of the result: vocabularies, widths of experts."""
    lost_s: dict[int, float] = {}
    for place, operation in enumerate(operations):
        for result in operation.outputs[:1] if _matrices(operation) else ():
            filled = prod(size / (ceil(size / EVEN) * EVEN) for size in result.shape[-2:] if size > EVEN)
            if filled < 1:
                lost_s[place] = (1 - filled) * costs_s[place]
    if not lost_s:
        return None
    return Advice(
        cause="uneven",
        text=f"matrix products with a dimension that is no multiple of {EVEN}: {_shapes(operations, lost_s)}",
        cure=f"pad it to a multiple of {EVEN}",
        time_s=sum(lost_s.values()),
    )


def full_precision(operations: Sequence[Operation], costs_s: Sequence[float]) -> Advice | None:
    """Products of 32 or 64 bits, which tensor cores do not take as they are."""
    places = [
        place
        for place, operation in enumerate(operations)
        if any(matrix.dtype in ("float32", "float64") for matrix in _matrices(operation))
        and not operation.arguments.get("tf32")
    ]
    return concerning(
        *("precision", places, operations, costs_s),
        text="matrix products of float32 or float64",
        cure='bfloat16, or torch.set_float32_matmul_precision("high") for TF32',
    )


def tails(operations: Sequence[Operation], priced: Sequence[Sequence[KernelEstimate]], device: Device) -> Advice | None:
    """What the last waves of matrix products leave idle."""
    lost_s: dict[int, float] = {}
    gpu = KernelCostModel(device)
    for place, (operation, kernels) in enumerate(zip(operations, priced, strict=True)):
        at_cores = [kernel for kernel in kernels if kernel.bound_by == "tensor cores"]
        waves = ctas_of(operation, gpu) / device.sms if at_cores and _matrices(operation) else 0.0
        if waves > 1:
            lost_s[place] = (1 - waves / ceil(waves)) * sum(map(time_of, at_cores))
    if not any(lost_s.values()):
        return None
    worst = sorted((place for place in lost_s if lost_s[place]), key=lambda place: -lost_s[place])
    return Advice(
        cause="tails",
        text=f"last waves of matrix products leave SMs idle: {_shapes(operations, worst)}",
        cure=f"another batch, or products in one, so that tiles fill waves of {device.sms} SMs",
        time_s=sum(lost_s.values()),
    )


def _matrices(operation: Operation) -> tuple[Operand, ...]:
    """What a matrix product reads; nothing of other operations."""
    if operation.kind != "torch" or operation.name not in MATMULS:
        return ()
    first = MATMULS[operation.name]
    return operation.inputs[first : first + 2]


def _shapes(operations: Sequence[Operation], places: Iterable[int]) -> str:
    """Shapes of some products, e.g. `4096 x 50257 x 768`."""
    return listed(list(dict.fromkeys(text for place in places for text in _shape(operations[place]))))


def _shape(operation: Operation) -> Iterator[str]:
    matrices = _matrices(operation)
    if len(matrices) == 2:
        (*_, m, k), (*_, n) = matrices[0].shape, matrices[1].shape
        yield f"{m} x {n} x {k}"
