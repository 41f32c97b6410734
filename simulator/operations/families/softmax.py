"""Softmax and log-softmax, forward and backward, and `logsumexp`.

A CTA takes a row (of a short one a warp, at the pace of HBM): it loads it, agrees on sums, and writes it, so many rows
at a time as fit the SMs.
"""

from math import ceil, prod

from ..cost_model import SERIAL, KernelCostModel, scratch
from ..operation import Operand, Operation
from ..priced import KernelEstimate, Kernels
from .elementwise import contiguous, iterate
from .reductions import LARGEST, SUM, reduced

CTAS_PER_SM = 2
"""Of `cunn_SoftMaxForward`: 1,024 threads each."""
REGISTER_ROWS = 9 * 1024
"""Longest row that softmax keeps in registers (`potential_register_count`), and in shared memory [B]."""
SHARED_ROW_BYTES = 48 << 10
WARP_ROWS = 1024
"""Longest row that a warp takes in softmax (`dispatch_softmax_forward`)."""
WARP, WARPS, PAIRED_ROWS = 32, 4, 128
"""Threads of a warp, warps of a CTA of softmax, and longest row of which a warp takes two (PersistentSoftmax.cuh)."""
WARP_THREADS = 64
"""Neighbours along inner dimensions above which a single thread walks an outer one (`SpatialSoftMax_getBlockSize`);
else the CTA's threads share it."""
CTA_THREADS = 1024
WALKS = 3
"""Of softmax over an outer dimension: its largest value, its sum, its results."""


def softmax(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`softmax` and `log_softmax`."""
    source, axis = operation.inputs[0], operation.arguments.get("dim", -1)
    rows, row = _rows(source, axis)
    kernels, source = contiguous(source, 0, gpu)
    inner = prod(source.shape[axis % len(source.shape) + 1 :]) if source.shape else 1
    if inner > 1:
        return [*kernels, _walk_outer(row, inner, (source,), operation.outputs, gpu)]
    return [*kernels, _walk("softmax_forward", rows, row, (source,), operation.outputs, 2, gpu)]


def softmax_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Their gradients: of softmax a product in a tensor of its own before it."""
    gradient, result = operation.inputs[:2]
    rows, row = _rows(result, operation.arguments.get("dim", -1))
    output = operation.outputs[0]
    inner = prod(result.shape[operation.arguments.get("dim", -1) % len(result.shape) + 1 :]) if result.shape else 1
    if inner > 1:
        return [_walk_outer(row, inner, (gradient, result), (output,), gpu, walks=2)]
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
    gpu: KernelCostModel,
) -> KernelEstimate:
    """A kernel of softmax; `again`: how often a row that no SM can keep is read once more."""
    item = reads[0].item_bytes
    if row <= WARP_ROWS:
        filled = 1 << (row - 1).bit_length()
        issued = (
            gpu.cost("softmax.warp_instructions" if again == 2 else "softmax.warp_backward_instructions")
        ) * filled + gpu.cost("softmax.warp_row_instructions") * WARP
        ctas = rows / (WARPS * (2 if filled <= PAIRED_ROWS else 1))
        return gpu.kernel(f"{name}_warp", reads, writes, instructions=issued * rows, chain=4, ctas=ctas)
    in_registers = again == 2 and row <= REGISTER_ROWS
    kept = in_registers or row * item <= SHARED_ROW_BYTES
    live = min(rows, CTAS_PER_SM * gpu.sms) * row * item * (len(reads) + len(writes))
    spilled = 0.0 if kept else min(max(live / gpu.cache.capacity_bytes - 1.0, 0.0), 1.0)
    return gpu.kernel(
        name,
        reads,
        writes,
        instructions=(
            gpu.cost("softmax.registers_instructions" if in_registers else "softmax.row_instructions")
            if again
            else gpu.cost("elementwise.vectorised_instructions")
        )
        * rows
        * row,
        latency_s=gpu.cost("softmax.row_s") + gpu.cost("softmax.round_s") * row / 1024,
        read_again=spilled * again * rows * row * item,
        overlap=SERIAL,
    )


def _walk_outer(
    row: int,
    inner: int,
    reads: tuple[Operand, ...],
    writes: tuple[Operand, ...],
    gpu: KernelCostModel,
    walks: int = WALKS,
) -> KernelEstimate:
    """Softmax along an outer dimension (`cunn_SpatialSoftMaxForward`): threads walk it three times, load by load.

    Its gradient (`cunn_SpatialSoftMaxBackward`) walks twice.

    No more CTAs than the GPU has room for go around inner dimensions, and then the outer ones (`getGridSize`). What
    they walk at a time comes from HBM once where L2 holds it.
    """
    threads = 1 if inner > WARP_THREADS else max(CTA_THREADS // inner, 1)
    room, outer = CTAS_PER_SM * gpu.sms, writes[0].elements // (row * inner)
    across = min(ceil(inner / CTA_THREADS), room)
    behind = min(ceil(room / across), outer)
    walk = ceil(inner / (across * CTA_THREADS)) * ceil(outer / behind) * row / min(threads, row)
    fits = (
        len(reads) * behind * min(across * CTA_THREADS, inner) * row * reads[0].item_bytes <= gpu.cache.capacity_bytes
    )
    missed, again = (walk, (walks - 1) * walk) if fits else (walks * walk, 0.0)
    waits = gpu.chain_s(again, 0.0) + gpu.cycles_s(walks * gpu.cost("softmax.outer_cycles") * walk)
    issued = gpu.cost("softmax.outer_instructions") * writes[0].elements * walks / WALKS
    name = "softmax_forward_outer" if walks == WALKS else "softmax_backward_outer"
    return gpu.kernel(*(name, reads, writes), instructions=issued, chain=missed, latency_s=waits, overlap=SERIAL)


def _rows(source: Operand, axis: int) -> tuple[int, int]:
    row = source.shape[axis] if source.shape else 1
    return source.elements // max(row, 1), row


def logsumexp(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`logsumexp`: largest elements (infinite ones as 0), exponentials of differences, their sums, logarithms."""
    source, output = operation.inputs[0], operation.outputs[0]
    given = operation.arguments.get("dim", ())
    axes = tuple(given) if isinstance(given, list | tuple) else (given,)
    largest, infinite, powers = scratch(output, 0), scratch(output, 1, dtype="bool"), scratch(source, 2)
    kept = _kept(source, largest, axes)
    return [
        *reduced(source, (largest,), axes, gpu, LARGEST),
        iterate("abs", (largest,), scratch(output, 3), gpu),
        iterate("eq", (scratch(output, 3),), infinite, gpu),
        iterate("masked_fill", (largest, infinite), largest, gpu),
        iterate("sub", (source, kept), powers, gpu),
        iterate("exp", (powers,), powers, gpu),
        *reduced(powers, (output,), axes, gpu, SUM),
        iterate("log", (output,), output, gpu),
        iterate("add", (output, largest), output, gpu),
    ]


def _kept(source: Operand, reduced_to: Operand, axes: tuple[int, ...]) -> Operand:
    """What a reduction gives, with sizes of 1 along its axes."""
    rank = len(source.shape)
    gone = {axis % rank for axis in axes} if axes else set(range(rank))
    shape = tuple(1 if axis in gone else size for axis, size in enumerate(source.shape))
    return scratch(reduced_to, 0, shape=shape)
