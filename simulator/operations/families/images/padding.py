"""`reflection_pad1d`, `2d`, `3d`, `replication_pad1d`, `2d`, `3d` and their gradients: a thread for each padded place.

ReflectionPad.cu and ReplicationPadding.cu of ATen, torch 2.11: CTAs of 256 threads at most for each plane, dividing in
64 bits for their place. Gradients are added to zeros, an atomic addition for each element.
"""

from math import ceil, prod

from ...gpu import LANES, SERIAL, Gpu
from ...operation import Operand, Operation
from ...priced import PricedKernel
from ..elementwise import iterate
from .planes import in_order, is_narrow, planes_of

THREADS = 256


def padded(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Padding that repeats what is there."""
    source, output = operation.inputs[0], operation.outputs[0]
    in_order(source, output)
    return [_padding(operation, output, (source,), output, 0.0, gpu)]


def padded_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Gradients of padding."""
    gradient, output = operation.inputs[0], operation.outputs[0]
    in_order(gradient, output)
    more = gpu.cost("image.pair_add_instructions") if is_narrow(output) else 0.0
    adding = _padding(operation, gradient, (gradient, output), output, more, gpu)
    return [iterate("fill", (), output, gpu), adding]


def _padding(
    operation: Operation, places: Operand, reads: tuple[Operand, ...], output: Operand, more: float, gpu: Gpu
) -> PricedKernel:
    """A kernel with a thread for each place, and as many more as fill CTAs of each plane."""
    kind, dimensions = operation.name.strip("_").removesuffix("_backward").split("_pad")
    dims = int(dimensions[0])
    planes, sizes = planes_of(places, dims)
    ctas = planes * ceil(prod(sizes) / THREADS)
    threads = ceil(min(prod(sizes), THREADS) / LANES) * LANES
    issued = (gpu.cost(f"image.{kind}_pad{dims}d_instructions") + more) * ctas * threads
    return gpu.kernel(f"{kind}_pad{dims}d", reads, (output,), instructions=issued, ctas=ctas, chain=1, overlap=SERIAL)
