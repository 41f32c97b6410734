"""dK and dV in Triton: a CTA takes a key tile, for all heads of its group, and query tiles stream past it.

Products are of transposed tiles, S^T = K Q^T and dP^T = V dO^T, so that P^T and dS^T are operands in registers.
The one-pass form multiplies dS K here, too, and adds it to the query tile's sum in L2: five products, where a kernel
of its own for dQ makes seven. Atomic additions end in any order, and so do the last bits of dQ; in the `ordered`
form a key tile waits until those before it have added theirs, and dQ has the same bits each time.

It cannot come to a deadlock on a GPU that starts CTAs in the order of their numbers: a key tile waits for smaller
numbers alone, so that the smallest that has not ended waits for nobody, and runs. CUDA promises no such order; all
GPUs so far keep it, and FlashAttention relies on it as well.
"""

import triton
import triton.language as tl

from ..launch.numbers import LOG2_E
from .tiles import first_key_tile, gradient_of_scores, load_numbers, load_rows, query_tiles, store_rows, visible


@triton.jit
def key_gradients_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, seqlen_q, seqlen_k, scale, scale_log2,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, block_m: tl.constexpr,
    block_n: tl.constexpr, causal: tl.constexpr, window: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr,
):  # fmt: skip
    """Gradients of a key tile. Shapes: Q, dO (slabs, M, D); K, V (slabs / group, N, D); LSE, delta (slabs, M)."""
    _key_tile(
        q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, None, None, seqlen_q, seqlen_k, scale,
        scale_log2, head_dim, padded_dim, head_group, block_m, block_n, causal, window, whole_m, whole_n, False, False,
    )  # fmt: skip


@triton.jit
def gradients_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, dq_sum_ptr, seqlen_q, seqlen_k, scale, scale_log2,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, block_m: tl.constexpr,
    block_n: tl.constexpr, causal: tl.constexpr, window: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr,
):  # fmt: skip
    """The same, and the key tile's part of dQ / scale, added to dQ_sum (slabs, M, D) in fp32, in any order."""
    _key_tile(
        q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, dq_sum_ptr, None, seqlen_q, seqlen_k, scale,
        scale_log2, head_dim, padded_dim, head_group, block_m, block_n, causal, window, whole_m, whole_n, True, False,
    )  # fmt: skip


@triton.jit
def ordered_gradients_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, dq_sum_ptr, turn_ptr,
    seqlen_q, seqlen_k, scale, scale_log2,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, block_m: tl.constexpr,
    block_n: tl.constexpr, causal: tl.constexpr, window: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr,
):  # fmt: skip
    """The same in the order of the key tiles; turn (slabs, query tiles) counts those that have added theirs."""
    _key_tile(
        q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, dq_sum_ptr, turn_ptr, seqlen_q, seqlen_k,
        scale, scale_log2,
        head_dim, padded_dim, head_group, block_m, block_n, causal, window, whole_m, whole_n, True, True,
    )  # fmt: skip


@triton.jit
def _key_tile(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, dq_sum_ptr, turn_ptr, seqlen_q, seqlen_k, scale,
    scale_log2, head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, block_m: tl.constexpr,
    block_n: tl.constexpr, causal: tl.constexpr, window: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr,
    one_pass: tl.constexpr, ordered: tl.constexpr,
):  # fmt: skip
    k_tiles = tl.cdiv(seqlen_k, block_n)
    kv_slab, key = tl.program_id(0) // k_tiles, (tl.program_id(0) % k_tiles) * block_n
    # Positions in device memory need 64 bits, positions inside a tile do not.
    first_key = kv_slab.to(tl.int64) * seqlen_k + key
    k = load_rows(k_ptr, first_key, seqlen_k - key, head_dim, padded_dim, block_n, whole_n)
    v = load_rows(v_ptr, first_key, seqlen_k - key, head_dim, padded_dim, block_n, whole_n)
    first, full_first, full_end, end = query_tiles(key, seqlen_q, seqlen_k, block_m, block_n, causal, whole_n, window)
    dk = tl.zeros((block_n, padded_dim), tl.float32)
    dv = tl.zeros((block_n, padded_dim), tl.float32)
    if causal or not whole_n:
        dk, dv = _stream(
            dk, dv, k, v, q_ptr, do_ptr, lse_ptr, delta_ptr, dq_sum_ptr, turn_ptr, kv_slab, key, first, full_first,
            seqlen_q, seqlen_k, scale_log2, head_dim, padded_dim, head_group, block_m, block_n, causal, window,
            whole_m, True, one_pass, ordered,
        )  # fmt: skip
    dk, dv = _stream(
        dk, dv, k, v, q_ptr, do_ptr, lse_ptr, delta_ptr, dq_sum_ptr, turn_ptr, kv_slab, key, full_first, full_end,
        seqlen_q, seqlen_k, scale_log2, head_dim, padded_dim, head_group, block_m, block_n, causal, window,
        whole_m, False, one_pass, ordered,
    )  # fmt: skip
    if window:
        dk, dv = _stream(
            dk, dv, k, v, q_ptr, do_ptr, lse_ptr, delta_ptr, dq_sum_ptr, turn_ptr, kv_slab, key, full_end, end,
            seqlen_q, seqlen_k, scale_log2, head_dim, padded_dim, head_group, block_m, block_n, causal, window,
            whole_m, True, one_pass, ordered,
        )  # fmt: skip
    store_rows(dk_ptr, dk * scale, first_key, seqlen_k - key, head_dim, padded_dim, block_n, whole_n)
    store_rows(dv_ptr, dv, first_key, seqlen_k - key, head_dim, padded_dim, block_n, whole_n)


@triton.jit
def _stream(
    dk, dv, k, v, q_ptr, do_ptr, lse_ptr, delta_ptr, dq_sum_ptr, turn_ptr, kv_slab, key, first, end,
    seqlen_q, seqlen_k, scale_log2, head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr,
    block_m: tl.constexpr, block_n: tl.constexpr, causal: tl.constexpr, window: tl.constexpr,
    whole_m: tl.constexpr, masked: tl.constexpr, one_pass: tl.constexpr, ordered: tl.constexpr,
):  # fmt: skip
    """Query tiles from `first` to `end` of a group: dV += P^T dO, dK += dS^T Q, and dQ += dS K in one pass."""
    rows, keys = tl.arange(0, block_m), key + tl.arange(0, block_n)
    # One loop over heads and their query tiles, so that loads run ahead across heads.
    tiles = tl.maximum(end - first, 1)
    for item in tl.range(0, head_group * (end - first)):
        if head_group == 1:
            slab, q_tile = kv_slab, first + item
        else:
            slab, q_tile = kv_slab * head_group + item // tiles, first + item % tiles
        row = q_tile * block_m
        first_row, left = slab.to(tl.int64) * seqlen_q + row, seqlen_q - row
        q = load_rows(q_ptr, first_row, left, head_dim, padded_dim, block_m, whole_m)
        lse = load_numbers(lse_ptr, first_row, left, float("inf"), block_m, whole_m)
        scores = tl.dot(k, tl.trans(q))
        do = load_rows(do_ptr, first_row, left, head_dim, padded_dim, block_m, whole_m)
        grad_p = tl.dot(v, tl.trans(do))
        delta = load_numbers(delta_ptr, first_row, left, 0.0, block_m, whole_m)
        seen = visible((row + rows + seqlen_k - seqlen_q)[None, :], keys[:, None], seqlen_k, causal, window)
        p, ds = gradient_of_scores(scores, grad_p, lse[None, :] * LOG2_E, delta[None, :], seen, scale_log2, masked)
        dv = tl.dot(p.to(do.dtype), do, dv)
        ds = ds.to(q.dtype)
        dk = tl.dot(ds, q, dk)
        if one_pass:
            turn = turn_ptr
            if ordered:
                turn += slab * tl.cdiv(seqlen_q, block_m) + q_tile
                before = key // block_n - first_key_tile(row, seqlen_q, seqlen_k, block_n, window)
                while tl.atomic_add(turn, 0, sem="acquire") < before:
                    pass
            _add_rows(dq_sum_ptr, tl.dot(tl.trans(ds), k), first_row, left, head_dim, padded_dim, block_m, whole_m)
            if ordered:
                # All threads have added theirs before one lets the next CTA on.
                tl.debug_barrier()
                tl.atomic_add(turn, 1, sem="release")
    return dk, dv


@triton.jit
def _add_rows(
    ptr, tile, first, left, head_dim: tl.constexpr, padded_dim: tl.constexpr, block: tl.constexpr, whole: tl.constexpr
):
    """Add a tile to rows in L2; arguments as of `load_rows`."""
    rows, dims = tl.arange(0, block), tl.arange(0, padded_dim)
    tile_ptr = ptr + first * head_dim + (rows[:, None] * head_dim + dims[None, :])
    if whole and head_dim == padded_dim:
        tl.atomic_add(tile_ptr, tile, sem="relaxed")
    else:
        tl.atomic_add(tile_ptr, tile, mask=(rows < left)[:, None] & (dims < head_dim)[None, :], sem="relaxed")
