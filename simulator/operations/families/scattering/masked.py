"""`masked_scatter` and `index_fill`: elements that a mask or an index names are put."""

from math import prod

from ...gpu import SERIAL, Gpu, part, scratch
from ...operation import Operation
from ...priced import PricedKernel
from ..elementwise import copied, iterate
from ..issue_slots import SCATTERED

COUNTED = 125.0
"""Instructions of cub's running sum for an element of a mask, what its tiles wait for among them. Kind: fitted, 64 x
32,000 elements on one H200 (2026-11-28)."""
SCAN_LOADS = 10
"""Latencies of its tiles, which wait for those before them. Kind: assumed."""


def masked_scatter(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """A copy of the input, running sums of the mask, a check of sizes, the elements."""
    source, mask, values = operation.inputs[:3]
    output = operation.outputs[0]
    places = scratch(output, 0, dtype="int64", shape=output.shape)
    kernels = [] if operation.name.endswith("_") else [copied(source, output, gpu)]
    issued = COUNTED * mask.elements
    return [
        *kernels,
        gpu.kernel("scan_init", (), ()),
        gpu.kernel("scan", (mask,), (places,), instructions=issued, chain=SCAN_LOADS, overlap=SERIAL),
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
    put = gpu.kernel("index_fill", (index,), (touched,), instructions=SCATTERED * filled, chain=2, overlap=SERIAL)
    return [*kernels, put]
