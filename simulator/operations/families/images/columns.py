"""`im2col` and `col2im`: windows of images as columns of a matrix, and back.

Im2Col.cu and im2col.cuh of ATen, torch 2.11: an image at a time, after a copy of all; back, all images in one launch,
where a thread adds up the windows of an element.
"""

from math import ceil, prod

from ...gpu import Gpu, part, scratch
from ...operation import Operation
from ...priced import PricedKernel
from ..elementwise import contiguous, copied
from .planes import Walk, in_order, walked

THREADS, BACK_THREADS = 1024, 512


def unfolded(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`im2col`: a thread for each window and channel."""
    source, output = operation.inputs[0], operation.outputs[0]
    in_order(source, output)
    images = source.shape[0] if len(source.shape) == 4 else 1
    window = prod(operation.arguments["kernel_size"])
    walk = Walk(
        threads=THREADS,
        ctas=ceil(output.elements / window / images / THREADS),
        turns=1,
        start=gpu.cost("image.im2col_instructions"),
        turn=gpu.cost("image.im2col_tap_instructions") * window,
    )
    kept = scratch(source, 0)
    image, columns = part(kept, kept.bytes // images), part(output, output.bytes // images)
    return [
        copied(source, kept, gpu),
        *(walked("im2col", (image,), (columns,), walk, gpu) for _ in range(images)),
    ]


def folded(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`col2im`: a thread for each element, which lies in as many windows as columns hold of it."""
    output = operation.outputs[0]
    copies, source = contiguous(operation.inputs[0], 0, gpu)
    in_order(output)
    steps = prod(operation.arguments.get("stride", (1, 1)))
    windows = max(prod(operation.arguments["kernel_size"]) / steps, 1.0)
    walk = Walk(
        threads=BACK_THREADS,
        ctas=ceil(output.elements / BACK_THREADS),
        turns=1,
        start=gpu.cost("image.col2im_instructions"),
        turn=gpu.cost("image.col2im_tap_instructions") * windows,
    )
    return [*copies, walked("col2im", (source,), (output,), walk, gpu)]
