"""Systems of equations with triangular matrices, many at a time, as cuBLAS solves them (`batch_trsm_left_kernel`).

A row waits for all before it, and for a division by its diagonal unless that is one; columns stand beside each other.
Right sides are copied to columns first; triangles of up to two blocks have a product between these.
"""

from math import ceil, prod

from ...gpu import Gpu, part
from ...operation import Operation
from ...priced import NoPrice, PricedKernel
from ..elementwise import copied
from .matmul import Product, multiplied

BLOCK = 64
"""Rows that one kernel solves. Source: its name (`batch_trsm_left_kernel<float, 64, 4, 3>`)."""
SINGLE_BATCH = 8
"""Most triangles, from 64 rows on, that torch solves one by one. Source: `triangular_solve_kernel`,
ATen/native/cuda/linalg/BatchLinearAlgebra.cpp."""


def triangles_solved(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`linalg_solve_triangular` of float32; few large triangles, and those of more than 128 rows, have no price."""
    triangle, sides = operation.inputs[:2]
    solved = operation.outputs[0]
    rows = triangle.shape[-1]
    batch = prod(solved.shape[:-2])
    if solved.dtype != "float32" or rows > 2 * BLOCK or (batch <= SINGLE_BATCH and rows >= BLOCK):
        raise NoPrice("of such triangles, which other kernels solve,")
    columns = solved.elements // (batch * rows)
    blocks = ceil(rows / BLOCK)
    kernels = [copied(sides, solved, gpu), *(gpu.kernel("arange", (), ()) for _ in range(2))]
    for block in range(blocks):
        height = min(rows - block * BLOCK, BLOCK)
        if block:
            product = Product(batch=batch, m=height, n=columns, k=BLOCK, dtype=triangle.dtype)
            above = part(solved, solved.bytes // blocks)
            read = part(triangle, 4 * batch * height * BLOCK)
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
