"""`_prelu_kernel` and its gradient: a slope for each channel, broadcast over an image."""

from ...gpu import OVERLAPPED, Gpu
from ...operation import Operation
from ...priced import PricedKernel
from ..elementwise import iterate

BACK = 175.0
"""Instructions for an element of `unrolled_elementwise_kernel_for_multi_outputs`, with index arithmetic for both
results. Kind: fitted, 16 x 64 images of 112 x 112 in bf16 and fp32 on one H200."""


def sloped(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Elements, or those that are negative times their channel's slope."""
    return [iterate("prelu", operation.inputs, operation.outputs[0], gpu)]


def sloped_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Gradients of elements, and of each one's slope, which a sum adds up afterwards."""
    issued = BACK * operation.outputs[0].elements
    reads, writes = operation.inputs, operation.outputs
    return [gpu.kernel("prelu_backward", reads, writes, instructions=issued, chain=4, overlap=OVERLAPPED)]
