"""`upsample_nearest1d`, `2d`, `3d`, `_upsample_nearest_exact*`, and their gradients: elements of every source copied.

UpSampleNearest1d.cu, 2d.cu and 3d.cu of ATen, torch 2.11. A thread has a place of one image's output, or gradient,
and walks the batch there; of images forward, a quarter of all planes of the batch.
"""

from math import ceil, prod

from ...gpu import Gpu
from ...operation import Operation
from ...priced import PricedKernel
from ..convolutions.depthwise import is_channels_last
from ..elementwise import contiguous, copied
from ..movement import gathered_back, spread
from .planes import Walk, in_order, planes_of, walked

THREADS = 512
PLANES = 4
"""Planes that a thread of `upsample_nearest2d_out_frame` walks, where there are as many. Source: as above."""


def copied_nearest(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Up-sampling by the nearest source; channels last has a kernel of its own."""
    source, output = operation.inputs[0], operation.outputs[0]
    if source.shape == output.shape:
        return [copied(source, output, gpu)]
    if is_channels_last(source):
        return spread(operation, gpu)
    in_order(output)
    copies, source = contiguous(source, 0, gpu)
    dims = len(output.shape) - 2
    planes, places = planes_of(output, dims)
    turns, ctas = output.shape[0], ceil(output.elements / output.shape[0] / THREADS)
    if dims == 2:
        height, width = places
        columns = min(_power(width), THREADS)
        rows = min(_power(height), THREADS // columns)
        together = min(planes, THREADS // columns // rows)
        groups = ceil(planes / (together * PLANES))
        turns, ctas = ceil(planes / (together * groups)), ceil(width / columns) * ceil(height / rows) * groups
    walk = Walk(
        threads=THREADS,
        ctas=ctas,
        turns=turns,
        start=gpu.cost(f"upsample.nearest{dims}d_instructions"),
        turn=gpu.cost("upsample.nearest_plane_instructions"),
    )
    return [*copies, walked(f"upsample_nearest{dims}d", (source,), (output,), walk, gpu)]


def nearest_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Gradients: an element of the input's adds up those that it was copied to."""
    gradient, output = operation.inputs[0], operation.outputs[0]
    if is_channels_last(gradient):
        return gathered_back(operation, gpu)
    in_order(output)
    copies, gradient = contiguous(gradient, 0, gpu)
    dims, batch = len(output.shape) - 2, output.shape[0]
    walk = Walk(
        threads=THREADS,
        ctas=ceil(output.elements / batch / THREADS),
        turns=batch,
        start=gpu.cost(f"upsample.nearest{dims}d_backward_instructions"),
        turn=gpu.cost(f"upsample.nearest{dims}d_backward_tap_instructions") * prod(gradient.shape) / prod(output.shape),
    )
    return [*copies, walked(f"upsample_nearest{dims}d_backward", (gradient,), (output,), walk, gpu)]


def _power(size: int) -> int:
    """The largest power of two that is at most a size."""
    return 1 << (max(size, 1).bit_length() - 1)
