"""`nll_loss2d_forward` and its gradient: a target for each pixel, classes along an outer dimension.

A CTA of 1,024 threads, or a few, takes an image: a thread loads a pixel's target and then its value, pixel after pixel,
and all add up. Nothing is fitted: 16 images of 21 classes and 256 x 256 pixels took an H200 76 us (2026-11-28), and 70
are predicted. Source: ATen/native/cuda/NLLLoss2d.cu, torch 2.11.
"""

from math import ceil

from ...gpu import SERIAL, Gpu, part
from ...operation import Operand, Operation
from ...priced import PricedKernel
from ..elementwise import iterate

THREADS = 1024
CTAS_IN_ONE = 128
"""Of which one is left (`GET_BLOCKS(map_nelem) / 128`, at least one an image)."""
NO_REDUCTION = 0


def nll_loss2d(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`nll_loss2d_forward`: zeros, the loss, and its division by all weights where a mean is asked for."""
    scores, targets = operation.inputs[:2]
    taken = part(scores, min(targets.elements * gpu.device.sector_bytes, scores.bytes))
    missed = 1.0 if gpu.cache.readable_bytes(scores.storage) < taken.bytes else 0.0
    if operation.arguments.get("reduction", 1) == NO_REDUCTION:
        return [gpu.kernel("nll_loss2d_forward", (taken, targets), operation.outputs[:1], chain=2, overlap=SERIAL)]
    turn_s = gpu.chain_s(2, missed) - missed * gpu.cost("kernel.first_miss_s") + gpu.cycles_s(THREADS)
    waits = _turns(targets, gpu) * turn_s
    return [
        *(iterate("fill", (), output, gpu) for output in operation.outputs),
        gpu.kernel("nll_loss2d_forward", (taken, targets), operation.outputs, latency_s=waits, overlap=SERIAL),
        *([gpu.kernel("nll_loss2d_mean", (), ())] if operation.arguments.get("reduction", 1) == 1 else []),
    ]


def nll_loss2d_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Its gradient: zeros, and a value for each pixel, whose target is loaded; for no store anybody waits.

    A turn of a CTA takes a cycle for each sector that it stores to, classes drawn alike.
    """
    output, targets = operation.outputs[0], operation.inputs[2]
    missed = 1.0 if gpu.cache.readable_bytes(targets.storage) < targets.bytes else 0.0
    classes, lanes = max(output.shape[1], 1), gpu.device.sector_bytes // output.item_bytes
    stored = classes * THREADS / lanes * (1.0 - (1.0 - 1.0 / classes) ** lanes)
    turn_s = gpu.chain_s(1, missed) - missed * gpu.cost("kernel.first_miss_s") + gpu.cycles_s(stored)
    filled = iterate("fill", (), output, gpu)
    touched = part(output, min(targets.elements * gpu.device.sector_bytes, output.bytes))
    waits = _turns(targets, gpu) * turn_s
    return [filled, gpu.kernel("nll_loss2d_backward", (targets,), (touched,), latency_s=waits, overlap=SERIAL)]


def _turns(targets: Operand, gpu: Gpu) -> float:
    """Of a CTA over its pixels, and of the GPU over CTAs."""
    images = targets.shape[0]
    pixels = targets.elements // max(images, 1)
    ctas = max(ceil(pixels / THREADS) // CTAS_IN_ONE, 1)
    resident = gpu.device.max_warps_per_sm * 32 // THREADS * gpu.sms
    return ceil(pixels / (ctas * THREADS)) * max(images * ctas / resident, 1.0)
