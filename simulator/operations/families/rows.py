"""Kernels that walk rows of scores: softmax and the loss, forward and backward.

A CTA takes a row (of a short one a warp, at the pace of HBM): it loads it, agrees on sums, and writes it, so many rows
at a time as fit the SMs.
"""

from math import prod

from ..gpu import OVERLAPPED, SERIAL, Gpu, scratch
from ..operation import Operand, Operation
from ..priced import PricedKernel
from .elementwise import contiguous, iterate
from .issue_slots import SOFTMAX, SOFTMAX_IN_REGISTERS, VECTORISED

CTAS_PER_SM = 2
"""Of `cunn_SoftMaxForward`: 1,024 threads each."""
ROW_S = 0.3e-6
"""Of a row's CTA until its sums are agreed on [s]; and ROUND_S: more for each 1,024 elements of it [s]. Kind: fitted,
softmax of 16 rows of 4,096 elements, and gradients of 32 rows of 128,256, on one H100."""
ROUND_S = 0.42e-6
REGISTER_ROWS = 9 * 1024
"""Longest row that softmax keeps in registers (`potential_register_count`), and in shared memory [B]."""
SHARED_ROW_BYTES = 48 << 10
WARP_ROWS = 1024
"""Longest row that a warp takes in softmax (`dispatch_softmax_forward`)."""
WARP_THREADS = 64
"""Neighbours along inner dimensions above which a single thread walks an outer one (`SpatialSoftMax_getBlockSize`);
else the CTA's threads share it."""
CTA_THREADS = 1024
LOSS_LOADS = 48
"""Latencies of `nll_loss` in its one CTA, up to 1,024 rows a turn. Kind: fitted, 32 to 8,192 rows on one H100."""


def softmax(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`softmax` and `log_softmax`."""
    source, axis = operation.inputs[0], operation.arguments.get("dim", -1)
    rows, row = _rows(source, axis)
    kernels, source = contiguous(source, 0, gpu)
    inner = prod(source.shape[axis % len(source.shape) + 1 :]) if source.shape else 1
    if inner > 1:
        return [*kernels, _walk_outer(row, inner, (source,), operation.outputs, gpu)]
    return [*kernels, _walk("softmax_forward", rows, row, (source,), operation.outputs, 2, gpu)]


def softmax_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Their gradients: of softmax a product in a tensor of its own before it."""
    gradient, result = operation.inputs[:2]
    rows, row = _rows(result, operation.arguments.get("dim", -1))
    output = operation.outputs[0]
    if "log" in operation.name:
        return [_walk("softmax_backward", rows, row, (gradient, result), (output,), 1, gpu)]
    product = scratch(gradient, 0)
    first = iterate("mul", (gradient, result), product, gpu)
    return [first, _walk("softmax_backward", rows, row, (product, result), (output,), 0, gpu)]


def _walk(
    name: str,
    rows: int,
    row: int,
    reads: tuple[Operand, ...],
    writes: tuple[Operand, ...],
    again: int,
    gpu: Gpu,
) -> PricedKernel:
    """A kernel of softmax; `again`: how often a row that no SM can keep is read once more."""
    item = reads[0].item_bytes
    if row <= WARP_ROWS:
        return gpu.kernel(f"{name}_warp", reads, writes, chain=4, ctas=rows / 8)
    in_registers = again == 2 and row <= REGISTER_ROWS
    kept = in_registers or row * item <= SHARED_ROW_BYTES
    live = min(rows, CTAS_PER_SM * gpu.sms) * row * item * (len(reads) + len(writes))
    spilled = 0.0 if kept else min(max(live / gpu.cache.capacity_bytes - 1.0, 0.0), 1.0)
    return gpu.kernel(
        name,
        reads,
        writes,
        instructions=(SOFTMAX_IN_REGISTERS if in_registers else SOFTMAX if again else VECTORISED) * rows * row,
        latency_s=ROW_S + ROUND_S * row / 1024,
        read_again=spilled * again * rows * row * item,
        overlap=SERIAL,
    )


def _walk_outer(
    row: int, inner: int, reads: tuple[Operand, ...], writes: tuple[Operand, ...], gpu: Gpu
) -> PricedKernel:
    """Softmax along an outer dimension (`cunn_SpatialSoftMaxForward`): few threads walk it three times."""
    threads = 1 if inner > WARP_THREADS else max(CTA_THREADS // inner, 1)
    chain = 3 * row / min(threads, row)
    return gpu.kernel("softmax_forward_outer", reads, writes, chain=chain, overlap=SERIAL)


def nll_loss(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`nll_loss_forward`: one CTA takes a value of each row."""
    scores, targets = operation.inputs[:2]
    return [_pick("nll_loss_forward", scores, (targets,), operation.outputs, gpu)]


def nll_loss_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Its gradient: zeros, and a value in each row."""
    output = operation.outputs[0]
    targets = operation.inputs[2]
    filled = iterate("fill", (), output, gpu)
    return [filled, _pick("nll_loss_backward", output, (targets,), (), gpu)]


def _pick(
    name: str, scores: Operand, reads: tuple[Operand, ...], writes: tuple[Operand, ...], gpu: Gpu
) -> PricedKernel:
    rows = scores.shape[0] if len(scores.shape) > 1 else 1
    far = scores.bytes > gpu.cache.capacity_bytes
    waits = gpu.chain_s(LOSS_LOADS * min(rows / 1024, 1.0), far)
    return gpu.kernel(name, reads, writes, chain=4, latency_s=waits, overlap=OVERLAPPED)


def _rows(source: Operand, axis: int) -> tuple[int, int]:
    row = source.shape[axis] if source.shape else 1
    return source.elements // max(row, 1), row
