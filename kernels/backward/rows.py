"""What goes row by row around the products, in Triton: delta = rowsum(dO * O), empty sums, and dQ from its sum."""

import triton
import triton.language as tl

from .tiles import load_rows, store_rows


@triton.jit
def delta_kernel(
    o_ptr, do_ptr, delta_ptr, rows_total,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, block_rows: tl.constexpr, whole: tl.constexpr,
):  # fmt: skip
    """Delta of a tile of rows of all heads. Shapes: O, dO (rows_total, D); delta (rows_total,)."""
    first = tl.program_id(0).to(tl.int64) * block_rows
    _delta(o_ptr, do_ptr, delta_ptr, first, rows_total - first, head_dim, padded_dim, block_rows, whole)


@triton.jit
def prepare_kernel(
    o_ptr, do_ptr, delta_ptr, dq_sum_ptr, rows_total,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, block_rows: tl.constexpr, whole: tl.constexpr,
):  # fmt: skip
    """Delta of a tile of rows, and zeros for its sum of dQ (rows_total, D)."""
    first = tl.program_id(0).to(tl.int64) * block_rows
    _delta(o_ptr, do_ptr, delta_ptr, first, rows_total - first, head_dim, padded_dim, block_rows, whole)
    _zero(dq_sum_ptr, first, rows_total - first, head_dim, padded_dim, block_rows, whole)


@triton.jit
def prepare_ordered_kernel(
    o_ptr, do_ptr, delta_ptr, dq_sum_ptr, turn_ptr, rows_total, turns,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, block_rows: tl.constexpr, whole: tl.constexpr,
):  # fmt: skip
    """The same, and zeros for the turns (turns,), of which there are no more than rows."""
    first = tl.program_id(0).to(tl.int64) * block_rows
    _delta(o_ptr, do_ptr, delta_ptr, first, rows_total - first, head_dim, padded_dim, block_rows, whole)
    _zero(dq_sum_ptr, first, rows_total - first, head_dim, padded_dim, block_rows, whole)
    places = first + tl.arange(0, block_rows)
    tl.store(turn_ptr + places, tl.zeros((block_rows,), tl.int32), mask=places < turns)


@triton.jit
def convert_kernel(
    dq_sum_ptr, dq_ptr, rows_total, scale,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, block_rows: tl.constexpr, whole: tl.constexpr,
):  # fmt: skip
    """Gradient dQ of a tile of rows: its sum, times the scale of the scores, in the type of Q."""
    first = tl.program_id(0).to(tl.int64) * block_rows
    total = load_rows(dq_sum_ptr, first, rows_total - first, head_dim, padded_dim, block_rows, whole)
    store_rows(dq_ptr, total * scale, first, rows_total - first, head_dim, padded_dim, block_rows, whole)


@triton.jit
def _delta(
    o_ptr, do_ptr, delta_ptr, first, left,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, block_rows: tl.constexpr, whole: tl.constexpr,
):  # fmt: skip
    o = load_rows(o_ptr, first, left, head_dim, padded_dim, block_rows, whole).to(tl.float32)
    do = load_rows(do_ptr, first, left, head_dim, padded_dim, block_rows, whole).to(tl.float32)
    rows = tl.arange(0, block_rows)
    tl.store(delta_ptr + first + rows, tl.sum(o * do, 1), mask=rows < left)


@triton.jit
def _zero(
    ptr, first, left, head_dim: tl.constexpr, padded_dim: tl.constexpr, block_rows: tl.constexpr, whole: tl.constexpr
):
    zeros = tl.zeros((block_rows, padded_dim), tl.float32)
    store_rows(ptr, zeros, first, left, head_dim, padded_dim, block_rows, whole)
