"""What kernels share in which a CTA keeps a query tile on chip, and keys stream past it: `flash2` and `flash2_tma`.

Where an item stands, which key tiles it needs, the online softmax of a tile of scores, and the end.

Exponentials are powers of two: exp(x * scale - max) = 2^(x * scale * log2(e) - max'), one FMA and one EX2 an element,
with the running maximum max' kept in units of log2.
"""

import triton
import triton.language as tl

from .launch.numbers import LN_2, LOG2_E


@triton.jit
def place(item, seqlen_q, slabs, block_m: tl.constexpr, cta_order: tl.constexpr):
    """Head and query tile of an item."""
    q_tiles = tl.cdiv(seqlen_q, block_m)
    if cta_order == "m-fast" or cta_order == "m-reversed":
        slab, q_tile = item // q_tiles, item % q_tiles
    else:
        slab, q_tile = item % slabs, item // slabs
    if cta_order == "m-reversed" or cta_order == "longest-first":
        q_tile = q_tiles - 1 - q_tile
    return slab, q_tile


@triton.jit
def key_tiles(
    row, q_tile, seqlen_q, seqlen_k, block_m: tl.constexpr, block_n: tl.constexpr,
    kv_order: tl.constexpr, causal: tl.constexpr, whole_n: tl.constexpr, window: tl.constexpr,
):  # fmt: skip
    """First key tile and number of tiles: at a window's edge, (the step between tiles,) without a mask, with a mask."""
    if window:
        offset = seqlen_k - seqlen_q
        seen = tl.minimum(tl.maximum(row + 1 + offset, 0), seqlen_k)
        reach = tl.minimum(tl.maximum(row + block_m + offset, 0), seqlen_k)
        start = tl.maximum(seen - window, 0) // block_n
        needed = tl.maximum(tl.cdiv(reach, block_n), start)
        full_first = tl.minimum(tl.cdiv(tl.maximum(reach - window, 0), block_n), needed)
        full_end = tl.maximum(seen // block_n, start)
        none = full_end <= full_first
        full_first, full_end = tl.where(none, start, full_first), tl.where(none, start, full_end)
        if kv_order == "sawtooth":
            # One loop walks all tiles, so that backwards means backwards.
            step = 1 - 2 * (q_tile % 2)
            first = tl.where(step < 0, needed - 1, start)
            whole = (full_first == start) & (full_end == needed)
            unmasked = tl.where(whole, needed - start, 0)
            return start, 0, step, first, unmasked, first, needed - start - unmasked
        return start, full_first - start, 1, full_first, full_end - full_first, full_end, needed - full_end
    # Key tiles below `unmasked` are seen by all rows of the tile, those from `needed` on by none.
    if causal:
        offset = seqlen_k - seqlen_q
        unmasked = tl.minimum(tl.maximum(row + 1 + offset, 0), seqlen_k) // block_n
        needed = tl.cdiv(tl.minimum(tl.maximum(row + block_m + offset, 0), seqlen_k), block_n)
    else:
        unmasked, needed = seqlen_k // block_n, tl.cdiv(seqlen_k, block_n)
    if kv_order == "sawtooth":
        step = 1 - 2 * (q_tile % 2)
        first = tl.where(step < 0, needed - 1, 0)
        masked_first = first
        if causal or not whole_n:
            # One loop walks all tiles, so that backwards means backwards.
            unmasked = tl.where(unmasked == needed, needed, 0)
    else:
        step, first, masked_first = 1, 0, unmasked
    return 0, 0, step, first, unmasked, masked_first, needed - unmasked


@triton.jit
def capped(scores, scale_log2, softcap):
    """Scores with a cap on them, where there is one, and what they are to be scaled by then."""
    if softcap is not None:
        # tanh(x) = 1 - 2 / (1 + exp(2x)): large exponentials end at 1 and -1, and not in a NaN.
        scores = 1.0 - 2.0 / (1.0 + tl.exp2(scores * (2.0 * scale_log2 / softcap)))
        scale_log2 = softcap * LOG2_E
    return scores, scale_log2


@triton.jit
def online_softmax(
    scores, acc, row_sum, row_max, key, last_key, seqlen_k, scale_log2, block_n: tl.constexpr, causal: tl.constexpr,
    masked: tl.constexpr, guarded: tl.constexpr, p_log2: tl.constexpr, window: tl.constexpr,
):  # fmt: skip
    """P of a tile of scores, times 2^p_log2; O, sum and maximum brought up to the rows' new maximum."""
    if masked:
        keys = key + tl.arange(0, block_n)
        if causal:
            # Rows of the problem see no key at or past N, so this mask clips a ragged end as well.
            visible = keys[None, :] <= last_key[:, None]
            if window:
                visible = visible & (keys[None, :] > last_key[:, None] - window)
        else:
            visible = (keys < seqlen_k)[None, :]
        scores = tl.where(visible, scores, float("-inf"))
    new_max = tl.maximum(row_max, tl.max(scores, 1) * scale_log2)
    if guarded:
        # A row that has seen no key yet would compute -inf - (-inf).
        finite_max = tl.where(new_max == float("-inf"), 0.0, new_max)
    else:
        finite_max = new_max
    if p_log2 == 0:
        p = tl.exp2(scores * scale_log2 - finite_max[:, None])
    else:
        p = tl.exp2(scores * scale_log2 - (finite_max - p_log2)[:, None])
    alpha = tl.exp2(row_max - finite_max)
    row_sum = row_sum * alpha + tl.sum(p, 1)
    return p, acc * alpha[:, None], row_sum, new_max


@triton.jit
def finish(
    o_ptr, lse_ptr, acc, row_sum, row_max, first_row, rows_left, head_dim: tl.constexpr, padded_dim: tl.constexpr,
    block_m: tl.constexpr, whole_m: tl.constexpr, guarded: tl.constexpr, p_log2: tl.constexpr,
):  # fmt: skip
    """Store O = acc / sum and LSE of a query tile; both factors 2^p_log2 of O cancel."""
    if guarded:
        # A row that sees no key has the sum 0: its output is 0, its LSE -inf. A NaN is not 0, and stays in both.
        seen = row_sum != 0.0
        divisor = tl.where(seen, row_sum, 1.0)
        lse = tl.where(seen, (row_max - p_log2 + tl.log2(divisor)) * LN_2, float("-inf"))
    else:
        divisor = row_sum
        lse = (row_max - p_log2 + tl.log2(row_sum)) * LN_2
    o = (acc * (1.0 / divisor)[:, None]).to(o_ptr.dtype.element_ty)
    rows, dims = tl.arange(0, block_m), tl.arange(0, padded_dim)
    o_tile_ptr = o_ptr + first_row * head_dim + (rows[:, None] * head_dim + dims[None, :])
    lse_tile_ptr = lse_ptr + first_row + rows
    if whole_m and head_dim == padded_dim:
        tl.store(o_tile_ptr, o)
    else:
        tl.store(o_tile_ptr, o, mask=(rows < rows_left)[:, None] & (dims < head_dim)[None, :])
    if whole_m:
        tl.store(lse_tile_ptr, lse)
    else:
        tl.store(lse_tile_ptr, lse, mask=rows < rows_left)
