"""Products of int8 that are added up in int32: `_int_mm`, by a kernel of compute capability 8.0 on all later GPUs too.

Kind: measured, its name on one H100, `cutlass_80_tensorop_i16832gemm_s8`, where other products have wgmma.
"""

from math import ceil

from ...gpu import Gpu
from ...operation import Operation
from ...priced import PricedKernel
from .matmul import TILED, product_of

TILES = ((128, 256), (256, 128), (128, 128), (128, 64), (64, 128), (64, 64))
"""Rows and columns of its tiles. Kind: measured, 128 x 256 for 1000 x 11008 x 4096 on one H100; assumed, the others."""


def integer_product(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """The kernel of `_int_mm`."""
    product, device = product_of(operation), gpu.device
    rate = (
        min(gpu.cost("matmul.int8_factor") * device.mma_fp16_flop_per_cycle, device.fastest_flop_per_cycle("i8"))
        * device.tensor_clock_hz
    )
    tried = []
    for rows, columns in TILES:
        waves = ceil(ceil(product.m / rows) * ceil(product.n / columns) / gpu.sms)
        tried.append(waves * (2.0 * rows * columns * product.k / rate + gpu.cost("matmul.tile_s")))
    return [
        gpu.kernel(
            f"gemm {product.m}x{product.n}x{product.k}",
            operation.inputs,
            operation.outputs,
            source="matmul",
            tensor_s=min(tried),
            start_s=gpu.cost("matmul.start_s"),
            hbm_fraction=gpu.cost("matmul.stream_fraction"),
            overlap=TILED,
            note="products of int8 are taken to run at twice the rate of fp16",
        )
    ]
