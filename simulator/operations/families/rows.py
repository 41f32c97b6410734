"""Kernels that walk rows of scores: softmax and the loss, forward and backward.

A CTA takes a row (of a short one a warp, at the pace of HBM): it loads it, agrees on sums, and writes it, so many rows
at a time as fit the SMs.
"""

from math import ceil, log2, prod

from ..gpu import SERIAL, Gpu, part, scratch
from ..operation import Operand, Operation
from ..priced import PricedKernel
from .elementwise import contiguous, iterate

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
LOSS_THREADS, LOSS_TURNS = (32, 1024), 16
"""Least and most threads of the one CTA of `nll_loss`, and rows of each until there are that many (`nll_loss_threads`,
ATen/native/cuda/Loss.cu, torch 2.0 to 2.14)."""
PAGE_BYTES = 2 << 20
"""Behind a translation. Kind: documented, pages of cudaMalloc."""


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
    gpu: Gpu,
) -> PricedKernel:
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
    row: int, inner: int, reads: tuple[Operand, ...], writes: tuple[Operand, ...], gpu: Gpu, walks: int = WALKS
) -> PricedKernel:
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


def nll_loss(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`nll_loss_forward`: a thread loads a row's target and then its value, row after row; all add up.

    A turn of the CTA takes these latencies, and a cycle for each sector, or the translations that its rows wait for.
    """
    scores, targets = operation.inputs[:2]
    rows, turns, threads = _loss_turns(scores, operation)
    taken = part(scores, min(rows * gpu.device.sector_bytes, scores.bytes))
    missed = float(gpu.cache.readable_bytes(scores.storage) < taken.bytes)
    translated_s = gpu.cost("kernel.first_miss_s") if missed and threads * scores.bytes / rows > PAGE_BYTES else 0.0
    turn_s = (
        gpu.chain_s(2, missed) - missed * gpu.cost("kernel.first_miss_s") + max(translated_s, gpu.cycles_s(threads))
    )
    waits = turns * turn_s + gpu.chain_s(gpu.cost("loss.nll_sum_loads"), 0.0)
    return [gpu.kernel("nll_loss_forward", (taken, targets), operation.outputs, latency_s=waits, overlap=SERIAL)]


def nll_loss_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Its gradient: zeros, and a value in each row, whose target is loaded; for no store anybody waits."""
    output, targets = operation.outputs[0], operation.inputs[2]
    _, turns, threads = _loss_turns(output, operation)
    waits = gpu.chain_s(1 + turns, 1.0) + turns * gpu.cycles_s(threads)
    picked = gpu.kernel("nll_loss_backward", (targets,), (), latency_s=waits)
    return [iterate("fill", (), output, gpu), picked]


def _loss_turns(scores: Operand, operation: Operation) -> tuple[int, int, int]:
    """Rows of a loss, turns of its CTA, and its threads; losses that nothing adds up have a thread for each row."""
    rows = scores.shape[0] if len(scores.shape) > 1 else 1
    if operation.arguments.get("reduction") == 0:
        return rows, 1, min(rows, LOSS_THREADS[1])
    least, most = LOSS_THREADS
    threads = min(max(1 << round(log2(max(rows // LOSS_TURNS, 1))), least), most)
    return rows, ceil(rows / threads), threads


def _rows(source: Operand, axis: int) -> tuple[int, int]:
    row = source.shape[axis] if source.shape else 1
    return source.elements // max(row, 1), row
