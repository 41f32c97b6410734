"""Operations that order the elements of rows: `topk`, `sort`, running sums."""

from ..gpu import SERIAL, Gpu, memset
from ..operation import Operand, Operation
from ..priced import PricedKernel
from .elementwise import copied

RADIX_BITS = 8
PASS_S = 5.0e-6
"""A pass of cub's radix sort over few keys [s], and KEYS_PER_S: over many. Kind: fitted, 8,192 and 65,536 keys on one
H100."""
KEYS_PER_S = 2.0e10
SMALL_SORT = 4096
"""Longest row that torch sorts in one CTA (`should_use_small_sort`)."""
TOPK_S = 3.5e-6
"""A row's CTA of `gatherTopK`, and the sort of what it takes [s]. Kind: fitted, two of 64 elements on one H100."""
ROW_S = 3.6e-7
"""A row of up to ROW elements, of an SM with many [s]. Kind: fitted, the same, 4,096 and 8,192 rows."""
ROW = 1024
SORTED_ROW_S = 6.6e-8
"""The same of the sort of what it takes."""
SCAN = 330.0
"""Instructions of a running sum for an element. Kind: fitted, 4,096 rows of 4,096 on one H100."""


def running_sum(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`cumsum` and `cumprod`."""
    source, output = operation.inputs[0], operation.outputs[0]
    return [gpu.kernel("scan", (source,), (output,), instructions=SCAN * source.elements, chain=8, overlap=SERIAL)]


def topk(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`topk`: a CTA finds a row's largest elements, another one sorts them."""
    source, values = operation.inputs[0], operation.outputs[0]
    row = source.shape[-1]
    rows = source.elements // row
    waits = (TOPK_S + rows * ROW_S / gpu.sms) * max(row / ROW, 1.0)
    note = "" if row <= ROW else f"rows longer than {ROW} are taken to cost as much an element"
    sorting = TOPK_S + rows * SORTED_ROW_S / gpu.sms
    return [
        gpu.kernel("gather_topk", (source,), operation.outputs, latency_s=waits, note=note),
        gpu.kernel("bitonic_sort", (values,), operation.outputs, latency_s=sorting),
    ]


def sort(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`sort` of one long row; the rows of a matrix have no price."""
    source = operation.inputs[0]
    copy = copied(source, operation.outputs[0], gpu)
    indices = gpu.kernel("fill_indices", (), operation.outputs[-1:])
    return [copy, indices, memset(), *radix_sorted(source, gpu)]


def can_sort(operation: Operation) -> bool:
    """Whether it is one row, too long for a CTA."""
    source = operation.inputs[0]
    return source.elements == max(source.shape, default=0) > SMALL_SORT


def radix_sorted(keys: Operand, gpu: Gpu) -> list[PricedKernel]:
    """Kernels of cub's radix sort: eight bits of the keys a pass, a memset before each."""
    kernels = [
        memset(),
        gpu.kernel("radix_histogram", (keys,), (), chain=15),
        gpu.kernel("radix_sums", (), (), chain=3),
    ]
    for _ in range(keys.item_bytes * 8 // RADIX_BITS):
        waits = PASS_S + keys.elements / KEYS_PER_S
        kernels += [memset(), gpu.kernel("radix_sort", (keys,), (keys,), latency_s=waits)]
    return kernels
