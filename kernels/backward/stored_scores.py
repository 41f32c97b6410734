"""Naive attention backward in Triton: products whose operands or results are stacks of M x N matrices in device memory.

P, dP and dS have rows that start at multiples of a line (`pitch` elements apart). A CTA's number gives its tile:
along the keys fastest, then query tiles, then heads. dQ = dS K is the forward's product (`naive.output_kernel`).
"""

import triton
import triton.language as tl

from ..launch.numbers import LOG2_E
from .tiles import load_numbers, load_rows, store_rows, visible


@triton.jit
def probabilities_kernel(
    q_ptr, k_ptr, lse_ptr, p_ptr, seqlen_q, seqlen_k, pitch, scale_log2,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, block_m: tl.constexpr,
    block_n: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr, causal: tl.constexpr,
):  # fmt: skip
    """A tile of P = exp(Q K^T scale - LSE), 0 where the mask hides it."""
    slab, row, key = _place(seqlen_q, seqlen_k, block_m, block_n)
    first_row, left = slab.to(tl.int64) * seqlen_q + row, seqlen_q - row
    first_key = (slab // head_group).to(tl.int64) * seqlen_k + key
    q = load_rows(q_ptr, first_row, left, head_dim, padded_dim, block_m, whole_m)
    k = load_rows(k_ptr, first_key, seqlen_k - key, head_dim, padded_dim, block_n, whole_n)
    lse = load_numbers(lse_ptr, first_row, left, float("inf"), block_m, whole_m)
    p = tl.exp2(tl.dot(q, tl.trans(k)) * scale_log2 - (lse * LOG2_E)[:, None])
    if causal:
        rows, keys = row + tl.arange(0, block_m), key + tl.arange(0, block_n)
        p = tl.where(visible((rows + seqlen_k - seqlen_q)[:, None], keys[None, :], seqlen_k, True, 0), p, 0.0)
    _store_scores(p_ptr, p, first_row, key, left, seqlen_k - key, pitch, block_m, block_n, whole_m and whole_n)


@triton.jit
def grad_probabilities_kernel(
    do_ptr, v_ptr, dp_ptr, seqlen_q, seqlen_k, pitch,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, block_m: tl.constexpr,
    block_n: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr,
):  # fmt: skip
    """A tile of dP = dO V^T."""
    slab, row, key = _place(seqlen_q, seqlen_k, block_m, block_n)
    first_row, left = slab.to(tl.int64) * seqlen_q + row, seqlen_q - row
    first_key = (slab // head_group).to(tl.int64) * seqlen_k + key
    do = load_rows(do_ptr, first_row, left, head_dim, padded_dim, block_m, whole_m)
    v = load_rows(v_ptr, first_key, seqlen_k - key, head_dim, padded_dim, block_n, whole_n)
    dp = tl.dot(do, tl.trans(v))
    _store_scores(dp_ptr, dp, first_row, key, left, seqlen_k - key, pitch, block_m, block_n, whole_m and whole_n)


@triton.jit
def grad_scores_kernel(
    p_ptr, dp_ptr, delta_ptr, ds_ptr, seqlen_q, seqlen_k, pitch, scale,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, block_m: tl.constexpr,
    block_n: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr,
):  # fmt: skip
    """A tile of dS = P (dP - delta) scale."""
    slab, row, key = _place(seqlen_q, seqlen_k, block_m, block_n)
    first_row, left = slab.to(tl.int64) * seqlen_q + row, seqlen_q - row
    whole: tl.constexpr = whole_m and whole_n
    p = _load_scores(p_ptr, first_row, key, left, seqlen_k - key, pitch, block_m, block_n, whole).to(tl.float32)
    dp = _load_scores(dp_ptr, first_row, key, left, seqlen_k - key, pitch, block_m, block_n, whole).to(tl.float32)
    delta = load_numbers(delta_ptr, first_row, left, 0.0, block_m, whole_m)
    ds = p * (dp - delta[:, None]) * scale
    _store_scores(ds_ptr, ds, first_row, key, left, seqlen_k - key, pitch, block_m, block_n, whole)


@triton.jit
def transposed_product_kernel(
    a_ptr, b_ptr, out_ptr, seqlen_q, seqlen_k, pitch,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, block_m: tl.constexpr,
    block_n: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr,
):  # fmt: skip
    """A key tile of A^T B, summed over the heads of a group: dV = P^T dO or dK = dS^T Q."""
    k_tiles, q_tiles = tl.cdiv(seqlen_k, block_n), tl.cdiv(seqlen_q, block_m)
    kv_slab, key = tl.program_id(0) // k_tiles, (tl.program_id(0) % k_tiles) * block_n
    acc = tl.zeros((block_n, padded_dim), tl.float32)
    # One loop over the heads and their query tiles, so that loads run ahead across heads.
    for item in tl.range(0, head_group * q_tiles):
        slab, row = kv_slab * head_group + item // q_tiles, (item % q_tiles) * block_m
        first_row, left = slab.to(tl.int64) * seqlen_q + row, seqlen_q - row
        a = _load_scores(a_ptr, first_row, key, left, seqlen_k - key, pitch, block_m, block_n, whole_m and whole_n)
        b = load_rows(b_ptr, first_row, left, head_dim, padded_dim, block_m, whole_m)
        acc = tl.dot(tl.trans(a), b, acc)
    first_key = kv_slab.to(tl.int64) * seqlen_k + key
    store_rows(out_ptr, acc, first_key, seqlen_k - key, head_dim, padded_dim, block_n, whole_n)


@triton.jit
def _place(seqlen_q, seqlen_k, block_m: tl.constexpr, block_n: tl.constexpr):
    """Head, first row and first key of a CTA's tile."""
    q_tiles, k_tiles = tl.cdiv(seqlen_q, block_m), tl.cdiv(seqlen_k, block_n)
    strip = tl.program_id(0) // k_tiles
    return strip // q_tiles, (strip % q_tiles) * block_m, (tl.program_id(0) % k_tiles) * block_n


@triton.jit
def _scores_tile(ptr, first_row, key, rows_left, keys_left, pitch, block_m: tl.constexpr, block_n: tl.constexpr):
    """Pointers of a tile of an M x N matrix, and which of them lie inside."""
    rows, keys = tl.arange(0, block_m), tl.arange(0, block_n)
    tile_ptr = ptr + first_row * pitch + key + (rows.to(tl.int64)[:, None] * pitch + keys[None, :])
    return tile_ptr, (rows < rows_left)[:, None] & (keys < keys_left)[None, :]


@triton.jit
def _load_scores(
    ptr, first_row, key, rows_left, keys_left, pitch, block_m: tl.constexpr, block_n: tl.constexpr, whole: tl.constexpr
):
    tile_ptr, inside = _scores_tile(ptr, first_row, key, rows_left, keys_left, pitch, block_m, block_n)
    if whole:
        tile = tl.load(tile_ptr)
    else:
        tile = tl.load(tile_ptr, mask=inside, other=0.0)
    return tile


@triton.jit
def _store_scores(
    ptr, tile, first_row, key, rows_left, keys_left, pitch,
    block_m: tl.constexpr, block_n: tl.constexpr, whole: tl.constexpr,
):  # fmt: skip
    tile_ptr, inside = _scores_tile(ptr, first_row, key, rows_left, keys_left, pitch, block_m, block_n)
    tile = tile.to(ptr.dtype.element_ty)
    if whole:
        tl.store(tile_ptr, tile)
    else:
        tl.store(tile_ptr, tile, mask=inside)
