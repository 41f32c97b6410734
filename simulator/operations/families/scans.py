"""Running sums, products and extremes: `cumsum`, `cumprod`, `logcumsumexp`, `cummax`, `cummin`; histograms.

Source: ATen/native/cuda/ScanUtils.cuh, SummaryOps.cu, torch 2.11 to 2.13.
Along the innermost dimension threads of a CTA take two values each, and add up what is before them in as many steps as
the logarithm of how many they are; then comes the next stretch of the row. Along others a thread goes down alone, a
load after every store. One row by itself is cub's. In a histogram a thread takes an element, and adds
by comparing and swapping until none has come between: threads of a CTA that meet in a bin follow each other.
"""

from math import ceil, prod

from ..cost_model import SERIAL, KernelCostModel, scratch
from ..operation import Operand, Operation
from ..priced import KernelEstimate, Kernels
from .elementwise import contiguous, copied, iterate
from .reductions import LARGEST, reduced

COUNTING_THREADS, COUNTING_CTAS_PER_SM = 512, 4
SMEM_BYTES = 48 << 10
"""Shared memory of a CTA that asks for no more than any may have (`sharedMemPerBlock`)."""
EVEN_BINS = "elements are taken to fall into all bins alike"
THREADS = 512
WARP = 32
LEAST_WIDTH, MOST_WIDTH = 4, 9
"""Logarithm of the fewest and most threads that a row has."""


def histogram(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Kernels of `histc` and `bincount`: zeros, and the additions; of `bincount` the ends of its range before."""
    source, output = operation.inputs[0], operation.outputs[0]
    kernels = []
    if operation.name == "bincount":
        for _ in ("min", "max"):
            kernels += [*reduced(source, (output,), (), gpu, LARGEST), gpu.kernel("Memcpy DtoH", (), ())]
    ctas = ceil(source.elements / COUNTING_THREADS)
    met = min(source.elements, COUNTING_THREADS) / output.elements
    waves = max(ctas / (COUNTING_CTAS_PER_SM * gpu.sms), 1.0)
    added = gpu.kernel(
        "histogram",
        operation.inputs,
        (output,),
        instructions=(
            gpu.cost(
                "histogram.counted_wide_instructions" if source.item_bytes == 8 else "histogram.counted_instructions"
            )
        )
        * source.elements,
        ctas=ctas,
        chain=2,
        latency_s=gpu.cycles_s(gpu.cost("histogram.spin_cycles") * met) * waves,
        overlap=SERIAL,
        note=EVEN_BINS,
    )
    return [*kernels, iterate("fill", (), output, gpu), added]


def other_histogram(operation: Operation) -> str:
    """Which histograms have no price, in words; empty: it has one."""
    if operation.name == "histc" and operation.arguments.get("min", 0) == operation.arguments.get("max", 0):
        return "without its range, which the host asks the device for,"
    return "of more bins than shared memory holds" if operation.outputs[0].bytes + 8 >= SMEM_BYTES else ""


def cumsum(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`cumsum` and `cumprod`, of values of the result's type, in the order of their dimensions."""
    source, output = operation.inputs[0], operation.outputs[0]
    kernels: Kernels = []
    if source.dtype != output.dtype:
        wide = scratch(source, 0, dtype=output.dtype)
        kernels, source = [copied(source, wide, gpu)], wide
    copies, source = contiguous(source, 1, gpu)
    kernels += copies
    rank = len(source.shape)
    axis = int(operation.arguments.get("dim", -1)) % rank if rank else 0
    row = source.shape[axis] if rank else 1
    if row == source.elements:
        scan = gpu.kernel("scan", (source,), (output,), chain=gpu.cost("scan.look_back_loads"), overlap=SERIAL)
        return [*kernels, gpu.kernel("scan_init", (), ()), scan]
    if axis == rank - 1:
        return [*kernels, _along(source, (output,), row, gpu)]
    return [*kernels, _down(source, (output,), row, prod(source.shape[axis + 1 :]), gpu)]


def cummax(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`cummax`, `cummin`, which give places too, and `logcumsumexp`: kernels of the same form, with dearer steps."""
    kernels, source = contiguous(operation.inputs[0], 1, gpu)
    rank = len(source.shape)
    axis = int(operation.arguments.get("dim", -1)) % rank if rank else 0
    row = source.shape[axis] if rank else 1
    if axis == max(rank - 1, 0):
        step = "scan.logarithm_step_cycles" if operation.name.startswith("log") else "scan.choice_step_cycles"
        return [*kernels, _along(source, operation.outputs, row, gpu, step)]
    return [*kernels, _down(source, operation.outputs, row, prod(source.shape[axis + 1 :]), gpu)]


def width_log2(rows: int, row: int) -> int:
    """Logarithm of the threads that a row has (`get_log_num_threads_x_inner_scan`, in unsigned numbers of 32 bits)."""
    apart = (row - 1).bit_length() - (rows - 1).bit_length()
    return min(max((MOST_WIDTH + apart) % (1 << 32) // 2, LEAST_WIDTH), MOST_WIDTH)


def _along(
    source: Operand, outputs: tuple[Operand, ...], row: int, gpu: KernelCostModel, step: str = "scan.step_cycles"
) -> KernelEstimate:
    """`tensor_kernel_scan_innermost_dim`, with indices or without."""
    rows = source.elements // row
    width = width_log2(rows, row)
    waves = _waves(ceil(rows / (THREADS >> width)), THREADS, gpu)
    stretches, steps = ceil(row / (2 << width)), width + 1
    return gpu.kernel(
        "scan",
        (source,),
        outputs,
        instructions=gpu.cost("scan.step_instructions") * steps * source.elements / 2,
        chain=gpu.cost("scan.stretch_loads") * stretches * waves,
        latency_s=gpu.cycles_s(gpu.cost("scan.stretch_cycles") + gpu.cost(step) * steps) * stretches * waves,
        overlap=SERIAL,
    )


def _down(source: Operand, outputs: tuple[Operand, ...], row: int, inner: int, gpu: KernelCostModel) -> KernelEstimate:
    """`tensor_kernel_scan_outer_dim`."""
    threads = min(inner, THREADS)
    waves = _waves(source.elements // (row * inner) * ceil(inner / threads), threads, gpu)
    return gpu.kernel(
        "scan_outer", (source,), outputs, chain=gpu.cost("scan.outer_loads") * row * waves, overlap=SERIAL
    )


def _waves(ctas: int, threads: int, gpu: KernelCostModel) -> float:
    resident = min(gpu.device.max_warps_per_sm // ceil(threads / WARP), gpu.device.max_ctas_per_sm)
    return max(ctas / (resident * gpu.sms), 1.0)
