"""Convolutions in half precision whose groups have too many channels to be multiplied together.

In NCHW cuDNN makes the product of each group by itself, with copies of its own in the other layout. In NHWC one kernel
makes all of them, but its steps are whole: where channels of groups are no multiples of them, all groups are copied
apart, filled up with zeros, and what they made is copied together again.

Gradients of weights in TF32 stand at the end. Both operands are summed over pixels, but their channels lie together;
`wgmma` takes such operands in 16 bits alone. Kernels (`sm90_xmma_wgrad_indexed_..._tf32f32`) turn them on the way,
which takes longer than to multiply.
"""

from dataclasses import replace
from math import ceil, prod

from ...cost_model import SERIAL, KernelCostModel, memset, scratch
from ...operation import Operand
from ...priced import KernelEstimate, Kernels
from .implicit_product import (
    APART_PARTS,
    HALF_BYTES,
    NARROW,
    STEP_BYTES,
    Implicit,
    Run,
    at_fraction,
    by_tiles,
    copies_bytes,
    made,
    with_copies,
)

TURNED_TALL, TURNED_STEP = 128, 32
"""Channels of the result of a tile, and pixels that it takes at a time; along channels of a tap as many, or half of
them where there are no more. Kind: names of kernels."""


def runs_apart(product: Implicit, operand: Operand, *, together: bool) -> bool:
    """Whether each group's product is made by itself. Args: together: whether channels of a pixel are."""
    return not together and _has_wide_groups(product, operand)


def is_filled_up(product: Implicit, operand: Operand, *, together: bool) -> bool:
    """Whether groups are copied apart, since their channels are no whole steps."""
    step = STEP_BYTES // operand.item_bytes
    return together and _has_wide_groups(product, operand) and bool(product.channels % step or product.columns % step)


def group_by_group(
    product: Implicit, image: Operand, weights: Operand, output: Operand, gpu: KernelCostModel, *, gradient: bool
) -> Kernels:
    """All kernels of each group. Args: gradient: whether the product is a gradient of the input."""
    alone = replace(product, groups=1)
    run = at_fraction(alone, gpu.cost("convolution.group_gradient_fraction"), gpu) if gradient else by_tiles(alone, gpu)
    kernels = []
    for number in range(product.groups):
        operands = (_part(image, 1, number, product.groups), _part(weights, 0, number, product.groups))
        result = _part(output, 1, number, product.groups)
        kernels += with_copies(alone, replace(run, before=""), operands, result, gpu, together=False)
    return kernels


def filled_up(product: Implicit, image: Operand, weights: Operand, output: Operand, gpu: KernelCostModel) -> Kernels:
    """The copies before and after a product of whole steps, and the product."""
    reads = _filled_images(product.groups, image), _filled_weights(product.groups, weights)
    result = _filled_images(product.groups, output)
    whole = replace(product, channels=_whole(product.channels, image), columns=_whole(product.columns, image))
    kernels = []
    for source, target, start_s in zip(
        (image, weights), reads, (0.0, gpu.cost("convolution.filters_turned_s")), strict=True
    ):
        kernels += [memset(gpu, target.bytes), _transformed(source, target, gpu, start_s)]
    kernels += made(whole, by_tiles(whole, gpu), reads, result, gpu)
    return [*kernels, _transformed(result, output, gpu)]


def grouped_bytes(
    product: Implicit, image: Operand, weights: Operand, output: Operand, *, together: bool
) -> int | None:
    """What is alive beside a convolution's tensors: copies of all groups [B]; None: of other convolutions."""
    if runs_apart(product, image, together=together):
        return copies_bytes((image, weights), output, together=False)
    if is_filled_up(product, image, together=together):
        copies = (
            *(_filled_images(product.groups, operand) for operand in (image, output)),
            _filled_weights(product.groups, weights),
        )
        return sum(copy.bytes for copy in copies)
    return None


def _has_wide_groups(product: Implicit, operand: Operand) -> bool:
    return operand.item_bytes == HALF_BYTES and product.groups > 1 and min(product.columns, product.channels) > NARROW


def _part(operand: Operand, axis: int, number: int, groups: int) -> Operand:
    """The view of one group."""
    size = operand.shape[axis] // groups
    shape = (*operand.shape[:axis], size, *operand.shape[axis + 1 :])
    offset = operand.offset_bytes + number * size * operand.strides[axis] * operand.item_bytes
    return replace(operand, shape=shape, offset_bytes=offset)


def _whole(channels: int, operand: Operand) -> int:
    step = STEP_BYTES // operand.item_bytes
    return -(-channels // step) * step


def _filled_images(groups: int, operand: Operand) -> Operand:
    channels = groups * _whole(operand.shape[1] // groups, operand)
    return scratch(operand, 0, shape=(operand.shape[0], channels, *operand.shape[2:]))


def _filled_weights(groups: int, weights: Operand) -> Operand:
    filters = groups * _whole(weights.shape[0] // groups, weights)
    return scratch(weights, 0, shape=(filters, _whole(weights.shape[1], weights), *weights.shape[2:]))


def _transformed(source: Operand, target: Operand, gpu: KernelCostModel, start_s: float = 0.0) -> KernelEstimate:
    issued = gpu.cost("convolution.group_transform_instructions") * prod(source.shape)
    return gpu.kernel(
        "tensorTransformGeneric", (source,), (target,), instructions=issued, start_s=start_s, overlap=SERIAL
    )


def of_turned_weights(product: Implicit, channels: int, gpu: KernelCostModel) -> Run:
    """The gradient of the weights in TF32. Args: channels: of a tap."""
    wide = TURNED_TALL if channels > TURNED_TALL // 2 else TURNED_TALL // 2
    ctas = product.groups * ceil(product.rows / TURNED_TALL) * ceil(channels / wide) * (product.columns // channels)
    parts = max(gpu.sms // ctas, 1)
    steps = ceil(product.channels / parts / TURNED_STEP)
    step_s = gpu.cycles_s((TURNED_TALL + wide) * TURNED_STEP / gpu.cost("convolution.turned_per_cycle"))
    time_s = max(ctas * parts / gpu.sms, 1.0) * (
        steps * step_s + gpu.cost("convolution.tile_s") + gpu.cost("convolution.element_s") * TURNED_TALL * wide
    )
    if parts == 1:
        return Run(time_s=time_s)
    if parts < APART_PARTS:
        return Run(time_s=time_s, more_s=gpu.cost("convolution.summed_s"), before="init_device_workspace")
    return Run(time_s=time_s, before="init_device_workspace", summed_s=gpu.cost("convolution.summed_apart_s"))
