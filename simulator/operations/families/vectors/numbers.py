"""`complex`, `polar`, `angle`: complex numbers made, and read; `rrelu_with_noise`, which draws its slopes."""

from dataclasses import replace

from ...gpu import SERIAL, Gpu, scratch
from ...operation import Operation
from ...priced import PricedKernel
from ..elementwise import iterate

REAL = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
"""Type of complex numbers -> of their parts."""
POLAR = 2
"""Functions of an element: a sine, a cosine."""


def joined(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`complex`: real and imaginary parts side by side."""
    return [iterate("complex", operation.inputs, operation.outputs[0], gpu)]


def polar(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """One kernel, without casts."""
    issued = POLAR * gpu.cost("elementwise.transcendental_instructions") * operation.outputs[0].elements
    return [gpu.kernel("polar", operation.inputs, operation.outputs, instructions=issued, chain=1)]


def angle(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Of complex numbers a complex result, whose real parts are copied; of real ones one kernel."""
    source, output = operation.inputs[0], operation.outputs[0]
    if source.dtype not in REAL:
        return [iterate("atan", (source,), output, gpu)]
    made = scratch(source, 0)
    parts = replace(made, dtype=REAL[source.dtype], strides=tuple(2 * stride for stride in made.strides))
    return [iterate("atan2", (source,), made, gpu), iterate("copy", (parts,), output, gpu)]


def leaky_noise(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`rrelu_with_noise`: in training a slope is drawn, and kept, for every element."""
    source, output = operation.inputs[0], operation.outputs[0]
    if operation.arguments.get("training"):
        issued, writes = gpu.cost("elementwise.rrelu_instructions") * source.elements, (output, *operation.inputs[1:2])
        return [gpu.kernel("rrelu_with_noise", (source,), writes, instructions=issued, chain=2, overlap=SERIAL)]
    return [iterate("leaky_relu", (source,), output, gpu)]
