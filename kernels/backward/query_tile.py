"""dQ in Triton by a kernel of its own: a CTA takes a query tile, and key tiles stream past it."""

import triton
import triton.language as tl

from ..launch.numbers import LOG2_E
from ..query_tile import key_tiles
from .tiles import gradient_of_scores, load_numbers, load_rows, store_rows, visible


@triton.jit
def query_gradients_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, seqlen_q, seqlen_k, scale, scale_log2,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, block_m: tl.constexpr,
    block_n: tl.constexpr, causal: tl.constexpr, window: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr,
):  # fmt: skip
    """Gradient dQ of a query tile, the last tiles first, whose causal rows are the longest. Shapes as in `key_tile`."""
    q_tiles = tl.cdiv(seqlen_q, block_m)
    slab, q_tile = tl.program_id(0) // q_tiles, q_tiles - 1 - tl.program_id(0) % q_tiles
    row = q_tile * block_m
    # Positions in device memory need 64 bits, positions inside a tile do not.
    first_row, left = slab.to(tl.int64) * seqlen_q + row, seqlen_q - row
    q = load_rows(q_ptr, first_row, left, head_dim, padded_dim, block_m, whole_m)
    do = load_rows(do_ptr, first_row, left, head_dim, padded_dim, block_m, whole_m)
    lse_log2 = load_numbers(lse_ptr, first_row, left, float("inf"), block_m, whole_m) * LOG2_E
    delta = load_numbers(delta_ptr, first_row, left, 0.0, block_m, whole_m)
    window_first, edge, _, first, unmasked, masked_first, masked = key_tiles(
        row, q_tile, seqlen_q, seqlen_k, block_m, block_n, "forward", causal, whole_n, window
    )
    first_key = (slab // head_group).to(tl.int64) * seqlen_k
    place = row + tl.arange(0, block_m) + seqlen_k - seqlen_q
    dq = tl.zeros((block_m, padded_dim), tl.float32)
    if window:
        dq = _stream(
            dq, q, do, lse_log2, delta, k_ptr, v_ptr, first_key, window_first, window_first + edge, place, seqlen_k,
            scale_log2, head_dim, padded_dim, block_n, causal, window, whole_n, True,
        )  # fmt: skip
    dq = _stream(
        dq, q, do, lse_log2, delta, k_ptr, v_ptr, first_key, first, first + unmasked, place, seqlen_k,
        scale_log2, head_dim, padded_dim, block_n, causal, window, whole_n, False,
    )  # fmt: skip
    if causal or not whole_n:
        dq = _stream(
            dq, q, do, lse_log2, delta, k_ptr, v_ptr, first_key, masked_first, masked_first + masked, place, seqlen_k,
            scale_log2, head_dim, padded_dim, block_n, causal, window, whole_n, True,
        )  # fmt: skip
    store_rows(dq_ptr, dq * scale, first_row, left, head_dim, padded_dim, block_m, whole_m)


@triton.jit
def _stream(
    dq, q, do, lse_log2, delta, k_ptr, v_ptr, first_key, first, end, place, seqlen_k, scale_log2,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, block_n: tl.constexpr, causal: tl.constexpr,
    window: tl.constexpr, whole_n: tl.constexpr, masked: tl.constexpr,
):  # fmt: skip
    """Key tiles from `first` to `end`: S = Q K^T, dP = dO V^T, dQ += dS K."""
    # Tiles that need no mask lie before the last key.
    whole: tl.constexpr = whole_n or not masked
    for k_tile in tl.range(first, end):
        key = k_tile * block_n
        k = load_rows(k_ptr, first_key + key, seqlen_k - key, head_dim, padded_dim, block_n, whole)
        scores = tl.dot(q, tl.trans(k))
        v = load_rows(v_ptr, first_key + key, seqlen_k - key, head_dim, padded_dim, block_n, whole)
        grad_p = tl.dot(do, tl.trans(v))
        seen = visible(place[:, None], (key + tl.arange(0, block_n))[None, :], seqlen_k, causal, window)
        _, ds = gradient_of_scores(scores, grad_p, lse_log2[:, None], delta[:, None], seen, scale_log2, masked)
        dq = tl.dot(ds.to(k.dtype), k, dq)
    return dq
