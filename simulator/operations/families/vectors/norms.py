"""`renorm`, `_weight_norm_interface`, `linalg_cross`: rows of vectors, and what their norms scale."""

from dataclasses import replace
from math import prod

from ...gpu import SERIAL, Gpu, scratch
from ...operation import Operation
from ...priced import PricedKernel
from ..elementwise import iterate
from ..reductions import MEAN, reduced

VECTOR = 3
"""Elements of a vector of `linalg_cross`, which a thread takes."""
ROW_THREADS = 512
"""Of a CTA of `weight_norm_fwd_first_dim_kernel` (`block.x`, ATen/native/cuda/WeightNorm.cu, torch 2.11)."""


def renorm(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Norms of slices along a dimension, factors, and their product."""
    source, output = operation.inputs[0], operation.outputs[0]
    rank = len(source.shape)
    kept = int(operation.arguments.get("dim", 0)) % rank
    shape = tuple(size if axis == kept else 1 for axis, size in enumerate(source.shape))
    norms = scratch(source, 0, shape=shape)
    axes = tuple(axis for axis in range(rank) if axis != kept)
    factors = iterate("reciprocal", (norms,), norms, gpu)
    return [*reduced(source, (norms,), axes, gpu, MEAN), factors, iterate("mul", (source, norms), output, gpu)]


def weight_norm(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """A CTA takes a row's norm, and scales the row."""
    weights, rows = operation.inputs[0], max(operation.inputs[1].elements, 1)
    turns = prod(weights.shape) / rows / ROW_THREADS
    waves = max(rows * ROW_THREADS / (gpu.device.max_warps_per_sm * 32 * gpu.sms), 1.0)
    loads = waves * (2 * turns + gpu.cost("norm.weight_row_loads"))
    return [gpu.kernel("weight_norm", operation.inputs[:2], operation.outputs, ctas=rows, chain=loads, overlap=SERIAL)]


def cross(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`linalg_cross`: a vector a thread."""
    issued = gpu.cost("elementwise.indexed_instructions") * operation.outputs[0].elements / VECTOR
    reads, writes = operation.inputs[:2], operation.outputs
    return [gpu.kernel("cross", reads, writes, instructions=issued, chain=2, overlap=SERIAL)]


def diagonals(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`diag_embed`: zeros, and a copy to the diagonal; `diagonal_copy`: a copy of it."""
    source, output = operation.inputs[0], operation.outputs[0]
    whole = output if operation.name == "diag_embed" else source
    rank = len(whole.shape)
    first, second = (
        int(operation.arguments.get(name, default)) % rank
        for name, default in zip(("dim1", "dim2"), (-2, -1) if operation.name == "diag_embed" else (0, 1), strict=True)
    )
    outer = [axis for axis in range(rank) if axis not in (first, second)]
    seen = replace(
        whole,
        shape=(source if operation.name == "diag_embed" else output).shape,
        strides=(*(whole.strides[axis] for axis in outer), whole.strides[first] + whole.strides[second]),
    )
    if operation.name == "diagonal_copy":
        return [iterate("copy", (seen,), output, gpu)]
    return [iterate("fill", (), output, gpu), iterate("copy", (source,), seen, gpu)]
