"""Convolutions: cuDNN's implicit matrix products in NHWC, with transposes before and after where tensors are NCHW."""

from dataclasses import replace
from math import prod

from ..gpu import SERIAL, Gpu, memset, scratch
from ..operation import Operand, Operation
from ..priced import PricedKernel
from .depthwise import added, depthwise, depthwise_backward, is_depthwise
from .issue_slots import REORDERED, REORDERED_WEIGHTS
from .matmul import Product, Tiles, multiplied
from .reductions import reduced

TILES: Tiles = tuple((tall, wide) for tall in (64, 128, 256) for wide in (64, 128) if wide <= tall)
"""Tiles of cuDNN's implicit products, by their names."""
GUESSED = "an implicit matrix product is assumed; cuDNN may choose another algorithm"
SHORT = 32
"""Pixels of a plane that is turned slowly, such as those of weights."""
CHANNELS = 8
"""Channels are padded to a multiple of these; fewer are turned slowly, and multiplied by an old kernel."""


def convolution(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Kernels of `convolution` and `cudnn_convolution`, forward; the bias is added by one of torch's."""
    if is_depthwise(operation):
        return depthwise(operation, gpu)
    source, weights, *bias = operation.inputs
    output = operation.outputs[0]
    groups = int(operation.arguments.get("groups", 1))
    product = Product(
        batch=groups,
        m=output.elements // output.shape[1],
        n=output.shape[1] // groups,
        k=_padded(weights.shape[1]) * prod(weights.shape[2:]),
        dtype=_multiplied_as(source),
        few_channels=weights.shape[1] < CHANNELS,
    )
    kernels, (source, weights) = _turned((source, weights), gpu)
    kernels += _product(product, (source, weights), output, gpu)
    kernels += [added(output, channels, gpu) for channels in bias]
    return kernels


def convolution_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Gradients of the input, the weights and the bias, as far as they are wanted (`output_mask`)."""
    if is_depthwise(operation):
        return depthwise_backward(operation, gpu)
    gradient, source, weights = operation.inputs[:3]
    groups = int(operation.arguments.get("groups", 1))
    wanted = list(operation.arguments.get("output_mask", (True, True, False)))
    outputs = iter(operation.outputs)
    window, pixels = prod(weights.shape[2:]), gradient.elements // gradient.shape[1]
    made = gradient.shape[1] // groups
    kernels, (turned, *others) = _turned((gradient, source, weights), gpu)
    if wanted[0]:
        product = Product(
            batch=groups,
            m=source.elements // source.shape[1],
            n=_padded(weights.shape[1]),
            k=made * window,
            dtype=_multiplied_as(source),
        )
        kernels += _product(product, (turned, others[1]), next(outputs), gpu)
    if wanted[1]:
        columns = _padded(weights.shape[1]) * window
        product = Product(batch=groups, m=made, n=columns, k=pixels, dtype=_multiplied_as(source))
        kernels += _product(product, (turned, others[0]), next(outputs), gpu)
    if wanted[2]:
        axes = tuple(axis for axis in range(len(gradient.shape)) if axis != 1)
        kernels += reduced(gradient, (next(outputs),), axes, gpu, is_sum=True)
    return kernels


def _multiplied_as(source: Operand) -> str:
    """The type of its products: cuDNN rounds fp32 to TF32, as torch allows it to by default."""
    return "tf32" if source.dtype == "float32" else source.dtype


def _padded(channels: int) -> int:
    return -(-channels // CHANNELS) * CHANNELS if channels > 1 else 1


def _turned(operands: tuple[Operand, ...], gpu: Gpu) -> tuple[list[PricedKernel], list[Operand]]:
    """Operands with the channels of an element together, and the kernels that turn them."""
    kernels, turned = [], []
    for operand in operands:
        if not _channels_last(operand):
            batch, channels, *plane = operand.shape
            made = scratch(operand, 0, shape=(batch, _padded(channels), *plane))
            if channels < CHANNELS:
                kernels.append(memset(made.bytes, gpu))
            kernels.append(_reordered("nchw_to_nhwc", operand, made, gpu))
            operand = made
        turned.append(operand)
    return kernels, turned


def _product(product: Product, operands: tuple[Operand, ...], output: Operand, gpu: Gpu) -> list[PricedKernel]:
    """The implicit product, and the kernel that turns its output where its channels are apart."""
    turns = not _channels_last(output)
    made = scratch(output, 0) if turns else output
    kernels = [
        replace(kernel, note=kernel.note or GUESSED)
        for kernel in multiplied(product, operands, (made,), gpu, name="convolution", tiles=TILES)
    ]
    return [*kernels, _reordered("nhwc_to_nchw", made, output, gpu)] if turns else kernels


def _channels_last(operand: Operand) -> bool:
    """Whether the channels of an element lie together."""
    return operand.shape[1] == 1 or prod(operand.shape[2:]) == 1 or operand.strides[1] == 1


def _reordered(name: str, source: Operand, target: Operand, gpu: Gpu) -> PricedKernel:
    slow = prod(source.shape[2:]) < SHORT or source.shape[1] < CHANNELS
    issued = (REORDERED_WEIGHTS if slow else REORDERED) * target.elements
    return gpu.kernel(name, (source,), (target,), instructions=issued, chain=4, overlap=SERIAL)
