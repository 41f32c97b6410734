"""`kthvalue`, `median`: a CTA of 1,024 threads walks a row once for every two bits of its elements.

Source: `gatherKthValue`, `gatherMedian` and `radixSelect` (RADIX_BITS = 2), ATen/native/cuda/Sorting.cu and
SortingRadixSelect.cuh, torch 2.11.
"""

from math import ceil

from ...gpu import SERIAL, Gpu
from ...operation import Operation
from ...priced import PricedKernel
from ..elementwise import contiguous

THREADS, BITS = 1024, 2
WALKED_TO_THE_END = "digits are walked to the last, though a row whose element is found earlier ends"


def ranked(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`kthvalue` and `median` along a dimension; rows that L1 keeps come from there after the first pass."""
    source, outputs = operation.inputs[0], operation.outputs
    axis = int(operation.arguments.get("dim", -1)) if len(outputs) > 1 and source.shape else 0
    row = source.shape[axis] if len(outputs) > 1 and source.shape else source.elements
    rows = source.elements // max(row, 1)
    kernels, source = contiguous(source, 0, gpu)
    device = gpu.device
    threads = min(32 * ceil(row / 32), THREADS)
    resident = min(device.max_warps_per_sm * 32 // threads, device.max_ctas_per_sm)
    waves = max(rows / (resident * gpu.sms), 1.0)
    passes, turns = 8 * source.item_bytes // BITS, ceil(row / threads)
    kept = row * source.item_bytes * min(resident, ceil(rows / gpu.sms)) <= device.l1_bytes
    load_s = gpu.cycles_s(device.l1_latency_cycles if kept else device.l2_latency_cycles)
    waits = (
        waves
        * passes
        * (gpu.cost("topk.select_pass_s") + turns * (gpu.cycles_s(gpu.cost("topk.select_turn_cycles")) + load_s))
    )
    note = WALKED_TO_THE_END
    return [
        *kernels,
        gpu.kernel("radix_select", (source,), outputs, latency_s=waits, chain=turns * waves, overlap=SERIAL, note=note),
    ]
