"""`binary_cross_entropy` and its gradient: two logarithms for an element, then what a loss is asked for."""

from ...gpu import Gpu, scratch
from ...operation import Operation
from ...priced import PricedKernel
from ..elementwise import copied, iterate
from ..reductions import MEAN, SUM, reduced

NONE, TOTAL = 0, 2
"""Reductions of a loss: none, a sum; others mean."""


def binary_cross_entropy(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Losses of elements, their product with weights, their mean or sum, and a copy of it."""
    output, kind = operation.outputs[0], operation.arguments.get("reduction", 1)
    losses = output if kind == NONE else scratch(operation.inputs[0], 0)
    kernels = [
        gpu.kernel(
            "binary_cross_entropy",
            operation.inputs[:2],
            (losses,),
            instructions=gpu.cost("loss.binary_cross_entropy_instructions") * losses.elements,
            chain=1,
        )
    ]
    if len(operation.inputs) > 2:
        kernels.append(iterate("mul", (losses, operation.inputs[2]), losses, gpu))
    if kind == NONE:
        return kernels
    value = scratch(output, 1)
    kernels += reduced(losses, (value,), (), gpu, SUM if kind == TOTAL else MEAN)
    return [*kernels, copied(value, output, gpu)]


def binary_cross_entropy_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Their gradient, of a number that all share, its product with weights, and its share of a mean."""
    output = operation.outputs[0]
    kernels = [iterate("sigmoid_backward", operation.inputs[:3], output, gpu)]
    if len(operation.inputs) > 3:
        kernels.append(iterate("mul", (output, operation.inputs[3]), output, gpu))
    is_mean = operation.arguments.get("reduction", 1) not in (NONE, TOTAL)
    return [*kernels, *([iterate("div", (output,), output, gpu)] if is_mean else [])]
