"""Products in fp8 by vLLM's CUTLASS kernels, `cutlass_scaled_mm`, and the conversion to fp8 before them.

Rows, columns and K decide which kernel runs (csrc/libtorch_stable/quantization/w8a8/cutlass, files
`*_fp8_dispatch.cuh` of each architecture, vLLM 1051220). None splits K, and tiles fill whole clusters, whose CTAs share
what they load. `static_scaled_fp8_quant` has a CTA for each row, which takes 2,048 elements a turn.
"""

from math import ceil, inf

from ...cost_model import KernelCostModel
from ...operation import Operation
from ...priced import Kernels, NoPrice
from .matmul import product_of
from .tensor_tiles import RATES, TILED, TileCost

Tile = tuple[int, int, int, int, int]
"""Rows and columns of a CTA's tile, what it takes of K at a time, CTAs of a cluster along rows and along columns."""
Rule = tuple[float, float, int, Tile]
"""Most rows, most columns and least K of a product that a tile is for; the first that fits is taken."""
RULES: dict[str, tuple[Rule, ...]] = {
    "8.9": (
        (16, 8192, 0, (16, 64, 128, 1, 1)), (16, 16384, 0, (16, 128, 64, 1, 1)), (32, 8192, 0, (32, 64, 128, 1, 1)),
        (32, 16384, 0, (32, 128, 128, 1, 1)), (32, inf, 0, (32, 64, 128, 1, 1)), (64, 8192, 0, (64, 64, 128, 1, 1)),
        (64, 16384, 0, (64, 128, 128, 1, 1)), (64, inf, 0, (64, 64, 128, 1, 1)), (128, 8192, 0, (64, 128, 128, 1, 1)),
        (128, 16384, 0, (128, 128, 64, 1, 1)), (128, inf, 0, (128, 64, 128, 1, 1)),
        (256, 4096, 0, (64, 128, 128, 1, 1)), (256, inf, 0, (128, 128, 64, 1, 1)), (inf, 4096, 0, (128, 128, 64, 1, 1)),
        (inf, 8192, 0, (256, 128, 64, 1, 1)), (inf, inf, 0, (128, 128, 64, 1, 1)),
    ),
    "9.0": (
        (16, 1280, 0, (16, 64, 256, 2, 1)), (16, inf, 0, (16, 64, 256, 1, 1)), (64, 1280, 0, (16, 64, 256, 4, 1)),
        (64, inf, 0, (64, 64, 256, 1, 1)), (128, inf, 0, (64, 128, 128, 2, 1)), (8191, inf, 0, (128, 128, 128, 2, 1)),
        (inf, inf, 6144, (256, 128, 128, 2, 1)), (inf, inf, 0, (128, 128, 128, 2, 1)),
    ),
    "10": (
        (16, inf, 0, (32, 64, 128, 1, 4)), (63, inf, 0, (64, 64, 256, 1, 4)), (64, inf, 4096, (64, 64, 256, 1, 4)),
        (64, inf, 0, (64, 64, 128, 1, 1)), (256, inf, 0, (64, 128, 128, 2, 1)), (inf, inf, 0, (128, 128, 128, 2, 2)),
    ),
    "12": (
        (16, inf, 0, (16, 64, 128, 1, 1)), (32, inf, 0, (32, 64, 128, 1, 1)), (256, inf, 0, (64, 64, 128, 1, 1)),
        (inf, inf, 0, (128, 128, 128, 1, 1)),
    ),
}  # fmt: skip
"""By compute capability. Tiles of pairs of SMs stand as each SM's half."""
TURN = 2048
"""Elements of a row that a CTA converts at a time: 256 threads, 16 bytes each."""


def scaled_mm(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """The kernel of `cutlass_scaled_mm`: two operands, scales or none, a result."""
    product, device = product_of(operation), gpu.device
    capability = device.compute_capability
    rules = RULES.get(capability) or RULES.get(capability.split(".")[0])
    if not rules or RATES.get(product.dtype) != "fp8":
        raise NoPrice(f"of {product.dtype} on compute capability {capability}")
    m, n, k = product.m, product.n, product.k
    rows, columns, step, down, across = next(
        tile for most_m, most_n, least_k, tile in rules if m <= most_m and n <= most_n and k >= least_k
    )
    rate = device.fastest_of_kind("fp8") * device.tensor_clock_hz * gpu.cost("matmul.scaled_clock_factor")
    ctas = down * ceil(ceil(m / rows) / down) * across * ceil(ceil(n / columns) / across)
    waves, lines = ceil(ctas / gpu.sms), min(rows, m) / across + min(columns, n) / down
    tile_s = TileCost(product, rate, gpu, kind="scaled_").loading(rows, columns, step * ceil(k / step), lines)
    return [
        gpu.kernel(
            f"gemm {m}x{n}x{k}",
            operation.inputs,
            operation.outputs,
            source="matmul",
            tensor_s=waves * tile_s + (waves - 1) * gpu.cost("matmul.scaled_again_s"),
            start_s=gpu.cost("matmul.scaled_start_s"),
            hbm_fraction=gpu.cost("matmul.scaled_stream_fraction"),
            overlap=TILED,
        )
    ]


def quantized(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """The kernel of `static_scaled_fp8_quant`."""
    rows, columns = operation.inputs[0].shape[-2:]
    cycles = gpu.cost("matmul.scaled_row_cycles") + gpu.cost("matmul.scaled_turn_cycles") * ceil(columns / TURN)
    waits = gpu.cycles_s(max(rows / gpu.sms, 1.0) * cycles)
    reads, writes = operation.inputs[:1], operation.outputs
    return [gpu.kernel("scaled_fp8_quant", reads, writes, ctas=rows, chain=1, latency_s=waits)]
