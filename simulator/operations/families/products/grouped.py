"""Products of groups: `_grouped_mm`, whose groups end where a tensor says, as mixtures of experts have them.

Source: ATen/native/cuda/GroupMM.cu and GroupedBlas.cpp, torch 2.11 to 2.13. Of bfloat16 on compute capability 9 and 10
a kernel of one CTA writes down the groups, and one of CUTLASS multiplies all, in one of two tiles. Elsewhere the host
reads where groups end, and multiplies one after the other.
"""

from dataclasses import replace
from math import ceil

from ...gpu import Gpu
from ...operation import Operand, Operation
from ...priced import PricedKernel
from .matmul import TILED, Product, multiplied, product_of, walked_s

SMALL = 128
"""Rows or columns of a group up to which the small tile is taken (`dispatch_bf16_grouped_kernel_on_tile_size`)."""
SMALL_TILE, LARGE_TILE = (64, 128), (128, 256)
"""Rows and columns of a tile."""
EQUAL = "groups of equal sizes are assumed"


def grouped(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Kernels of `_grouped_mm`."""
    product = product_of(operation)
    if product.dtype != "bfloat16" or int(gpu.device.compute_capability.split(".")[0]) not in (9, 10):
        return _one_by_one(operation, product, gpu)
    tile = SMALL_TILE if min(product.m, product.n) <= SMALL else LARGE_TILE
    busy, note = walked_s(product, tile, gpu)
    return [
        gpu.kernel("prepare_grouped_gemm", operation.inputs[2:], (), chain=2),
        gpu.kernel(
            f"grouped gemm {product.m}x{product.n}x{product.k} x{product.batch}",
            operation.inputs,
            operation.outputs,
            source="matmul",
            tensor_s=busy,
            start_s=gpu.cost("matmul.start_s"),
            hbm_fraction=gpu.cost("matmul.stream_fraction"),
            overlap=TILED,
            note=note or EQUAL,
        ),
    ]


def _one_by_one(operation: Operation, product: Product, gpu: Gpu) -> list[PricedKernel]:
    """A product for each group."""
    alone = replace(product, batch=1)
    left, right, output = *operation.inputs[:2], operation.outputs[0]
    kernels = [gpu.kernel("Memcpy DtoH", operation.inputs[2:], ())]
    for group in range(product.batch):
        reads = (_part(left, group, product.batch), _part(right, group, product.batch))
        made = multiplied(alone, reads, (_part(output, group, product.batch),), gpu)
        kernels += [replace(kernel, note=kernel.note or EQUAL) for kernel in made]
    return kernels


def _part(operand: Operand, group: int, groups: int) -> Operand:
    """What a group has of an operand: its matrix, or its share of one for all."""
    if len(operand.shape) == 3:
        step, shape, strides = operand.strides[0], operand.shape[1:], operand.strides[1:]
    else:
        size = ceil(operand.shape[0] / groups)
        step, shape, strides = size * operand.strides[0], (size, operand.shape[1]), operand.strides
    offset_bytes = operand.offset_bytes + group * step * operand.item_bytes
    return replace(operand, shape=shape, strides=strides, offset_bytes=offset_bytes)
