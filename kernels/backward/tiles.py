"""Tiles of rows in and out, and which query tiles see a key tile, in Triton: what all backward kernels begin with.

A tile is `block` rows of a matrix of `head_dim` columns; rows past the matrix's last, and columns up to `padded_dim`,
load as 0. P and dS come from tiles of S and dP the same way in all fused kernels: `gradient_of_scores`.
"""

import triton
import triton.language as tl


@triton.jit
def load_rows(
    ptr, first, left, head_dim: tl.constexpr, padded_dim: tl.constexpr, block: tl.constexpr, whole: tl.constexpr
):
    """Rows first, first + 1, ... (64 bits) of a matrix whose end is `left` rows on; whole: whether it fills tiles."""
    rows, dims = tl.arange(0, block), tl.arange(0, padded_dim)
    tile_ptr = ptr + first * head_dim + (rows[:, None] * head_dim + dims[None, :])
    if whole and head_dim == padded_dim:
        tile = tl.load(tile_ptr)
    else:
        tile = tl.load(tile_ptr, mask=(rows < left)[:, None] & (dims < head_dim)[None, :], other=0.0)
    return tile


@triton.jit
def store_rows(
    ptr, tile, first, left, head_dim: tl.constexpr, padded_dim: tl.constexpr, block: tl.constexpr, whole: tl.constexpr
):
    """Store a tile of rows in the type of the matrix; arguments as of `load_rows`."""
    rows, dims = tl.arange(0, block), tl.arange(0, padded_dim)
    tile_ptr = ptr + first * head_dim + (rows[:, None] * head_dim + dims[None, :])
    tile = tile.to(ptr.dtype.element_ty)
    if whole and head_dim == padded_dim:
        tl.store(tile_ptr, tile)
    else:
        tl.store(tile_ptr, tile, mask=(rows < left)[:, None] & (dims < head_dim)[None, :])


@triton.jit
def load_numbers(ptr, first, left, other: tl.constexpr, block: tl.constexpr, whole: tl.constexpr):
    """One number a row; `other` for rows past the last."""
    rows = tl.arange(0, block)
    if whole:
        numbers = tl.load(ptr + first + rows)
    else:
        numbers = tl.load(ptr + first + rows, mask=rows < left, other=other)
    return numbers


@triton.jit
def visible(row, key, seqlen_k, causal: tl.constexpr, window: tl.constexpr):
    """Which keys rows see; row: each one's place among the keys (that of its last key); both of shapes that fit."""
    if causal:
        # Rows of the problem see no key at or past N, so this mask clips a ragged end as well.
        seen = key <= row
        if window:
            seen = seen & (key > row - window)
    else:
        seen = key < seqlen_k + 0 * row
    return seen


@triton.jit
def gradient_of_scores(scores, grad_p, lse_log2, delta, seen, scale_log2, masked: tl.constexpr):
    """P = 2^(S scale log2(e) - LSE log2(e)), and dS = P (dP - delta), without the scale of the scores.

    A row past the last has LSE = inf, and P = 0; a row that sees no key has LSE = -inf, and is masked.
    """
    p = tl.exp2(scores * scale_log2 - lse_log2)
    if masked:
        p = tl.where(seen, p, 0.0)
    return p, p * (grad_p - delta)


@triton.jit
def query_tiles(
    key, seqlen_q, seqlen_k, block_m: tl.constexpr, block_n: tl.constexpr, causal: tl.constexpr,
    whole_n: tl.constexpr, window: tl.constexpr,
):  # fmt: skip
    """The query tiles that see a key tile: their first, the first and the end of those that need no mask, their end.

    key: the first of the key tile.
    """
    end = tl.cdiv(seqlen_q, block_m)
    first, full_first, full_end = end * 0, end * 0, end
    if causal:
        offset = seqlen_k - seqlen_q
        last = tl.minimum(key + block_n, seqlen_k) - 1
        first = tl.minimum(tl.maximum(key - offset, 0), seqlen_q) // block_m
        if window:
            end = tl.cdiv(tl.minimum(tl.maximum(last + window - offset, 0), seqlen_q), block_m)
            end = tl.maximum(end, first)
            full_end = tl.minimum(tl.maximum(key + window - offset, 0), seqlen_q) // block_m
        full_first = tl.minimum(tl.cdiv(tl.maximum(last - offset, 0), block_m), end)
        full_end = tl.minimum(tl.maximum(full_end, full_first), end)
    if not whole_n:
        clipped = key + block_n > seqlen_k
        full_first, full_end = tl.where(clipped, end, full_first), tl.where(clipped, end, full_end)
    return first, full_first, full_end, end


@triton.jit
def first_key_tile(row, seqlen_q, seqlen_k, block_n: tl.constexpr, window: tl.constexpr):
    """The first key tile that sees a query tile. Args: row: the query tile's first."""
    if window:
        tile = tl.maximum(row + 1 + seqlen_k - seqlen_q - window, 0) // block_n
    else:
        tile = row * 0
    return tile
