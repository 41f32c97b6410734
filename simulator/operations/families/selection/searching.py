"""`bucketize`, `searchsorted`: a thread halves a row of boundaries until it has its value's place.

Lanes of a warp look different boundaries up, which L1 gives word by word. Source: `searchsorted_cuda_kernel`,
ATen/native/cuda/Bucketization.cu, torch 2.11.
"""

from math import ceil, log2

from ...gpu import LANES, SERIAL, Gpu
from ...operation import Operation
from ...priced import PricedKernel


def searched(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """The one kernel of a search."""
    first, second = operation.inputs[:2]
    values, bounds = (first, second) if operation.name == "bucketize" else (second, first)
    output = operation.outputs[0]
    row = bounds.shape[-1] if bounds.shape else 1
    steps = ceil(log2(max(row, 2))) + 1
    cycles = gpu.cost("search.look_up_cycles") * steps * values.elements / LANES / gpu.sms
    reads = (values, bounds, *operation.inputs[2:])
    return [gpu.kernel("searchsorted", reads, (output,), latency_s=gpu.cycles_s(cycles), chain=steps, overlap=SERIAL)]
