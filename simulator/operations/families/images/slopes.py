"""`_prelu_kernel` and its gradient: a slope for each channel, broadcast over an image."""

from ...gpu import OVERLAPPED, Gpu
from ...operation import Operation
from ...priced import PricedKernel
from ..elementwise import iterate


def sloped(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Elements, or those that are negative times their channel's slope."""
    return [iterate("prelu", operation.inputs, operation.outputs[0], gpu)]


def sloped_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Gradients of elements, and of each one's slope, which a sum adds up afterwards."""
    issued = gpu.cost("elementwise.prelu_backward_instructions") * operation.outputs[0].elements
    reads, writes = operation.inputs, operation.outputs
    return [gpu.kernel("prelu_backward", reads, writes, instructions=issued, chain=4, overlap=OVERLAPPED)]
