"""`_euclidean_dist`, `_cdist_forward`: distances of all pairs.

Euclidean ones of many rows are a product of the rows, widened by their squares. Others take a CTA a pair. Source:
ATen/native/Distance.cpp, cuda/DistanceKernel.cu, torch 2.11.
"""

from dataclasses import replace
from math import ceil

from ...gpu import SERIAL, Gpu, scratch
from ...operation import Operation
from ...priced import PricedKernel
from ..elementwise import iterate
from ..joining import cat
from ..products.matmul import matmul
from ..reductions import SUM, reduced

THREADS = 256
"""Of a pair's CTA (`forward_threads`)."""


def euclidean(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Squares and their sums, ones, both rows joined with these, a product, its roots."""
    output, kernels, joined = operation.outputs[0], [], []
    for number, rows in enumerate(operation.inputs[:2]):
        squares, alone = scratch(rows, 3 * number, shape=rows.shape), (*rows.shape[:-1], 1)
        sums, ones = (scratch(rows, 3 * number + place, shape=alone) for place in (1, 2))
        axes = (len(rows.shape) - 1,)
        kernels += [
            iterate("pow", (rows,), squares, gpu),
            *reduced(squares, (sums,), axes, gpu, SUM),
            iterate("fill", (), ones, gpu),
        ]
        wide = scratch(rows, 6 + number, shape=(*rows.shape[:-1], rows.shape[-1] + 2))
        joined.append((rows, sums, ones, wide))
    first = joined[0][0]
    kernels.append(iterate("mul", (first,), scratch(first, 8, shape=first.shape), gpu))
    for rows, sums, ones, wide in joined:
        named = {"dim": len(rows.shape) - 1}
        kernels += cat(replace(operation, name="cat", inputs=(rows, sums, ones), outputs=(wide,), arguments=named), gpu)
    left, right = joined[0][3], joined[1][3]
    axes_last = (*right.shape[:-2], right.shape[-1], right.shape[-2])
    turned = replace(right, shape=axes_last, strides=(*right.strides[:-2], right.strides[-1], right.strides[-2]))
    name = "mm" if len(left.shape) == 2 else "bmm"
    kernels += matmul(replace(operation, name=name, inputs=(left, turned), arguments=operation.arguments), gpu)
    return [*kernels, iterate("clamp", (output,), output, gpu), iterate("sqrt", (output,), output, gpu)]


def distances(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`_cdist_forward`: as many CTAs as pairs, one after the other on an SM."""
    rows, output = operation.inputs[:2], operation.outputs[0]
    width = rows[0].shape[-1]
    resident = min(gpu.device.max_warps_per_sm * 32 // THREADS, gpu.device.max_ctas_per_sm)
    waves = max(output.elements / (resident * gpu.sms), 1.0)
    more = (ceil(width / THREADS) - 1) * gpu.device.l2_latency_cycles
    waits = waves * gpu.cycles_s(gpu.cost("distance.pair_cycles") + max(more, 0.0))
    return [gpu.kernel("cdist", rows, (output,), ctas=output.elements, latency_s=waits, overlap=SERIAL)]
