"""Convolutions: torch's choice of a layout, the products that cuDNN makes in it, and the bias.

Operands lie by channels (NCHW), or with the channels of a pixel together (NHWC) where the input or the weights do;
torch copies those that do not. A window of one pixel is a plain matrix product in either. Others are implicit products
in NHWC, before and after which cuDNN turns what is in NCHW.
"""

from dataclasses import replace
from math import prod

from ...cost_model import KernelCostModel, scratch
from ...operation import Operand, Operation
from ...priced import Kernels
from ..elementwise import copied
from ..products.matmul import ALIGNMENT_BYTES, multiplied
from ..products.tensor_tiles import Product
from ..reductions import SUM, reduced
from .depthwise import added, depthwise, depthwise_backward, is_channels_last, is_depthwise
from .grouped import filled_up, group_by_group, grouped_bytes, is_filled_up, of_turned_weights, runs_apart
from .implicit_product import (
    CHANNELS,
    Implicit,
    at_fraction,
    by_narrow_tiles,
    by_tiles,
    copies_bytes,
    has_tma,
    made,
    of_strided_weights,
    of_weights,
    padded_channels,
    pads_filters,
    with_copies,
    with_padded_filters,
)

LARGE_WINDOW = 16
"""Taps from which fewer than eight channels are left to an old kernel: 4 are not, 49 and 256 are. Kind: measured, 64
and 1,024 filters of three channels on one H100."""


def convolution(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Kernels of `convolution` and `cudnn_convolution`, forward; the bias is added by one of torch's.

    A transposed one is the gradient of its counterpart's input, in cuDNN too.
    """
    if is_depthwise(operation):
        return depthwise(operation, gpu)
    output, bias = operation.outputs[0], operation.inputs[2:]
    together, kernels, (source, weights) = _laid_out(operation.inputs[:2], operation.inputs[:2], gpu)
    if operation.arguments.get("transposed"):
        kernels += _input_gradient(operation, source, output, weights, output, gpu, together=together)
    elif _is_plain(operation, source, weights, output):
        kernels += _plain(source, weights, output, gpu, together=together)
    else:
        kernels += _forward(operation, source, weights, output, gpu, together=together)
    kernels += [added(output, channels, gpu) for channels in bias]
    return kernels


def convolution_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Gradients of the input, the weights and the bias, as far as they are wanted (`output_mask`)."""
    if is_depthwise(operation):
        return depthwise_backward(operation, gpu)
    wanted = list(operation.arguments.get("output_mask", (True, True, False)))
    outputs = iter(operation.outputs)
    together, kernels, (gradient, source, weights) = _laid_out(operation.inputs[:3], operation.inputs[1:3], gpu)
    is_plain, summed = _is_plain(operation, source, weights, gradient), gradient
    if operation.arguments.get("transposed"):
        # What was an input's gradient is a convolution now, and weights have input and result change places.
        if wanted[0]:
            kernels += _forward(operation, gradient, weights, next(outputs), gpu, together=together)
        gradient, source, is_plain = source, gradient, False
    elif wanted[0] and is_plain:
        kernels += _plain(gradient, weights, next(outputs), gpu, together=together)
    elif wanted[0]:
        kernels += _input_gradient(operation, gradient, source, weights, next(outputs), gpu, together=together)
    if wanted[1] and is_plain:
        kernels += _plain_weights(gradient, source, next(outputs), gpu, together=together)
    elif wanted[1]:
        kernels += _weights_gradient(operation, gradient, source, weights, next(outputs), gpu, together=together)
    if wanted[2]:
        axes = tuple(axis for axis in range(len(summed.shape)) if axis != 1)
        kernels += reduced(summed, (next(outputs),), axes, gpu, SUM)
    return kernels


def held_bytes(operation: Operation) -> int:
    """What a convolution or its gradient holds beside its tensors while it runs: copies in the other layout [B]."""
    if is_depthwise(operation):
        return 0
    source, weights = operation.inputs[1:3] if "backward" in operation.name else operation.inputs[:2]
    result = operation.inputs[0] if "backward" in operation.name else operation.outputs[0]
    if _is_plain(operation, source, weights, result):
        return 0
    together = any(map(is_channels_last, (source, weights)))
    whole = _product(operation, source, weights, result)
    if (size := grouped_bytes(whole, source, weights, result, together=together)) is not None:
        return size
    products = [((source, weights), result)]
    if "backward" in operation.name:
        wanted = operation.arguments.get("output_mask", (True, True, False))
        products = [((weights, result), source)] * wanted[0] + [((source, result), weights)] * wanted[1]
    return max((copies_bytes(*product, together=together) for product in products), default=0)


def _forward(
    operation: Operation, source: Operand, weights: Operand, output: Operand, gpu: KernelCostModel, *, together: bool
) -> Kernels:
    """A convolution of more than one pixel, by its weights' own numbers of channels."""
    product = _product(operation, source, weights, output)
    if runs_apart(product, source, together=together):
        return group_by_group(product, source, weights, output, gpu, gradient=False)
    if is_filled_up(product, source, together=together):
        return filled_up(product, source, weights, output, gpu)
    is_old = _is_left_to_old(weights)
    run = (
        at_fraction(product, gpu.cost("convolution.few_channels_fraction"), gpu)
        if is_old
        else by_narrow_tiles(product, gpu)
    )
    through = with_padded_filters if pads_filters(output) else with_copies
    return through(product, run, (source, weights), output, gpu, together=together)


def _product(operation: Operation, source: Operand, weights: Operand, output: Operand) -> Implicit:
    return Implicit(
        groups=_groups(operation),
        rows=output.elements // output.shape[1],
        columns=weights.shape[0] // _groups(operation),
        channels=padded_channels(weights.shape[1]),
        taps=prod(weights.shape[2:]),
        dtype=_multiplied_as(source),
    )


def _groups(operation: Operation) -> int:
    return int(operation.arguments.get("groups", 1))


def _multiplied_as(source: Operand) -> str:
    """The type of its products: cuDNN rounds fp32 to TF32, as torch allows it to by default."""
    return "tf32" if source.dtype == "float32" else source.dtype


def _is_left_to_old(weights: Operand) -> bool:
    return weights.shape[1] < CHANNELS and prod(weights.shape[2:]) >= LARGE_WINDOW


def _is_plain(operation: Operation, source: Operand, weights: Operand, result: Operand) -> bool:
    """Whether each pixel is multiplied on its own: a window of one, at every pixel."""
    return prod(weights.shape[2:]) == 1 == _groups(operation) and source.shape[2:] == result.shape[2:]


def _stride(source: Operand, gradient: Operand) -> int:
    """Pixels of the input for each of the result."""
    return max(round(prod(source.shape[2:]) / prod(gradient.shape[2:])), 1)


def _input_gradient(
    operation: Operation,
    gradient: Operand,
    source: Operand,
    weights: Operand,
    output: Operand,
    gpu: KernelCostModel,
    *,
    together: bool,
) -> Kernels:
    product = Implicit(
        groups=_groups(operation),
        rows=source.elements // source.shape[1],
        columns=padded_channels(weights.shape[1]),
        channels=gradient.shape[1] // _groups(operation),
        taps=max(prod(weights.shape[2:]) / _stride(source, gradient), 1.0),
        dtype=_multiplied_as(source),
    )
    if runs_apart(product, source, together=together):
        return group_by_group(product, gradient, weights, output, gpu, gradient=True)
    if is_filled_up(product, source, together=together):
        return filled_up(product, gradient, weights, output, gpu)
    run = (by_narrow_tiles if product.groups > 1 else by_tiles)(product, gpu)
    if _stride(source, gradient) > 1:
        run = replace(run, before="Memset")
    return with_copies(product, run, (weights, gradient), output, gpu, together=together)


def _weights_gradient(
    operation: Operation,
    gradient: Operand,
    source: Operand,
    weights: Operand,
    output: Operand,
    gpu: KernelCostModel,
    *,
    together: bool,
) -> Kernels:
    product = Implicit(
        groups=_groups(operation),
        rows=gradient.shape[1] // _groups(operation),
        columns=padded_channels(weights.shape[1]) * prod(weights.shape[2:]),
        channels=gradient.elements // gradient.shape[1],
        taps=1,
        dtype=_multiplied_as(source),
    )
    if _is_left_to_old(weights):
        run = at_fraction(product, gpu.cost("convolution.few_channels_fraction"), gpu)
    else:
        strides = _stride(source, gradient) > 1 and not operation.arguments.get("transposed")
        if product.dtype == "tf32" and product.groups == 1 and not strides and has_tma(gpu):
            run = of_turned_weights(product, padded_channels(weights.shape[1]), gpu)
        else:
            run = (of_strided_weights if strides else of_weights)(product, gpu)
    return with_copies(product, run, (source, gradient), output, gpu, together=together)


def _plain(source: Operand, weights: Operand, output: Operand, gpu: KernelCostModel, *, together: bool) -> Kernels:
    """The product of a window of one, or the gradient of its input: of all pixels, or of each image's by channels."""
    plane = prod(source.shape[2:])
    rows = source.shape[0] * plane if together else output.shape[1]
    columns = output.shape[1] if together else plane
    sizes = (1 if together else source.shape[0], rows, columns, source.shape[1])
    return _multiplied(sizes, (source, weights), output, gpu, together=together)


def _plain_weights(
    gradient: Operand, source: Operand, output: Operand, gpu: KernelCostModel, *, together: bool
) -> Kernels:
    """The gradient of its weights; by channels, each image's, and their sum."""
    images, plane = source.shape[0], prod(source.shape[2:])
    sides = (gradient.shape[1], source.shape[1])
    if together:
        return _multiplied((1, *sides, images * plane), (gradient, source), output, gpu, together=True)
    apart = scratch(output, 0, shape=(images, *output.shape), dtype="float32")
    kernels = _multiplied((images, *sides, plane), (gradient, source), apart, gpu, together=False)
    return [*kernels, gpu.kernel("reduce_wgrad_nchw_helper", (apart,), (output,), chain=2)]


def _multiplied(
    sizes: tuple[int, int, int, int],
    operands: tuple[Operand, Operand],
    output: Operand,
    gpu: KernelCostModel,
    *,
    together: bool,
) -> Kernels:
    """A matrix product. Args: sizes: batch, m, n and k."""
    lines = [prod(operand.shape[1:2] if together else operand.shape[2:]) for operand in operands]
    dtype, (batch, m, n, k) = _multiplied_as(operands[0]), sizes
    if any(line > 1 and line * operands[0].item_bytes % ALIGNMENT_BYTES for line in lines):
        product = Implicit(groups=batch, rows=m, columns=n, channels=k, taps=1, dtype=dtype)
        return made(
            product, at_fraction(product, gpu.cost("convolution.unaligned_fraction"), gpu), operands, output, gpu
        )
    return multiplied(Product(batch=batch, m=m, n=n, k=k, dtype=dtype), operands, (output,), gpu)


def _laid_out(
    operands: tuple[Operand, ...], deciding: tuple[Operand, ...], gpu: KernelCostModel
) -> tuple[bool, Kernels, list[Operand]]:
    """Whether channels lie together, torch's copies of operands that lie otherwise, and the operands after these."""
    together = any(map(is_channels_last, deciding))
    kernels, laid = [], []
    for operand in operands:
        strides = _strides(operand.shape, together=together)
        pairs = zip(operand.shape, operand.strides, strides, strict=True)
        if any(size > 1 and stride != wanted for size, stride, wanted in pairs):
            target = scratch(operand, 1, shape=operand.shape, strides=strides)
            kernels.append(copied(operand, target, gpu))
            operand = target
        laid.append(operand)
    return together, kernels, laid


def _strides(shape: tuple[int, ...], *, together: bool) -> tuple[int, ...]:
    channels, *plane = shape[1:]
    inner = tuple(prod(plane[axis + 1 :]) for axis in range(len(plane)))
    if together:
        return (channels * prod(plane), 1, *(channels * stride for stride in inner))
    return (channels * prod(plane), prod(plane), *inner)
