"""`grid_sampler_2d` and its gradient: elements of images at places that a tensor names.

GridSampler.cu of ATen, torch 2.11: a thread for each place of a batch's image, which walks its channels. Lanes load at
places of their own, and L1 takes a line a cycle; gradients are atomic additions to sectors apart. Places are taken to
be random: a smooth grid has its lanes share lines, and takes less.
"""

from math import ceil

from ...gpu import LANES, Gpu, part
from ...operation import Operand, Operation
from ...priced import NoPrice, PricedKernel
from ..elementwise import iterate
from .planes import Walk, added_s, in_order, is_narrow, issued_in, walked

THREADS = 256
NOTE = "places of the grid are taken to be random; smooth ones take less"


def sampled(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Elements, or four neighbours weighed."""
    source, grid, output = operation.inputs[0], operation.inputs[1], operation.outputs[0]
    if "cudnn" not in operation.name:
        in_order(source, output)
    walk = _walk(operation, source, grid, gpu.cost("image.grid_sample_channel_instructions"), gpu)
    sampled_bytes = output.elements * _taps(operation) * gpu.device.sector_bytes
    read = part(source, sampled_bytes) if sampled_bytes < source.bytes else source
    return [walked("grid_sampler_2d", (read, grid), (output,), walk, gpu, note=NOTE)]


def sampled_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Gradients of the image, which are added to zeros, and of the grid."""
    gradient, source, grid = operation.inputs[:3]
    in_order(gradient, source)
    added = operation.outputs[0]
    taps = _taps(operation)
    places = source.shape[-2] * source.shape[-1] * source.item_bytes / gpu.device.sector_bytes
    sectors = _distinct(places) / LANES
    add = issued_in(gpu.cost("image.sector_add_cycles"), gpu) * sectors + (
        gpu.cost("image.pair_add_instructions") if is_narrow(source) else 0.0
    )
    walk = _walk(operation, source, grid, gpu.cost("image.grid_sample_backward_channel_instructions") + taps * add, gpu)
    l2_s = added_s(taps * sectors * gradient.elements, gpu)
    reads = (gradient, source, grid, added)
    kernel = walked("grid_sampler_2d_backward", reads, operation.outputs, walk, gpu, l2_s=l2_s, note=NOTE)
    return [iterate("fill", (), added, gpu), kernel]


def _walk(operation: Operation, source: Operand, grid: Operand, turn: float, gpu: Gpu) -> Walk:
    """Of channels, with the look-ups of lines in L1 as instructions that it could issue meanwhile."""
    lines = source.shape[-2] * source.shape[-1] * source.item_bytes / gpu.device.line_bytes
    looked_up = _taps(operation) * issued_in(_distinct(lines) / LANES, gpu)
    ctas = ceil(grid.elements / 2 / THREADS)
    return Walk(
        threads=THREADS,
        ctas=ctas,
        turns=source.shape[1],
        start=gpu.cost("image.grid_sample_instructions"),
        turn=turn + looked_up,
    )


def _taps(operation: Operation) -> int:
    """Elements that a place is made of: four, or the nearest. Others have no price. cuDNN's are taken for torch's."""
    mode = operation.arguments.get("interpolation_mode", 0)
    if mode not in (0, 1):
        raise NoPrice("by cubics")
    return 1 if mode else 4


def _distinct(places: float) -> float:
    """Of places that the lanes of a warp pick at random, how many differ."""
    places = max(places, 1.0)
    return places * (1.0 - (1.0 - 1.0 / places) ** LANES) if places > 1.0 else 1.0
