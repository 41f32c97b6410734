"""What goes row by row around the products, in Triton: numbers of rows, empty sums, and dQ from its sum.

Sums of dQ lie in device memory as threads hold them: 4,096 numbers of 64 x 64, four of a thread side by side.
"""

import triton
import triton.language as tl

from ..launch.numbers import LOG2_E


@triton.jit
def prepare_kernel(
    o_ptr, do_ptr, lse_ptr, numbers_ptr, sum_ptr, seqlen_q, q_tiles, head_dim: tl.constexpr, block_m: tl.constexpr
):
    """LSE in log2 and delta = rowsum(dO * O) of a query tile, side by side, and zeros for its sum of dQ.

    LSE is inf for rows past the last and for those that see no key: their P is 0, and no mask is needed.
    """
    tile, slab = tl.program_id(0), tl.program_id(1).to(tl.int64)
    places = tl.arange(0, block_m)
    rows = tile * block_m + places
    inside = rows < seqlen_q
    at = (slab * seqlen_q + rows)[:, None] * head_dim + tl.arange(0, head_dim)[None, :]
    o = tl.load(o_ptr + at, mask=inside[:, None], other=0.0).to(tl.float32)
    do = tl.load(do_ptr + at, mask=inside[:, None], other=0.0).to(tl.float32)
    lse = tl.load(lse_ptr + slab * seqlen_q + rows, mask=inside, other=float("inf"))
    first = (slab * q_tiles + tile) * block_m
    tl.store(numbers_ptr + first * 2 + places, tl.where(lse == -float("inf"), float("inf"), lse * LOG2_E))
    tl.store(numbers_ptr + first * 2 + block_m + places, tl.sum(o * do, 1))
    tl.store(sum_ptr + first * head_dim + tl.arange(0, block_m * head_dim), tl.zeros((block_m * head_dim,), tl.float32))


@triton.jit
def convert_kernel(sum_ptr, dq_ptr, seqlen_q, q_tiles, scale, head_dim: tl.constexpr, block_m: tl.constexpr):
    """Gradient dQ of half a query tile: its sum, times the scale of the scores, in the type of Q."""
    tile, half, slab = tl.program_id(0) // 2, tl.program_id(0) % 2, tl.program_id(1).to(tl.int64)
    total = tl.load(sum_ptr + ((slab * q_tiles + tile) * 2 + half) * 4096 + tl.arange(0, 4096))
    # From eights of columns, warp, row of eight, pair, half of sixteen rows, one of two to rows and columns.
    total = tl.permute(tl.reshape(total, (8, 4, 8, 4, 2, 2)), (1, 4, 2, 0, 3, 5))
    total = tl.reshape(total, (64, 64)) * scale
    rows, dims = tile * block_m + tl.arange(0, 64), tl.arange(0, 64)
    if head_dim == 128:
        dims += 64 * half
    else:
        rows += 64 * half
    at = (slab * seqlen_q + rows)[:, None] * head_dim + dims[None, :]
    tl.store(dq_ptr + at, total.to(dq_ptr.dtype.element_ty), mask=(rows < seqlen_q)[:, None])
