"""`masked_scatter` and `index_fill`: elements that a mask or an index names are put."""

from math import prod

from ...gpu import SERIAL, Gpu, part, scratch
from ...operation import Operation
from ...priced import PricedKernel
from ..elementwise import copied, iterate


def masked_scatter(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """A copy of the input, running sums of the mask, a check of sizes, the elements."""
    source, mask, values = operation.inputs[:3]
    output = operation.outputs[0]
    places = scratch(output, 0, dtype="int64", shape=output.shape)
    kernels = [] if operation.name.endswith("_") else [copied(source, output, gpu)]
    issued = gpu.cost("index.mask_scan_instructions") * mask.elements
    return [
        *kernels,
        gpu.kernel("scan_init", (), ()),
        gpu.kernel(
            "scan", (mask,), (places,), instructions=issued, chain=gpu.cost("scan.look_back_loads"), overlap=SERIAL
        ),
        gpu.kernel("masked_scatter_size_check", (), ()),
        iterate("add", (output, scratch(output, 0, dtype=output.dtype), values), output, gpu),
    ]


def index_fill(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """A copy of the input, and one value at rows of an index."""
    source, index = operation.inputs[0], next(x for x in operation.inputs[1:] if x.dtype in ("int64", "int32"))
    output, axis = operation.outputs[0], int(operation.arguments.get("dim", 0))
    row = prod(output.shape) // max(output.shape[axis] if output.shape else 1, 1)
    kernels = [] if operation.name.endswith("_") else [copied(source, output, gpu)]
    filled = index.elements * row
    touched = part(output, min(filled * output.item_bytes, output.bytes))
    put = gpu.kernel(
        "index_fill",
        (index,),
        (touched,),
        instructions=gpu.cost("index.scattered_instructions") * filled,
        chain=2,
        overlap=SERIAL,
    )
    return [*kernels, put]
