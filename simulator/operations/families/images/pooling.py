"""`max_pool2d_with_indices`, `avg_pool2d`, `avg_pool3d`, gradients: a thread for a window, or an element.

DilatedMaxPool2d.cu, AveragePool2d.cu and AveragePool3d.cu of ATen, torch 2.11, in the order of dimensions. `max_pool1d`
runs as the first of them.
"""

from collections.abc import Sequence
from math import prod

from ...gpu import SERIAL, Gpu
from ...operation import Operation
from ...priced import PricedKernel
from ..convolutions.depthwise import is_channels_last
from ..elementwise import contiguous, iterate
from .planes import in_order


def pooled(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """The kernel of `max_pool2d_with_indices`, `avg_pool2d` or `avg_pool3d`."""
    source, outputs = operation.inputs[0], operation.outputs
    dims = 3 if "3d" in operation.name else 2
    window = prod(_sizes(operation.arguments.get("kernel_size", ()), dims))
    together = is_channels_last(source)
    copies, source = ([], source) if together else contiguous(source, 0, gpu)
    issued = (
        gpu.cost("pool.nhwc_tap_instructions") * window
        if together
        else gpu.cost("pool.window_instructions") + gpu.cost("pool.tap_instructions") * window
    )
    note = "pooling of volumes is assumed to take what that of images does" if dims == 3 else ""
    return [
        *copies,
        gpu.kernel(
            "pool",
            (source,),
            outputs,
            instructions=issued * outputs[0].elements,
            chain=min(window, 2),
            overlap=SERIAL,
            note=note,
        ),
    ]


def pooled_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Gradients: `max_pool2d_with_indices_backward` after zeros, and `avg_pool2d_backward`."""
    gradient, output = operation.inputs[0], operation.outputs[0]
    in_order(gradient, output)
    is_max = "max" in operation.name
    sizes = _sizes(operation.arguments.get("kernel_size", ()), 2)
    steps = _sizes(operation.arguments.get("stride", ()) or sizes, 2)
    windows = prod(max(size / step, 1.0) for size, step in zip(sizes, steps, strict=True))
    issued = (gpu.cost("pool.max_backward_instructions" if is_max else "pool.mean_backward_instructions")) + gpu.cost(
        "pool.backward_window_instructions"
    ) * windows
    reads = (gradient, *operation.inputs[2:]) if is_max else (gradient,)
    instructions = issued * output.elements
    kernel = gpu.kernel("pool_backward", reads, (output,), instructions=instructions, chain=2, overlap=SERIAL)
    return [iterate("fill", (), output, gpu), kernel] if is_max else [kernel]


def _sizes(given: Sequence[int] | int, dims: int) -> tuple[int, ...]:
    """Sizes by dimension: one may stand for all."""
    sizes = (given,) if isinstance(given, int) else tuple(given)
    return sizes * dims if len(sizes) == 1 else sizes
