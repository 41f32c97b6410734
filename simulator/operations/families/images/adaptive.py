"""`_adaptive_avg_pool2d`, `adaptive_max_pool2d` and their gradients: a thread for each window, of whatever size.

AdaptiveAveragePooling.cu and AdaptiveMaxPooling2d.cu of ATen, torch 2.11, in the order of dimensions: a CTA of 32 x 8
threads for each plane, or several where there are fewer than sixteen; a warp has a row of windows, and walks them
element by element. Gradients of means add theirs to zeros in the same way.
"""

from dataclasses import dataclass
from math import ceil

from ...gpu import LANES, SERIAL, Gpu
from ...operation import Operand, Operation
from ...priced import PricedKernel
from ..elementwise import iterate
from .planes import added_s, in_order, is_narrow, issued_in, planes_of

ROWS = 8
LEAST_CTAS = 16
"""Rows of windows of a CTA, and CTAs of a GPU's grid at least, over planes. Source: as above."""


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


def adaptively_pooled(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
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


def adaptively_pooled_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
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
        latency_s=gpu.chain_s(gpu.cost("pool.adaptive_swap_loads") * swaps, 0.0),
        l2_s=added_s(sectors * taps * windows.warps, gpu),
        overlap=SERIAL,
    )
    return [iterate("fill", (), output, gpu), kernel]


def _windows(source: Operand, output: Operand, gpu: Gpu) -> Windows:
    planes, (height, width) = planes_of(output, 2)
    tall, wide = source.shape[-2:]
    per_plane = max(LEAST_CTAS // planes, 1)
    ctas = planes * per_plane
    resident = gpu.device.max_warps_per_sm // ROWS * gpu.sms
    return Windows(
        warps=planes * height * ceil(width / LANES),
        waves=max(ctas / resident, 1.0),
        taps=_longest(tall, height) * _longest(wide, width),
        rows=ceil(height / (ROWS * per_plane)) * ceil(width / LANES),
        apart_bytes=wide / width * source.item_bytes,
        crowding=ceil(ctas / gpu.sms) * gpu.sms / ctas,
    )


def _longest(size: int, windows: int) -> int:
    """Elements of the longest of windows that share a dimension."""
    return max(ceil((at + 1) * size / windows) - at * size // windows for at in range(windows))
