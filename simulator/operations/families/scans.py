"""Running sums, products and extremes: `cumsum`, `cumprod`, `logcumsumexp`, `cummax`, `cummin`.

Source: ATen/native/cuda/ScanUtils.cuh, torch 2.11 to 2.13.
Along the innermost dimension threads of a CTA take two values each, and add up what is before them in as many steps as
the logarithm of how many they are; then comes the next stretch of the row. Along others a thread goes down alone, a
load after every store. One row by itself is cub's.
"""

from math import ceil, prod

from ..gpu import SERIAL, Gpu, scratch
from ..operation import Operand, Operation
from ..priced import PricedKernel
from .elementwise import contiguous, copied

THREADS = 512
WARP = 32
LEAST_WIDTH, MOST_WIDTH = 4, 9
"""Logarithm of the fewest and most threads that a row has."""
STEP_CYCLES, STRETCH_CYCLES = 147, 460
"""Of a step of a CTA's 512 threads, and of a stretch beyond its steps and loads. Kind: fitted, rows of 1,024 and 32,000
elements in L2 on one H100."""
LOGARITHM_CYCLES, PLACED_CYCLES = 473, 490
"""Of a step that adds logarithms, with an exponential and a logarithm, or that keeps the larger of two values and its
place. Kind: fitted, 1,024 rows of 4,096 elements of bf16 on one H200 (2026-11-28)."""
STRETCH_LOADS = 2
"""Latencies that a stretch takes; OUTER_LOADS: that a row takes along an outer dimension, where stores and loads take
turns. Kind: fitted, the same behind a flushed L2, and 2,048 rows of 8 KiB."""
OUTER_LOADS = 1.27
STEP = 12.0
"""Instructions of a thread in a step: addresses, two loads, an addition, a store, a barrier. Kind: assumed."""
LOOK_BACK_LOADS = 10
"""Latencies of cub's tiles, which wait for those before them. Kind: assumed."""


def running_sum(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`cumsum` and `cumprod`, of values of the result's type, in the order of their dimensions."""
    source, output = operation.inputs[0], operation.outputs[0]
    kernels: list[PricedKernel] = []
    if source.dtype != output.dtype:
        wide = scratch(source, 0, dtype=output.dtype)
        kernels, source = [copied(source, wide, gpu)], wide
    copies, source = contiguous(source, 1, gpu)
    kernels += copies
    rank = len(source.shape)
    axis = int(operation.arguments.get("dim", -1)) % rank if rank else 0
    row = source.shape[axis] if rank else 1
    if row == source.elements:
        scan = gpu.kernel("scan", (source,), (output,), chain=LOOK_BACK_LOADS, overlap=SERIAL)
        return [*kernels, gpu.kernel("scan_init", (), ()), scan]
    if axis == rank - 1:
        return [*kernels, _along(source, (output,), row, gpu)]
    return [*kernels, _down(source, (output,), row, prod(source.shape[axis + 1 :]), gpu)]


def running_choice(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`cummax`, `cummin`, which give places too, and `logcumsumexp`: kernels of the same form, with dearer steps."""
    kernels, source = contiguous(operation.inputs[0], 1, gpu)
    rank = len(source.shape)
    axis = int(operation.arguments.get("dim", -1)) % rank if rank else 0
    row = source.shape[axis] if rank else 1
    if axis == max(rank - 1, 0):
        cycles = LOGARITHM_CYCLES if operation.name.startswith("log") else PLACED_CYCLES
        return [*kernels, _along(source, operation.outputs, row, gpu, cycles)]
    return [*kernels, _down(source, operation.outputs, row, prod(source.shape[axis + 1 :]), gpu)]


def width_log2(rows: int, row: int) -> int:
    """Logarithm of the threads that a row has (`get_log_num_threads_x_inner_scan`, in unsigned numbers of 32 bits)."""
    apart = (row - 1).bit_length() - (rows - 1).bit_length()
    return min(max((MOST_WIDTH + apart) % (1 << 32) // 2, LEAST_WIDTH), MOST_WIDTH)


def _along(
    source: Operand, outputs: tuple[Operand, ...], row: int, gpu: Gpu, step_cycles: int = STEP_CYCLES
) -> PricedKernel:
    """`tensor_kernel_scan_innermost_dim`, with indices or without."""
    rows = source.elements // row
    width = width_log2(rows, row)
    waves = _waves(ceil(rows / (THREADS >> width)), THREADS, gpu)
    stretches, steps = ceil(row / (2 << width)), width + 1
    return gpu.kernel(
        "scan",
        (source,),
        outputs,
        instructions=STEP * steps * source.elements / 2,
        chain=STRETCH_LOADS * stretches * waves,
        latency_s=gpu.cycles_s(STRETCH_CYCLES + step_cycles * steps) * stretches * waves,
        overlap=SERIAL,
    )


def _down(source: Operand, outputs: tuple[Operand, ...], row: int, inner: int, gpu: Gpu) -> PricedKernel:
    """`tensor_kernel_scan_outer_dim`."""
    threads = min(inner, THREADS)
    waves = _waves(source.elements // (row * inner) * ceil(inner / threads), threads, gpu)
    return gpu.kernel("scan_outer", (source,), outputs, chain=OUTER_LOADS * row * waves, overlap=SERIAL)


def _waves(ctas: int, threads: int, gpu: Gpu) -> float:
    resident = min(gpu.device.max_warps_per_sm // ceil(threads / WARP), gpu.device.max_ctas_per_sm)
    return max(ctas / (resident * gpu.sms), 1.0)
