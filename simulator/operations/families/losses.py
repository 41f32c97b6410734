"""Losses: `nll_loss`, of rows and of images, cross entropies of probabilities, and those of elements.

Sources: ATen/native/cuda/Loss.cu, NLLLoss2d.cu, torch 2.11. Of `nll_loss2d` nothing is fitted: 16 images of 21 classes
and 256 x 256 pixels took an H200 76 us (2026-11-28), and 70 are predicted: a CTA of 1,024 threads, or a few, takes an
image, a thread loads a pixel's target and then its value, pixel after pixel, and all add up.
"""

from math import ceil, log2

from ..cost_model import SERIAL, KernelCostModel, part, scratch
from ..operation import Operand, Operation
from ..priced import Kernels
from .elementwise import copied, iterate
from .reductions import MEAN, SUM, reduced

LOSS_THREADS, LOSS_TURNS = (32, 1024), 16
"""Least and most threads of the one CTA of `nll_loss`, and rows of each until there are that many (`nll_loss_threads`,
ATen/native/cuda/Loss.cu, torch 2.0 to 2.14)."""
PAGE_BYTES = 2 << 20
"""Behind a translation. Kind: documented, pages of cudaMalloc."""
NONE, TOTAL = 0, 2
"""Reductions of a loss: none, a sum; others mean."""
IMAGE_THREADS = 1024
CTAS_IN_ONE = 128
"""Of which one is left (`GET_BLOCKS(map_nelem) / 128`, at least one an image)."""
NO_REDUCTION = 0


def nll_loss(operation: Operation, gpu: KernelCostModel) -> Kernels:
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


def nll_loss_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
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


def loss_of_logits(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`binary_cross_entropy_with_logits`: (1 - y) x - log sigmoid x, and its mean or sum."""
    logits, targets = operation.inputs[:2]
    output = operation.outputs[0]
    losses, logarithms = scratch(logits, 0), scratch(logits, 1)
    kernels = [
        iterate("log_sigmoid_forward", (logits,), logarithms, gpu),
        iterate("fill", (), losses, gpu),
        iterate("sub", (losses, targets), losses, gpu),
        iterate("mul", (losses, logits), losses, gpu),
        iterate("sub", (losses, logarithms), losses, gpu),
    ]
    return [*kernels, *_meaned(operation, losses, output, gpu)]


def loss_of_elements(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`mse_loss`, `l1_loss`, `smooth_l1_loss`, `huber_loss`: of each element, and their mean or sum."""
    output = operation.outputs[0]
    losses = scratch(operation.inputs[0], 0)
    return [iterate("sub", operation.inputs, losses, gpu), *_meaned(operation, losses, output, gpu)]


def _meaned(operation: Operation, losses: Operand, output: Operand, gpu: KernelCostModel) -> Kernels:
    """Kernels of the reduction that a loss is asked for: 0 none, 1 mean, 2 sum."""
    kind = operation.arguments.get("reduction", 1)
    return reduced(losses, (output,), (), gpu, SUM if kind == 2 else MEAN) if kind else []


def binary_cross_entropy(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Losses of elements, their product with weights, their mean or sum, and a copy of it."""
    output, kind = operation.outputs[0], operation.arguments.get("reduction", 1)
    losses = output if kind == NONE else scratch(operation.inputs[0], 0)
    kernels = [
        gpu.kernel(
            "binary_cross_entropy",
            operation.inputs[:2],
            (losses,),
            instructions=gpu.cost("loss.binary_cross_entropy_instructions") * losses.elements,
            chain=1,
        )
    ]
    if len(operation.inputs) > 2:
        kernels.append(iterate("mul", (losses, operation.inputs[2]), losses, gpu))
    if kind == NONE:
        return kernels
    value = scratch(output, 1)
    kernels += reduced(losses, (value,), (), gpu, SUM if kind == TOTAL else MEAN)
    return [*kernels, copied(value, output, gpu)]


def binary_cross_entropy_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Their gradient, of a number that all share, its product with weights, and its share of a mean."""
    output = operation.outputs[0]
    kernels = [iterate("sigmoid_backward", operation.inputs[:3], output, gpu)]
    if len(operation.inputs) > 3:
        kernels.append(iterate("mul", (output, operation.inputs[3]), output, gpu))
    is_mean = operation.arguments.get("reduction", 1) not in (NONE, TOTAL)
    return [*kernels, *([iterate("div", (output,), output, gpu)] if is_mean else [])]


def nll_loss2d(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`nll_loss2d_forward`: zeros, the loss, and its division by all weights where a mean is asked for."""
    scores, targets = operation.inputs[:2]
    taken = part(scores, min(targets.elements * gpu.device.sector_bytes, scores.bytes))
    missed = 1.0 if gpu.cache.readable_bytes(scores.storage) < taken.bytes else 0.0
    if operation.arguments.get("reduction", 1) == NO_REDUCTION:
        return [gpu.kernel("nll_loss2d_forward", (taken, targets), operation.outputs[:1], chain=2, overlap=SERIAL)]
    turn_s = gpu.chain_s(2, missed) - missed * gpu.cost("kernel.first_miss_s") + gpu.cycles_s(IMAGE_THREADS)
    waits = _image_turns(targets, gpu) * turn_s
    return [
        *(iterate("fill", (), output, gpu) for output in operation.outputs),
        gpu.kernel("nll_loss2d_forward", (taken, targets), operation.outputs, latency_s=waits, overlap=SERIAL),
        *([gpu.kernel("nll_loss2d_mean", (), ())] if operation.arguments.get("reduction", 1) == 1 else []),
    ]


def nll_loss2d_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Its gradient: zeros, and a value for each pixel, whose target is loaded; for no store anybody waits.

    A turn of a CTA takes a cycle for each sector that it stores to, classes drawn alike.
    """
    output, targets = operation.outputs[0], operation.inputs[2]
    missed = 1.0 if gpu.cache.readable_bytes(targets.storage) < targets.bytes else 0.0
    classes, lanes = max(output.shape[1], 1), gpu.device.sector_bytes // output.item_bytes
    stored = classes * IMAGE_THREADS / lanes * (1.0 - (1.0 - 1.0 / classes) ** lanes)
    turn_s = gpu.chain_s(1, missed) - missed * gpu.cost("kernel.first_miss_s") + gpu.cycles_s(stored)
    filled = iterate("fill", (), output, gpu)
    touched = part(output, min(targets.elements * gpu.device.sector_bytes, output.bytes))
    waits = _image_turns(targets, gpu) * turn_s
    return [filled, gpu.kernel("nll_loss2d_backward", (targets,), (touched,), latency_s=waits, overlap=SERIAL)]


def _image_turns(targets: Operand, gpu: KernelCostModel) -> float:
    """Of a CTA over its pixels, and of the GPU over CTAs."""
    images = targets.shape[0]
    pixels = targets.elements // max(images, 1)
    ctas = max(ceil(pixels / IMAGE_THREADS) // CTAS_IN_ONE, 1)
    resident = gpu.device.max_warps_per_sm * 32 // IMAGE_THREADS * gpu.sms
    return ceil(pixels / (ctas * IMAGE_THREADS)) * max(images * ctas / resident, 1.0)
