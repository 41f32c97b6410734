"""Attention of few queries over a long cache in Triton: the kernels of `simulator/schedules/decode/flash_decode.py`.

Row r of a KV head is query r // group of head r % group of its group, so that rows of a query share its mask. All are
one tile; or several, where they are more: the launches of `simulator/schedules/decode/chunked_flash.py`.
"""

import torch
import triton
import triton.language as tl

from ..simulator.device.device import Device
from ..simulator.problems.attention import AttentionProblem
from ..simulator.schedules.config import Config
from .decode.call import MERGE, decoded, table_of
from .decode.splits import tile_place
from .launch.launch import TORCH_DTYPES, check_sinks, problem_of, twin_of
from .launch.numbers import LN_2, LOG2_E
from .query_tile import capped, online_softmax


@triton.jit
def flash_decode_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, sinks_ptr, seqlen_q, seqlen_k, scale_log2, v_scale, softcap,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, kv_heads: tl.constexpr, head_group: tl.constexpr,
    tile_rows: tl.constexpr, block_n: tl.constexpr, causal: tl.constexpr, window: tl.constexpr, whole_n: tl.constexpr,
    p_log2: tl.constexpr, quantised: tl.constexpr, merged: tl.constexpr, tiled: tl.constexpr,
):  # fmt: skip
    """A split of the keys of a KV head. Shapes: Q, O (B * H, M, D); K, V (B * G, N, D); LSE (B * H, M).

    Args: sinks_ptr: a logit of each of the H heads, softcap: of scores; None where there are none.
    Of several splits O and LSE are those of this one: (B * G, splits, rows, D) and (B * G, splits, rows), LSE in log2.
    """
    _split(
        q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, sinks_ptr, q_ptr, seqlen_q, seqlen_k, scale_log2, v_scale, softcap,
        head_dim, padded_dim, kv_heads, head_group, tile_rows, block_n, causal, window, whole_n,
        p_log2, 0, quantised, merged, tiled, tl.num_programs(0), False,
    )  # fmt: skip


@triton.jit
def flash_decode_cache_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, o_ptr, lse_ptr, sinks_ptr, seqlen_q, seqlen_k, table_width, scale_log2, v_scale,
    softcap,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, kv_heads: tl.constexpr, head_group: tl.constexpr,
    tile_rows: tl.constexpr, block_n: tl.constexpr, causal: tl.constexpr, window: tl.constexpr, whole_n: tl.constexpr,
    p_log2: tl.constexpr, page: tl.constexpr, quantised: tl.constexpr, merged: tl.constexpr, tiled: tl.constexpr,
    own_splits: tl.constexpr,
):  # fmt: skip
    """The same of sequences in a cache: TABLE (B, width) has the keys of each, and then its pages.

    In pages K and V are (pages, page, G, D); without pages (page = 0) as above, N of the longest sequence.
    With own_splits each sequence's splits stand before its keys, and CTAs beyond them leave.
    """
    sequence_ptr = table_ptr + (tl.program_id(1) // kv_heads) * table_width
    shares = tl.num_programs(0)
    if own_splits:
        shares = tl.load(sequence_ptr)
        sequence_ptr += 1
        if tiled:
            shares *= tl.cdiv(head_group * seqlen_q, tile_rows)
        if tl.program_id(0) >= shares:
            return
    _split(
        q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, sinks_ptr, sequence_ptr, seqlen_q, seqlen_k, scale_log2, v_scale, softcap,
        head_dim, padded_dim, kv_heads, head_group, tile_rows, block_n, causal, window, whole_n,
        p_log2, page, quantised, merged, tiled, shares, True,
    )  # fmt: skip


@triton.jit
def _split(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, sinks_ptr, sequence_ptr, seqlen_q, most_keys, scale_log2, v_scale, softcap,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, kv_heads: tl.constexpr, head_group: tl.constexpr,
    tile_rows: tl.constexpr, block_n: tl.constexpr, causal: tl.constexpr, window: tl.constexpr, whole_n: tl.constexpr,
    p_log2: tl.constexpr, page: tl.constexpr, quantised: tl.constexpr, merged: tl.constexpr, tiled: tl.constexpr,
    shares, cached: tl.constexpr,
):  # fmt: skip
    """Both.

    Args: sequence_ptr: row of the table; most_keys: of any sequence; tiled: whether CTAs share rows; shares: CTAs that
    this sequence's keys and rows of a KV head are shared among.
    """
    split, splits, kv_slab = tl.program_id(0), tl.num_programs(0), tl.program_id(1)
    if cached:
        seqlen_k = tl.load(sequence_ptr)
    else:
        seqlen_k = most_keys
    rows, dims = tl.arange(0, tile_rows), tl.arange(0, padded_dim)
    if tiled:
        tiles = tl.cdiv(head_group * seqlen_q, tile_rows)
        first_row = split % tiles * tile_rows
        split, splits, shares, rows = split // tiles, splits // tiles, shares // tiles, first_row + rows
    inside = rows < head_group * seqlen_q
    query = rows // head_group
    row = (kv_slab.to(tl.int64) * head_group + rows % head_group) * seqlen_q + query
    inside_tile = inside[:, None] & (dims < head_dim)[None, :]
    q = tl.load(q_ptr + row[:, None] * head_dim + dims[None, :], mask=inside_tile, other=0.0)

    # Key tiles: from `start` on any query sees some, from `full` on all see all, from `torn` on not all, until `end`.
    start, full = 0, 0
    torn, end = seqlen_k // block_n, tl.cdiv(seqlen_k, block_n)
    if causal:
        # Keys that the first and the last row of the tile see.
        fewest, most = seqlen_k - seqlen_q + 1, seqlen_k
        if tiled:
            most = tl.minimum((first_row + tile_rows - 1) // head_group, seqlen_q - 1) + fewest
            fewest += first_row // head_group
            end = tl.cdiv(tl.maximum(most, 0), block_n)
        torn = tl.maximum(fewest, 0) // block_n
        if window:
            start = tl.maximum(fewest - window, 0) // block_n
            full = tl.minimum(tl.cdiv(tl.maximum(most - window, 0), block_n), end)
            torn = tl.maximum(torn, full)
    first = start + (end - start) * split // shares
    last = start + (end - start) * (split + 1) // shares

    last_key = query + (seqlen_k - seqlen_q)
    acc = tl.zeros((tile_rows, padded_dim), tl.float32)
    row_sum = tl.zeros((tile_rows,), tl.float32)
    row_max = tl.full((tile_rows,), float("-inf"), tl.float32)
    if sinks_ptr is not None:
        # A sink is a key without a value, of the first split: the rows begin with it.
        sink = tl.load(sinks_ptr + (kv_slab % kv_heads) * head_group + rows % head_group) * LOG2_E
        row_max = tl.where(split == 0, sink, row_max)
        row_sum = tl.where(split == 0, (1 << p_log2) + row_sum, row_sum)
    if window:
        acc, row_sum, row_max = _stream(
            acc, row_sum, row_max, q, k_ptr, v_ptr, sequence_ptr, kv_slab, first, tl.minimum(last, full), last_key,
            most_keys, seqlen_k, scale_log2, softcap, head_dim, padded_dim, kv_heads, block_n, causal, True, whole_n,
            p_log2, window, page, quantised,
        )  # fmt: skip
    acc, row_sum, row_max = _stream(
        acc, row_sum, row_max, q, k_ptr, v_ptr, sequence_ptr, kv_slab, tl.maximum(first, full), tl.minimum(last, torn),
        last_key, most_keys, seqlen_k, scale_log2, softcap, head_dim, padded_dim, kv_heads, block_n, causal, False,
        whole_n, p_log2, window, page, quantised,
    )  # fmt: skip
    if causal or not whole_n:
        acc, row_sum, row_max = _stream(
            acc, row_sum, row_max, q, k_ptr, v_ptr, sequence_ptr, kv_slab, tl.maximum(first, torn), last, last_key,
            most_keys, seqlen_k, scale_log2, softcap, head_dim, padded_dim, kv_heads, block_n, causal, True, whole_n,
            p_log2, window, page, quantised,
        )  # fmt: skip

    # A row that sees no key of the split has the sum 0: its output is 0, its LSE -inf. A NaN is not 0, and stays.
    seen = row_sum != 0.0
    divisor = tl.where(seen, row_sum, 1.0)
    lse = tl.where(seen, row_max - p_log2 + tl.log2(divisor), float("-inf"))
    if merged:
        row = (kv_slab.to(tl.int64) * splits + split) * (head_group * seqlen_q) + rows
    else:
        lse = lse * LN_2
    o = (acc * (v_scale / divisor)[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + row[:, None] * head_dim + dims[None, :], o, mask=inside_tile)
    tl.store(lse_ptr + row, lse, mask=inside)


@triton.jit
def _stream(
    acc, row_sum, row_max, q, k_ptr, v_ptr, sequence_ptr, kv_slab, first, last, last_key, most_keys, seqlen_k,
    scale_log2, softcap, head_dim: tl.constexpr, padded_dim: tl.constexpr, kv_heads: tl.constexpr,
    block_n: tl.constexpr, causal: tl.constexpr, masked: tl.constexpr, whole_n: tl.constexpr, p_log2: tl.constexpr,
    window: tl.constexpr, page: tl.constexpr, quantised: tl.constexpr,
):  # fmt: skip
    """Key tiles from the first to before the last: S = Q K^T, online softmax, O = O * alpha + P V."""
    places, dims = tl.arange(0, block_n), tl.arange(0, padded_dim)
    clipped: tl.constexpr = masked and not whole_n
    padded: tl.constexpr = head_dim != padded_dim
    for tile in tl.range(first, last):
        key = tile * block_n
        keys = key + places
        inside = dims[None, :] < head_dim
        if clipped:
            inside = (keys < seqlen_k)[:, None] & inside
        row, rows = tile_place(
            sequence_ptr, kv_slab, key, most_keys, seqlen_k, kv_heads, block_n, page, clipped,
        )  # fmt: skip
        offsets = rows[:, None] * head_dim + dims[None, :]
        k_tile_ptr, v_tile_ptr = k_ptr + row * head_dim + offsets, v_ptr + row * head_dim + offsets
        if clipped or padded:
            k = tl.load(k_tile_ptr, mask=inside, other=0.0)
        else:
            k = tl.load(k_tile_ptr)
        if quantised:
            k = k.to(q.dtype)
        scores, scale = capped(tl.dot(q, tl.trans(k)), scale_log2, softcap)
        p, acc, row_sum, row_max = online_softmax(
            scores, acc, row_sum, row_max, key, last_key, seqlen_k, scale,
            block_n, causal, masked, masked, p_log2, window,
        )  # fmt: skip
        if clipped or padded:
            v = tl.load(v_tile_ptr, mask=inside, other=0.0)
        else:
            v = tl.load(v_tile_ptr)
        if quantised:
            v = v.to(q.dtype)
        acc = tl.dot(p.to(v.dtype), v, acc)
    return acc, row_sum, row_max


TWINS = {
    "flash_decode": twin_of(flash_decode_kernel),
    "flash_decode_cache": twin_of(flash_decode_cache_kernel),
    **MERGE,
}


def flash_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int = 0,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    config: Config | None = None,
    device: Device | str | None = None,
    schedule: str = "flash_decode",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of few queries: at most 128 of all heads that share a KV head.

    Args:
        q: (B, H, M, D); k, v: (B, G, N, D).
        softcap: cap of scores, 0 for none; sinks: (H,) fp32, logits that join the sums of rows, None for none;
            schedule: whose launches run; the rest as in `flash2`.

    Returns:
        O (B, H, M, D) in the dtype of q (bf16 where that is fp8), and LSE (B, H, M) in fp32, natural logarithm, sinks
        included.

    Raises:
        ValueError: tensors or configuration that the kernels cannot take; one line.
    """
    problem = problem_of(q, k, v, causal=causal, window=window, softcap=softcap, sinks=sinks is not None)
    tensors = {"Q": q, "K": k, "V": v, **check_sinks(sinks, q)}
    return decoded(schedule, TWINS, problem, tensors, {}, config, device)


def flash_decode_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor,
    pages: torch.Tensor | None = None,
    *,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    causal: bool = False,
    window: int = 0,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    config: Config | None = None,
    device: Device | str | None = None,
    schedule: str = "flash_decode",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of queries of each sequence, few or a chunk of a prefill, over a cache of keys and values.

    Args:
        q: (B, H, M, D).
        k, v: (pages, page, G, D) with `pages`, else (B, G, N, D); of the dtype of q, or fp8 (e4m3) or int8 beside it.
        lengths: (B,) int32, keys of each sequence; pages: (B, most pages) int32, those of each, in order.
        k_scale, v_scale: what a stored key and value are multiplied by; the rest and Returns as in `flash_decode`.

    Raises:
        ValueError: tensors or configuration that the kernels cannot take; one line.
    """
    keys, page, table = table_of(k, lengths, pages)
    stored, given = (
        next((name for name, dtype in TORCH_DTYPES.items() if dtype == tensor.dtype), str(tensor.dtype))
        for tensor in (k, q)
    )
    problem = AttentionProblem(
        batch=q.shape[0],
        heads=q.shape[1],
        kv_heads=k.shape[1] if pages is None else k.shape[2],
        seqlen_q=q.shape[2],
        seqlen_k=max(keys),
        head_dim=q.shape[3],
        dtype=given,
        causal=causal,
        window=window,
        lengths=keys,
        page=page,
        kv_dtype="" if stored == given else stored,
        softcap=softcap,
        sinks=sinks is not None,
    )
    arguments = {"scale_log2": k_scale * LOG2_E.value / problem.head_dim**0.5, "v_scale": v_scale}
    tensors = {"Q": q, "K": k, "V": v, "TABLE": table, **check_sinks(sinks, q)}
    return decoded(schedule, TWINS, problem, tensors, arguments, config, device)
