"""Pooling, adaptive pooling, `im2col` and padding that repeats, and gradients: a thread for each window or place.

DilatedMaxPool2d.cu, AveragePool2d.cu, AveragePool3d.cu, AdaptiveAveragePooling.cu, AdaptiveMaxPooling2d.cu, Im2Col.cu,
ReflectionPad.cu and ReplicationPadding.cu of ATen, torch 2.11, in the order of dimensions. `max_pool1d` runs as of two.
Adaptive: a CTA of 32 x 8 threads for each plane, or several where there are fewer than sixteen; a warp has a row of
windows, and walks them element by element. `im2col` takes an image at a time, after a copy of all; `col2im` all in one
launch. Padding divides in 64 bits for a place; gradients are added to zeros, an atomic addition for each element.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from ...cost_model import LANES, SERIAL, KernelCostModel, part, scratch
from ...operation import Operand, Operation
from ...priced import KernelEstimate, Kernels
from ..convolutions.depthwise import is_channels_last
from ..elementwise import contiguous, copied, in_order, iterate
from .planes import Walk, added_s, is_narrow, issued_in, planes_of, walked

ADAPTIVE_ROWS = 8
ADAPTIVE_CTAS = 16
"""Rows of windows of a CTA, and CTAs of a GPU's grid at least, over planes. Source: as above."""
PAD_THREADS = 256
IM2COL_THREADS, COL2IM_THREADS = 1024, 512


def pool(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """The kernel of `max_pool2d_with_indices`, `avg_pool2d` or `avg_pool3d`."""
    source, outputs = operation.inputs[0], operation.outputs
    dims = 3 if "3d" in operation.name else 2
    window = prod(_sizes(operation.arguments.get("kernel_size", ()), dims))
    together = is_channels_last(source)
    copies, source = ([], source) if together else contiguous(source, 0, gpu)
    issued = (
        gpu.cost("pool.nhwc_tap_instructions") * window
        if together
        else gpu.cost("pool.window_instructions") + gpu.cost("pool.tap_instructions") * window
    )
    note = "pooling of volumes is assumed to take what that of images does" if dims == 3 else ""
    return [
        *copies,
        gpu.kernel(
            "pool",
            (source,),
            outputs,
            instructions=issued * outputs[0].elements,
            chain=min(window, 2),
            overlap=SERIAL,
            note=note,
        ),
    ]


def pool_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Gradients: `max_pool2d_with_indices_backward` after zeros, and `avg_pool2d_backward`."""
    gradient, output = operation.inputs[0], operation.outputs[0]
    in_order(gradient, output)
    is_max = "max" in operation.name
    sizes = _sizes(operation.arguments.get("kernel_size", ()), 2)
    steps = _sizes(operation.arguments.get("stride", ()) or sizes, 2)
    windows = prod(max(size / step, 1.0) for size, step in zip(sizes, steps, strict=True))
    issued = (gpu.cost("pool.max_backward_instructions" if is_max else "pool.mean_backward_instructions")) + gpu.cost(
        "pool.backward_window_instructions"
    ) * windows
    reads = (gradient, *operation.inputs[2:]) if is_max else (gradient,)
    instructions = issued * output.elements
    kernel = gpu.kernel("pool_backward", reads, (output,), instructions=instructions, chain=2, overlap=SERIAL)
    return [iterate("fill", (), output, gpu), kernel] if is_max else [kernel]


def _sizes(given: Sequence[int] | int, dims: int) -> tuple[int, ...]:
    """Sizes by dimension: one may stand for all."""
    sizes = (given,) if isinstance(given, int) else tuple(given)
    return sizes * dims if len(sizes) == 1 else sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """How windows lie.

    Args:
        warps: that have windows, of all CTAs; waves: of CTAs.
        taps: elements that a warp walks for a row of windows; rows: of windows that a warp walks.
        apart_bytes: from a window to its neighbour.
        crowding: warps of the fullest SM over those of the mean.
    """

    warps: int
    waves: float
    taps: int
    rows: int
    apart_bytes: float
    crowding: float


def adaptive_pool(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Means, or largest elements and where they are."""
    source, outputs = operation.inputs[0], operation.outputs
    in_order(source, *outputs)
    windows = _windows(source, outputs[0], gpu)
    is_max = "max" in operation.name
    tap, cycles = (
        (gpu.cost("pool.adaptive_max_tap_instructions"), gpu.cost("pool.adaptive_max_tap_cycles"))
        if is_max
        else (gpu.cost("pool.adaptive_mean_tap_instructions"), gpu.cost("pool.adaptive_mean_tap_cycles"))
    )
    walked = windows.taps * windows.rows * windows.waves
    return [
        gpu.kernel(
            "adaptive_pool",
            (source,),
            outputs,
            instructions=(gpu.cost("pool.adaptive_window_instructions") + tap * windows.taps)
            * windows.warps
            * LANES
            * windows.crowding,
            chain=walked * source.item_bytes / gpu.device.sector_bytes,
            latency_s=gpu.cycles_s(cycles) * walked,
            overlap=SERIAL,
        )
    ]


def adaptive_pool_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Gradients: of means to every element, of largest ones to one."""
    gradient, output = operation.inputs[0], operation.outputs[0]
    in_order(gradient, output)
    windows = _windows(output, gradient, gpu)
    is_max = "max" in operation.name
    taps = 1 if is_max else windows.taps
    reads = (gradient, *operation.inputs[2:]) if is_max else (gradient, output)
    lanes = min(gradient.shape[-1], LANES)
    sectors = max(lanes * min(windows.apart_bytes / gpu.device.sector_bytes, 1.0), 1.0)
    add = (
        issued_in(gpu.cost("pool.adaptive_swap_cycles" if is_narrow(output) else "image.sector_add_cycles"), gpu)
        * sectors
    )
    thread = gpu.cost("pool.adaptive_max_backward_instructions" if is_max else "pool.adaptive_window_instructions")
    swaps = taps * windows.rows * windows.waves if is_narrow(output) else 0.0
    kernel = gpu.kernel(
        "adaptive_pool_backward",
        reads,
        () if is_max else (output,),
        instructions=(thread * LANES + add * taps) * windows.warps * windows.crowding,
        chain=1,
        latency_s=gpu.chain_s(gpu.cost("pool.adaptive_swap_loads") * swaps, 0.0) if swaps else 0.0,
        l2_s=added_s(sectors * taps * windows.warps, gpu),
        overlap=SERIAL,
    )
    return [iterate("fill", (), output, gpu), kernel]


def _windows(source: Operand, output: Operand, gpu: KernelCostModel) -> Windows:
    planes, (height, width) = planes_of(output, 2)
    tall, wide = source.shape[-2:]
    per_plane = max(ADAPTIVE_CTAS // planes, 1)
    ctas = planes * per_plane
    resident = gpu.device.max_warps_per_sm // ADAPTIVE_ROWS * gpu.sms
    return Windows(
        warps=planes * height * ceil(width / LANES),
        waves=max(ctas / resident, 1.0),
        taps=_longest_window(tall, height) * _longest_window(wide, width),
        rows=ceil(height / (ADAPTIVE_ROWS * per_plane)) * ceil(width / LANES),
        apart_bytes=wide / width * source.item_bytes,
        crowding=ceil(ctas / gpu.sms) * gpu.sms / ctas,
    )


def _longest_window(size: int, windows: int) -> int:
    """Elements of the longest of windows that share a dimension."""
    return max(ceil((at + 1) * size / windows) - at * size // windows for at in range(windows))


def pad(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Padding that repeats what is there."""
    source, output = operation.inputs[0], operation.outputs[0]
    in_order(source, output)
    return [_padding(operation, output, (source,), output, 0.0, gpu)]


def pad_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Gradients of padding."""
    gradient, output = operation.inputs[0], operation.outputs[0]
    in_order(gradient, output)
    more = gpu.cost("image.pair_add_instructions") if is_narrow(output) else 0.0
    adding = _padding(operation, gradient, (gradient, output), output, more, gpu)
    return [iterate("fill", (), output, gpu), adding]


def _padding(
    operation: Operation,
    places: Operand,
    reads: tuple[Operand, ...],
    output: Operand,
    more: float,
    gpu: KernelCostModel,
) -> KernelEstimate:
    """A kernel with a thread for each place, and as many more as fill CTAs of each plane."""
    kind, dimensions = operation.name.strip("_").removesuffix("_backward").split("_pad")
    dims = int(dimensions[0])
    planes, sizes = planes_of(places, dims)
    ctas = planes * ceil(prod(sizes) / PAD_THREADS)
    threads = ceil(min(prod(sizes), PAD_THREADS) / LANES) * LANES
    issued = (gpu.cost(f"image.{kind}_pad{dims}d_instructions") + more) * ctas * threads
    return gpu.kernel(f"{kind}_pad{dims}d", reads, (output,), instructions=issued, ctas=ctas, chain=1, overlap=SERIAL)


def im2col(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`im2col`: a thread for each window and channel."""
    source, output = operation.inputs[0], operation.outputs[0]
    in_order(source, output)
    images = source.shape[0] if len(source.shape) == 4 else 1
    window = prod(operation.arguments["kernel_size"])
    walk = Walk(
        threads=IM2COL_THREADS,
        ctas=ceil(output.elements / window / images / IM2COL_THREADS),
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


def col2im(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`col2im`: a thread for each element, which lies in as many windows as columns hold of it."""
    output = operation.outputs[0]
    copies, source = contiguous(operation.inputs[0], 0, gpu)
    in_order(output)
    steps = prod(operation.arguments.get("stride", (1, 1)))
    windows = max(prod(operation.arguments["kernel_size"]) / steps, 1.0)
    walk = Walk(
        threads=COL2IM_THREADS,
        ctas=ceil(output.elements / COL2IM_THREADS),
        turns=1,
        start=gpu.cost("image.col2im_instructions"),
        turn=gpu.cost("image.col2im_tap_instructions") * windows,
    )
    return [*copies, walked("col2im", (source,), (output,), walk, gpu)]
