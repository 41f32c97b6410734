"""Convolutions: cuDNN's implicit matrix products in NHWC, with transposes before and after where tensors are NCHW."""

from dataclasses import replace
from math import prod

from ..gpu import SERIAL, Gpu
from ..operation import Operand, Operation
from ..priced import PricedKernel
from .issue_slots import REORDERED, REORDERED_WEIGHTS
from .matmul import Product, Tiles, multiplied

TILES: Tiles = tuple((tall, wide) for tall in (64, 128, 256) for wide in (64, 128) if wide <= tall)
"""Tiles of cuDNN's implicit products, by their names."""
GUESSED = "an implicit matrix product is assumed; cuDNN may choose another algorithm"
SHORT = 32
"""Pixels of a plane that is turned slowly, such as those of weights."""
CHANNELS = 8
"""Channels are padded to a multiple of these."""


def convolution(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Kernels of `convolution` and `cudnn_convolution`, forward."""
    source, weights = operation.inputs[:2]
    output = operation.outputs[0]
    groups = int(operation.arguments.get("groups", 1))
    inner = weights.shape[1] if groups > 1 else -(-weights.shape[1] // CHANNELS) * CHANNELS
    product = Product(
        batch=groups,
        m=output.elements // output.shape[1],
        n=output.shape[1] // groups,
        k=inner * prod(weights.shape[2:]),
        dtype=source.dtype,
    )
    kernels, operands = [], []
    for number, operand in enumerate((source, weights)):
        turned = replace(
            operand, storage=-number - 1 - 1000 * operand.storage, storage_bytes=operand.bytes, offset_bytes=0
        )
        if _channels_last(operand):
            operands.append(operand)
            continue
        kernels.append(_reordered("nchw_to_nhwc", operand, turned, gpu))
        operands.append(turned)
    made = output
    if not _channels_last(output):
        made = replace(output, storage=-3 - 1000 * output.storage, offset_bytes=0)
    main = multiplied(product, tuple(operands), (made,), gpu, name="convolution", tiles=TILES)
    kernels += [replace(kernel, note=kernel.note or GUESSED) for kernel in main]
    if made is not output:
        kernels.append(_reordered("nhwc_to_nchw", made, output, gpu))
    return kernels


def _channels_last(operand: Operand) -> bool:
    """Whether the channels of an element lie together."""
    return operand.shape[1] == 1 or prod(operand.shape[2:]) == 1 or operand.strides[1] == 1


def _reordered(name: str, source: Operand, target: Operand, gpu: Gpu) -> PricedKernel:
    short = prod(source.shape[2:]) < SHORT
    issued = (REORDERED_WEIGHTS if short else REORDERED) * source.elements
    return gpu.kernel(name, (source,), (target,), instructions=issued, chain=4, overlap=SERIAL)
