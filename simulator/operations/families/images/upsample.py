"""Up-sampling: `upsample_nearest*`, `_upsample_nearest_exact*`, linear and cubic filters, `grid_sampler_2d`; gradients.

UpSampleNearest1d.cu, 2d.cu, 3d.cu, UpSampleLinear1d.cu, UpSampleBilinear2d.cu, UpSampleTrilinear3d.cu,
UpSampleBicubic2d.cu and GridSampler.cu of ATen, torch 2.11. Nearest: a thread has a place of one image's output, or
gradient, and walks the batch there; of images forward, a quarter of all planes of the batch. Filters: a thread finds
its sources once, and then loads, weighs and stores on every plane of the batch in turn; gradients add their parts to
zeros, on the same walk; those of bilinear up-sampling have a thread for each element instead. Grids: a thread for each
place of a batch's image walks its channels; lanes load at places of their own, and L1 takes a line a cycle; gradients
are atomic additions to sectors apart. Places are taken to be random: a smooth grid shares lines, and takes less.
"""

from dataclasses import dataclass
from math import ceil, prod

from ...cost_model import LANES, SERIAL, KernelCostModel, part
from ...operation import Operand, Operation
from ...priced import Kernels, NoPrice
from ..convolutions.depthwise import is_channels_last
from ..copies import repeat_flip_roll, upsample_nhwc_backward
from ..elementwise import contiguous, copied, in_order, iterate
from .planes import Walk, added_s, is_narrow, issued_in, planes_of, walked

NEAREST_THREADS = 512
PLANES = 4
"""Planes that a thread of `upsample_nearest2d_out_frame` walks, where there are as many. Source: as above."""
NHWC_CHANNELS = 16
"""Fewest channels that a kernel of bilinear up-sampling takes together where they lie so. Source: as above; fewer of
them, or transposed images, are walked plane by plane too."""
ANTIALIAS_TAPS = 25
ANTIALIAS_WIDTH = 32
GRID_THREADS = 256
RANDOM_PLACES = "places of the grid are taken to be random; smooth ones take less"


def upsample_nearest(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Up-sampling by the nearest source; channels last has a kernel of its own."""
    source, output = operation.inputs[0], operation.outputs[0]
    if source.shape == output.shape:
        return [copied(source, output, gpu)]
    if is_channels_last(source):
        return repeat_flip_roll(operation, gpu)
    in_order(output)
    copies, source = contiguous(source, 0, gpu)
    dims = len(output.shape) - 2
    planes, places = planes_of(output, dims)
    turns, ctas = output.shape[0], ceil(output.elements / output.shape[0] / NEAREST_THREADS)
    if dims == 2:
        height, width = places
        columns = min(_power(width), NEAREST_THREADS)
        rows = min(_power(height), NEAREST_THREADS // columns)
        together = min(planes, NEAREST_THREADS // columns // rows)
        groups = ceil(planes / (together * PLANES))
        turns, ctas = ceil(planes / (together * groups)), ceil(width / columns) * ceil(height / rows) * groups
    walk = Walk(
        threads=NEAREST_THREADS,
        ctas=ctas,
        turns=turns,
        start=gpu.cost(f"upsample.nearest{dims}d_instructions"),
        turn=gpu.cost("upsample.nearest_plane_instructions"),
    )
    return [*copies, walked(f"upsample_nearest{dims}d", (source,), (output,), walk, gpu)]


def upsample_nearest_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Gradients: an element of the input's adds up those that it was copied to."""
    gradient, output = operation.inputs[0], operation.outputs[0]
    if is_channels_last(gradient):
        return upsample_nhwc_backward(operation, gpu)
    in_order(output)
    copies, gradient = contiguous(gradient, 0, gpu)
    dims, batch = len(output.shape) - 2, output.shape[0]
    walk = Walk(
        threads=NEAREST_THREADS,
        ctas=ceil(output.elements / batch / NEAREST_THREADS),
        turns=batch,
        start=gpu.cost(f"upsample.nearest{dims}d_backward_instructions"),
        turn=gpu.cost(f"upsample.nearest{dims}d_backward_tap_instructions") * prod(gradient.shape) / prod(output.shape),
    )
    return [*copies, walked(f"upsample_nearest{dims}d_backward", (gradient,), (output,), walk, gpu)]


def _power(size: int) -> int:
    """The largest power of two that is at most a size."""
    return 1 << (max(size, 1).bit_length() - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A way to weigh neighbours.

    Args:
        dims: of a plane; threads: of a CTA, forward and backward; taps: sources of a place.
        swaps: whether gradients of 16 bits are added by swaps of 32.
    """

    dims: int
    threads: tuple[int, int]
    taps: int
    swaps: bool = False


FILTERS = {
    "linear1d": Filter(dims=1, threads=(512, 512), taps=2, swaps=True),
    "bilinear2d": Filter(dims=2, threads=(1024, 1024), taps=4),
    "trilinear3d": Filter(dims=3, threads=(512, 256), taps=8),
    "bicubic2d": Filter(dims=2, threads=(512, 512), taps=16, swaps=True),
}
"""By the end of torch's name. Source: as above."""


def upsample(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Up- and down-sampling; bicubic and linear fill the output before; bilinear has a kernel for channels last."""
    source, output = operation.inputs[0], operation.outputs[0]
    if source.shape == output.shape:
        return [copied(source, output, gpu)]
    kind = operation.name.strip("_").removeprefix("upsample_")
    if kind == "bilinear2d" and is_channels_last(source) and source.shape[1] >= NHWC_CHANNELS:
        return repeat_flip_roll(operation, gpu)
    if kind != "bilinear2d":
        in_order(source, output)
    way = FILTERS[kind]
    planes, places = planes_of(output, way.dims)
    walk = Walk(
        threads=way.threads[0],
        ctas=ceil(prod(places) / way.threads[0]),
        turns=planes,
        start=gpu.cost(f"upsample.{kind}_instructions"),
        turn=gpu.cost(f"upsample.{kind}_plane_instructions"),
    )
    filled = [iterate("fill", (), output, gpu)] if kind in ("linear1d", "bicubic2d") else []
    return [*filled, walked(f"upsample_{kind}", (source,), (output,), walk, gpu)]


def upsample_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Gradients: zeros, and atomic additions of every place's parts."""
    gradient, output = operation.inputs[0], operation.outputs[0]
    in_order(gradient, output)
    kind = operation.name.strip("_").removeprefix("upsample_").removesuffix("_backward")
    way = FILTERS[kind]
    planes, places = planes_of(gradient, way.dims)
    issued = gpu.cost(f"upsample.{kind}_backward_instructions")
    issued += way.taps * _narrow(way, gradient, output, gpu) if is_narrow(output) else 0.0
    threads = way.threads[1]
    if kind == "bilinear2d":
        walk = Walk(threads=threads, ctas=ceil(gradient.elements / threads), turns=1, start=issued, turn=0.0)
    else:
        walk = Walk(threads=threads, ctas=ceil(prod(places) / threads), turns=planes, start=0.0, turn=issued)
    adding = walked(f"upsample_{kind}_backward", (gradient, output), (output,), walk, gpu)
    return [iterate("fill", (), output, gpu), adding]


def _narrow(way: Filter, gradient: Operand, output: Operand, gpu: KernelCostModel) -> float:
    """More instructions' worth of an addition of 16 bits: lanes that come from one pair of elements swap in turn."""
    if not way.swaps:
        return gpu.cost("image.pair_add_instructions")
    lanes = 2.0 * gradient.shape[-1] / output.shape[-1]
    return gpu.cost("image.swap_round_instructions") * min(max(lanes, 1.0), 32.0)


def upsample_antialiased(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`_upsample_bilinear2d_aa`: a thread for an element, whose window is as wide as it is scaled down."""
    source, output = operation.inputs[0], operation.outputs[0]
    in_order(source, output)
    scale = [max(size / made, 1.0) for size, made in zip(source.shape[-2:], output.shape[-2:], strict=True)]
    more = prod(2 * ceil(side) + 1 for side in scale) - ANTIALIAS_TAPS
    planes, (height, width) = planes_of(output, 2)
    threads = planes * height * ceil(width / ANTIALIAS_WIDTH) * ANTIALIAS_WIDTH
    issued = threads * (
        gpu.cost("upsample.antialiased_instructions") + gpu.cost("upsample.antialiased_tap_instructions") * more
    )
    return [gpu.kernel("upsample_aa", (source,), (output,), instructions=issued, chain=2, overlap=SERIAL)]


def grid_sampler(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Elements, or four neighbours weighed."""
    source, grid, output = operation.inputs[0], operation.inputs[1], operation.outputs[0]
    if "cudnn" not in operation.name:
        in_order(source, output)
    walk = _grid_walk(operation, source, grid, gpu.cost("image.grid_sample_channel_instructions"), gpu)
    sampled_bytes = output.elements * _grid_taps(operation) * gpu.device.sector_bytes
    read = part(source, sampled_bytes) if sampled_bytes < source.bytes else source
    return [walked("grid_sampler_2d", (read, grid), (output,), walk, gpu, note=RANDOM_PLACES)]


def grid_sampler_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Gradients of the image, which are added to zeros, and of the grid."""
    gradient, source, grid = operation.inputs[:3]
    in_order(gradient, source)
    added = operation.outputs[0]
    taps = _grid_taps(operation)
    places = source.shape[-2] * source.shape[-1] * source.item_bytes / gpu.device.sector_bytes
    sectors = _distinct(places) / LANES
    add = issued_in(gpu.cost("image.sector_add_cycles"), gpu) * sectors + (
        gpu.cost("image.pair_add_instructions") if is_narrow(source) else 0.0
    )
    walk = _grid_walk(
        operation, source, grid, gpu.cost("image.grid_sample_backward_channel_instructions") + taps * add, gpu
    )
    l2_s = added_s(taps * sectors * gradient.elements, gpu)
    reads = (gradient, source, grid, added)
    kernel = walked("grid_sampler_2d_backward", reads, operation.outputs, walk, gpu, l2_s=l2_s, note=RANDOM_PLACES)
    return [iterate("fill", (), added, gpu), kernel]


def _grid_walk(operation: Operation, source: Operand, grid: Operand, turn: float, gpu: KernelCostModel) -> Walk:
    """Of channels, with the look-ups of lines in L1 as instructions that it could issue meanwhile."""
    lines = source.shape[-2] * source.shape[-1] * source.item_bytes / gpu.device.line_bytes
    looked_up = _grid_taps(operation) * issued_in(_distinct(lines) / LANES, gpu)
    ctas = ceil(grid.elements / 2 / GRID_THREADS)
    return Walk(
        threads=GRID_THREADS,
        ctas=ctas,
        turns=source.shape[1],
        start=gpu.cost("image.grid_sample_instructions"),
        turn=turn + looked_up,
    )


def _grid_taps(operation: Operation) -> int:
    """Elements that a place is made of: four, or the nearest. Others have no price. cuDNN's are taken for torch's."""
    mode = operation.arguments.get("interpolation_mode", 0)
    if mode not in (0, 1):
        raise NoPrice("by cubics")
    return 1 if mode else 4


def _distinct(places: float) -> float:
    """Of places that the lanes of a warp pick at random, how many differ."""
    places = max(places, 1.0)
    return places * (1.0 - (1.0 - 1.0 / places) ** LANES) if places > 1.0 else 1.0
