"""`upsample_linear1d`, `_bilinear2d`, `_trilinear3d`, `_bicubic2d` and their gradients: a thread for each place.

UpSampleLinear1d.cu, UpSampleBilinear2d.cu, UpSampleTrilinear3d.cu and UpSampleBicubic2d.cu of ATen, torch 2.11: a
thread finds its sources once, and then loads, weighs and stores on every plane of the batch in turn. Gradients add
their parts to zeros, on the same walk; those of bilinear up-sampling have a thread for each element instead.
"""

from dataclasses import dataclass
from math import ceil, prod

from ...gpu import SERIAL, Gpu
from ...operation import Operand, Operation
from ...priced import PricedKernel
from ..convolutions.depthwise import is_channels_last
from ..elementwise import copied, iterate
from ..movement import spread
from .planes import Walk, in_order, is_narrow, planes_of, walked


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
CHANNELS = 16
"""Fewest channels that a kernel of bilinear up-sampling takes together where they lie so. Source: as above; fewer of
them, or transposed images, are walked plane by plane too."""
ANTIALIAS_TAPS = 25
ANTIALIAS_WIDTH = 32


def interpolated(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Up- and down-sampling; bicubic and linear fill the output before; bilinear has a kernel for channels last."""
    source, output = operation.inputs[0], operation.outputs[0]
    if source.shape == output.shape:
        return [copied(source, output, gpu)]
    kind = operation.name.strip("_").removeprefix("upsample_")
    if kind == "bilinear2d" and is_channels_last(source) and source.shape[1] >= CHANNELS:
        return spread(operation, gpu)
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


def interpolated_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
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


def _narrow(way: Filter, gradient: Operand, output: Operand, gpu: Gpu) -> float:
    """More instructions' worth of an addition of 16 bits: lanes that come from one pair of elements swap in turn."""
    if not way.swaps:
        return gpu.cost("image.pair_add_instructions")
    lanes = 2.0 * gradient.shape[-1] / output.shape[-1]
    return gpu.cost("image.swap_round_instructions") * min(max(lanes, 1.0), 32.0)


def antialiased(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
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
