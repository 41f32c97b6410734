"""Other products and what is made of them: `_grouped_mm`, `_int_mm`, triangular systems, distances, norms of vectors.

`_grouped_mm`: groups end where a tensor says, as mixtures of experts have them. Of bfloat16 on compute capability 9 and
10 a kernel of one CTA writes down the groups, and one of CUTLASS multiplies all, in one of two tiles; elsewhere the
host reads where groups end, and multiplies one after the other (ATen/native/cuda/GroupMM.cu, GroupedBlas.cpp, torch
2.11 to 2.13). `_int_mm` runs `cutlass_80_tensorop_i16832gemm_s8` (its name on one H100). `batch_trsm_left_kernel` of
cuBLAS: a row waits for all before it, and for a division by its diagonal unless that is one; columns stand beside each
other; triangles of up to two blocks have a product between these. `cdist` takes a CTA a pair, and Euclidean distances
of many rows are a product of the rows, widened by their squares (ATen/native/Distance.cpp, cuda/DistanceKernel.cu).
"""

from dataclasses import replace
from math import ceil, prod

from ...cost_model import SERIAL, KernelCostModel, part, scratch
from ...operation import Operand, Operation
from ...priced import Kernels, NoPrice
from ..copies import cat
from ..elementwise import copied, iterate
from ..reductions import MEAN, SUM, reduced
from .matmul import matmul, multiplied, product_of, walked_s
from .tensor_tiles import TILED, Product

SMALL_GROUP = 128
"""Rows or columns of a group up to which the small tile is taken (`dispatch_bf16_grouped_kernel_on_tile_size`)."""
SMALL_TILE, LARGE_TILE = (64, 128), (128, 256)
"""Rows and columns of a tile."""
EQUAL_GROUPS = "groups of equal sizes are assumed"
INT8_TILES = ((128, 256), (256, 128), (128, 128), (128, 64), (64, 128), (64, 64))
"""Rows and columns of its tiles. Kind: measured, 128 x 256 for 1000 x 11008 x 4096 on one H100; assumed, the others."""
TRIANGLE_ROWS = 64
"""Rows that one kernel solves. Source: its name (`batch_trsm_left_kernel<float, 64, 4, 3>`)."""
TRIANGLES = 8
"""Most triangles, from 64 rows on, that torch solves one by one. Source: `triangular_solve_kernel`,
ATen/native/cuda/linalg/BatchLinearAlgebra.cpp."""
PAIR_THREADS = 256
"""Of a pair's CTA (`forward_threads`)."""
VECTOR = 3
"""Elements of a vector of `linalg_cross`, which a thread takes."""
NORM_THREADS = 512
"""Of a CTA of `weight_norm_fwd_first_dim_kernel` (`block.x`, ATen/native/cuda/WeightNorm.cu, torch 2.11)."""


def sum_of_products(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`inductor::_mm_plus_mm`: a product, and another that is added to it."""
    a, b, c, d, *_ = operation.inputs
    output = operation.outputs[:1]
    first = replace(operation, name="mm", inputs=(a, b), outputs=output)
    second = replace(operation, name="addmm", inputs=(*output, c, d), outputs=output)
    return [*matmul(first, gpu), *matmul(second, gpu)]


def grouped_mm(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Kernels of `_grouped_mm`."""
    product = product_of(operation)
    if product.dtype != "bfloat16" or gpu.device.capability // 10 not in (9, 10):
        return _one_by_one(operation, product, gpu)
    tile = SMALL_TILE if min(product.m, product.n) <= SMALL_GROUP else LARGE_TILE
    busy, note = walked_s(product, tile, gpu)
    return [
        gpu.kernel("prepare_grouped_gemm", operation.inputs[2:], (), chain=2),
        gpu.kernel(
            f"grouped gemm {product.m}x{product.n}x{product.k} x{product.batch}",
            operation.inputs,
            operation.outputs,
            source="matmul",
            tensor_s=busy,
            start_s=gpu.cost("matmul.start_s"),
            hbm_fraction=gpu.cost("matmul.stream_fraction"),
            overlap=TILED,
            note=note or EQUAL_GROUPS,
        ),
    ]


def _one_by_one(operation: Operation, product: Product, gpu: KernelCostModel) -> Kernels:
    """A product for each group."""
    alone = replace(product, batch=1)
    left, right, output = *operation.inputs[:2], operation.outputs[0]
    kernels = [gpu.kernel("Memcpy DtoH", operation.inputs[2:], ())]
    for group in range(product.batch):
        reads = (_part(left, group, product.batch), _part(right, group, product.batch))
        made = multiplied(alone, reads, (_part(output, group, product.batch),), gpu)
        kernels += [replace(kernel, note=kernel.note or EQUAL_GROUPS) for kernel in made]
    return kernels


def _part(operand: Operand, group: int, groups: int) -> Operand:
    """What a group has of an operand: its matrix, or its share of one for all."""
    if len(operand.shape) == 3:
        step, shape, strides = operand.strides[0], operand.shape[1:], operand.strides[1:]
    else:
        size = ceil(operand.shape[0] / groups)
        step, shape, strides = size * operand.strides[0], (size, operand.shape[1]), operand.strides
    offset_bytes = operand.offset_bytes + group * step * operand.item_bytes
    return replace(operand, shape=shape, strides=strides, offset_bytes=offset_bytes)


def int_mm(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """The kernel of `_int_mm`."""
    product, device = product_of(operation), gpu.device
    rate = (
        min(gpu.cost("matmul.int8_factor") * device.mma_fp16_flop_per_cycle, device.fastest_flop_per_cycle("i8"))
        * device.tensor_clock_hz
    )
    tried = []
    for rows, columns in INT8_TILES:
        waves = ceil(ceil(product.m / rows) * ceil(product.n / columns) / gpu.sms)
        tried.append(waves * (2.0 * rows * columns * product.k / rate + gpu.cost("matmul.tile_s")))
    return [
        gpu.kernel(
            f"gemm {product.m}x{product.n}x{product.k}",
            operation.inputs,
            operation.outputs,
            source="matmul",
            tensor_s=min(tried),
            start_s=gpu.cost("matmul.start_s"),
            hbm_fraction=gpu.cost("matmul.stream_fraction"),
            overlap=TILED,
            note="products of int8 are taken to run at twice the rate of fp16",
        )
    ]


def solve_triangular(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`linalg_solve_triangular` of float32; few large triangles, and those of more than 128 rows, have no price."""
    triangle, sides = operation.inputs[:2]
    solved = operation.outputs[0]
    rows = triangle.shape[-1]
    batch = prod(solved.shape[:-2])
    if solved.dtype != "float32" or rows > 2 * TRIANGLE_ROWS or (batch <= TRIANGLES and rows >= TRIANGLE_ROWS):
        raise NoPrice("of such triangles, which other kernels solve,")
    columns = solved.elements // (batch * rows)
    blocks = ceil(rows / TRIANGLE_ROWS)
    kernels = [copied(sides, solved, gpu), *(gpu.kernel("arange", (), ()) for _ in range(2))]
    for block in range(blocks):
        height = min(rows - block * TRIANGLE_ROWS, TRIANGLE_ROWS)
        if block:
            product = Product(batch=batch, m=height, n=columns, k=TRIANGLE_ROWS, dtype=triangle.dtype)
            above = part(solved, solved.bytes // blocks)
            read = part(triangle, 4 * batch * height * TRIANGLE_ROWS)
            kernels += [gpu.kernel("offset_pointers", (), ()), *multiplied(product, (read, above), (above,), gpu)]
        elif blocks > 1:
            kernels.append(gpu.kernel("offset_pointers", (), ()))
        divided = 0.0 if operation.arguments.get("unitriangular") else gpu.cost("matmul.triangle_division_cycles")
        cycles = height * (
            gpu.cost("matmul.triangle_row_cycles") + divided + gpu.cost("matmul.triangle_pair_cycles") * height
        )
        waves = ceil(batch * columns / (gpu.cost("matmul.triangle_sides_per_sm") * gpu.sms))
        touched = part(solved, solved.bytes // blocks)
        reads = (part(triangle, 4 * batch * height * height), touched)
        solving = gpu.kernel("batch_trsm", reads, (touched,), source="matmul", latency_s=waves * gpu.cycles_s(cycles))
        kernels.append(solving)
    return kernels


def euclidean_dist(operation: Operation, gpu: KernelCostModel) -> Kernels:
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


def cdist(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`_cdist_forward`: as many CTAs as pairs, one after the other on an SM."""
    rows, output = operation.inputs[:2], operation.outputs[0]
    width = rows[0].shape[-1]
    resident = min(gpu.device.max_warps_per_sm * 32 // PAIR_THREADS, gpu.device.max_ctas_per_sm)
    waves = max(output.elements / (resident * gpu.sms), 1.0)
    more = (ceil(width / PAIR_THREADS) - 1) * gpu.device.l2_latency_cycles
    waits = waves * gpu.cycles_s(gpu.cost("distance.pair_cycles") + max(more, 0.0))
    return [gpu.kernel("cdist", rows, (output,), ctas=output.elements, latency_s=waits, overlap=SERIAL)]


def renorm(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Norms of slices along a dimension, factors, and their product."""
    source, output = operation.inputs[0], operation.outputs[0]
    rank = len(source.shape)
    kept = int(operation.arguments.get("dim", 0)) % rank
    shape = tuple(size if axis == kept else 1 for axis, size in enumerate(source.shape))
    norms = scratch(source, 0, shape=shape)
    axes = tuple(axis for axis in range(rank) if axis != kept)
    factors = iterate("reciprocal", (norms,), norms, gpu)
    return [*reduced(source, (norms,), axes, gpu, MEAN), factors, iterate("mul", (source, norms), output, gpu)]


def weight_norm(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """A CTA takes a row's norm, and scales the row."""
    weights, rows = operation.inputs[0], max(operation.inputs[1].elements, 1)
    turns = prod(weights.shape) / rows / NORM_THREADS
    waves = max(rows * NORM_THREADS / (gpu.device.max_warps_per_sm * 32 * gpu.sms), 1.0)
    loads = waves * (2 * turns + gpu.cost("norm.weight_row_loads"))
    return [gpu.kernel("weight_norm", operation.inputs[:2], operation.outputs, ctas=rows, chain=loads, overlap=SERIAL)]


def cross(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`linalg_cross`: a vector a thread."""
    issued = gpu.cost("elementwise.indexed_instructions") * operation.outputs[0].elements / VECTOR
    reads, writes = operation.inputs[:2], operation.outputs
    return [gpu.kernel("cross", reads, writes, instructions=issued, chain=2, overlap=SERIAL)]


def diag_embed(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`diag_embed`: zeros, and a copy to the diagonal; `diagonal_copy`: a copy of it."""
    source, output = operation.inputs[0], operation.outputs[0]
    whole = output if operation.name == "diag_embed" else source
    rank = len(whole.shape)
    first, second = (
        int(operation.arguments.get(name, default)) % rank
        for name, default in zip(("dim1", "dim2"), (-2, -1) if operation.name == "diag_embed" else (0, 1), strict=True)
    )
    outer = [axis for axis in range(rank) if axis not in (first, second)]
    seen = replace(
        whole,
        shape=(source if operation.name == "diag_embed" else output).shape,
        strides=(*(whole.strides[axis] for axis in outer), whole.strides[first] + whole.strides[second]),
    )
    if operation.name == "diagonal_copy":
        return [iterate("copy", (seen,), output, gpu)]
    return [iterate("fill", (), output, gpu), iterate("copy", (source,), seen, gpu)]


def packed_product(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`_weight_int4pack_mm`: weights of 4 bits are unpacked on the way to tensor cores, which take bf16."""
    flop = 2.0 * operation.inputs[0].elements * operation.outputs[0].shape[-1]
    busy_s = flop / (gpu.device.fastest_flop_per_cycle("bf16") * gpu.sms * gpu.device.tensor_boost_clock_hz)
    note = "packed weights were not measured: their bytes, or FLOP at the peak"
    return [gpu.kernel("tinygemm", operation.inputs, operation.outputs, source="matmul", tensor_s=busy_s, note=note)]
