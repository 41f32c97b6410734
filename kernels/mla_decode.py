"""Latent attention (MLA) of few queries over a long cache: the kernels of `simulator/schedules/decode/mla_decode.py`.

Row r of a sequence is query r // heads of head r % heads. A tile of latents is loaded once, and is K and V; S is the
sum of two products: of latents, and of what is beside them.
"""

import torch
import triton
import triton.language as tl

from ..simulator.device.device import Device
from ..simulator.problems.latent_attention import LatentAttentionProblem
from ..simulator.schedules.config import Config
from ..simulator.schedules.tiles import LOG2_E
from .decode.call import MERGE, decoded, table_of
from .decode.splits import tile_place
from .launch.launch import TORCH_DTYPES, check_tensor, twin_of
from .launch.numbers import LN_2
from .query_tile import online_softmax


@triton.jit
def mla_decode_kernel(
    q_ptr, c_ptr, o_ptr, lse_ptr, seqlen_q, seqlen_k, scale_log2,
    heads: tl.constexpr, latent_dim: tl.constexpr, rope_dim: tl.constexpr, tile_rows: tl.constexpr,
    block_n: tl.constexpr, causal: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr, merged: tl.constexpr,
):  # fmt: skip
    """A split of the keys for a tile of heads. Shapes: Q (B * H, M, L + R), C (B, N, L + R), O (B * H, M, L).

    Of several splits O and LSE are those of this one: (B, splits, rows, L) and (B, splits, rows), LSE in log2.
    """
    _split(
        q_ptr, c_ptr, o_ptr, lse_ptr, q_ptr, seqlen_q, seqlen_k, scale_log2, heads, latent_dim, rope_dim, tile_rows,
        block_n, causal, whole_m, whole_n, 0, merged, tl.num_programs(1), False,
    )  # fmt: skip


@triton.jit
def mla_decode_cache_kernel(
    q_ptr, c_ptr, table_ptr, o_ptr, lse_ptr, seqlen_q, seqlen_k, table_width, scale_log2,
    heads: tl.constexpr, latent_dim: tl.constexpr, rope_dim: tl.constexpr, tile_rows: tl.constexpr,
    block_n: tl.constexpr, causal: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr, page: tl.constexpr,
    merged: tl.constexpr, own_splits: tl.constexpr,
):  # fmt: skip
    """The same of sequences in a cache: TABLE (B, width) has the keys of each, and then its pages.

    In pages C is (pages, page, L + R); without pages (page = 0) as above, N of the longest sequence.
    With own_splits each sequence's splits stand before its keys, and CTAs beyond them leave.
    """
    sequence_ptr = table_ptr + tl.program_id(2) * table_width
    shares = tl.num_programs(1)
    if own_splits:
        shares = tl.load(sequence_ptr)
        sequence_ptr += 1
        if tl.program_id(1) >= shares:
            return
    _split(
        q_ptr, c_ptr, o_ptr, lse_ptr, sequence_ptr, seqlen_q, seqlen_k, scale_log2, heads, latent_dim, rope_dim,
        tile_rows, block_n, causal, whole_m, whole_n, page, merged, shares, True,
    )  # fmt: skip


@triton.jit
def _split(
    q_ptr, c_ptr, o_ptr, lse_ptr, sequence_ptr, seqlen_q, most_keys, scale_log2,
    heads: tl.constexpr, latent_dim: tl.constexpr, rope_dim: tl.constexpr, tile_rows: tl.constexpr,
    block_n: tl.constexpr, causal: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr, page: tl.constexpr,
    merged: tl.constexpr, shares, cached: tl.constexpr,
):  # fmt: skip
    """Both. Args: sequence_ptr: row of the table, if any; most_keys: of any sequence; shares: splits of this one."""
    split, splits, sequence = tl.program_id(1), tl.num_programs(1), tl.program_id(2).to(tl.int64)
    if cached:
        seqlen_k = tl.load(sequence_ptr)
    else:
        seqlen_k = most_keys
    rows = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    latents, ropes = tl.arange(0, latent_dim), tl.arange(0, rope_dim)
    inside = rows < heads * seqlen_q
    query = rows // heads
    row = (sequence * heads + rows % heads) * seqlen_q + query
    q_tile_ptr = q_ptr + row[:, None] * (latent_dim + rope_dim)
    if whole_m:
        q = tl.load(q_tile_ptr + latents[None, :])
        q_rope = tl.load(q_tile_ptr + (latent_dim + ropes)[None, :])
    else:
        q = tl.load(q_tile_ptr + latents[None, :], mask=inside[:, None], other=0.0)
        q_rope = tl.load(q_tile_ptr + (latent_dim + ropes)[None, :], mask=inside[:, None], other=0.0)

    # Key tiles: all queries see those before `torn`, not all see the rest, until `end`.
    torn, end = seqlen_k // block_n, tl.cdiv(seqlen_k, block_n)
    if causal:
        torn = tl.maximum(seqlen_k - seqlen_q + 1, 0) // block_n
    first, last = end * split // shares, end * (split + 1) // shares
    last_key = query + (seqlen_k - seqlen_q)
    acc = tl.zeros((tile_rows, latent_dim), tl.float32)
    row_sum = tl.zeros((tile_rows,), tl.float32)
    row_max = tl.full((tile_rows,), float("-inf"), tl.float32)
    acc, row_sum, row_max = _stream(
        acc, row_sum, row_max, q, q_rope, c_ptr, sequence_ptr, sequence, first, tl.minimum(last, torn), last_key,
        most_keys, seqlen_k, scale_log2, latent_dim, rope_dim, block_n, causal, False, whole_n, page,
    )  # fmt: skip
    if causal or not whole_n:
        acc, row_sum, row_max = _stream(
            acc, row_sum, row_max, q, q_rope, c_ptr, sequence_ptr, sequence, tl.maximum(first, torn), last, last_key,
            most_keys, seqlen_k, scale_log2, latent_dim, rope_dim, block_n, causal, True, whole_n, page,
        )  # fmt: skip

    # A row that sees no key of the split has the sum 0: its output is 0, its LSE -inf. A NaN is not 0, and stays.
    seen = row_sum != 0.0
    divisor = tl.where(seen, row_sum, 1.0)
    lse = tl.where(seen, row_max + tl.log2(divisor), float("-inf"))
    if merged:
        row = (sequence * splits + split) * (heads * seqlen_q) + rows
    else:
        lse = lse * LN_2
    o = (acc * (1.0 / divisor)[:, None]).to(o_ptr.dtype.element_ty)
    o_tile_ptr = o_ptr + row[:, None] * latent_dim + latents[None, :]
    if whole_m:
        tl.store(o_tile_ptr, o)
        tl.store(lse_ptr + row, lse)
    else:
        tl.store(o_tile_ptr, o, mask=inside[:, None])
        tl.store(lse_ptr + row, lse, mask=inside)


@triton.jit
def _stream(
    acc, row_sum, row_max, q, q_rope, c_ptr, sequence_ptr, sequence, first, last, last_key, most_keys, seqlen_k,
    scale_log2, latent_dim: tl.constexpr, rope_dim: tl.constexpr, block_n: tl.constexpr, causal: tl.constexpr,
    masked: tl.constexpr, whole_n: tl.constexpr, page: tl.constexpr,
):  # fmt: skip
    """Key tiles from the first to before the last: S = Q C^T, online softmax, O = O * alpha + P L."""
    width: tl.constexpr = latent_dim + rope_dim
    clipped: tl.constexpr = masked and not whole_n
    latents, ropes = tl.arange(0, latent_dim), tl.arange(0, rope_dim)
    for tile in tl.range(first, last):
        key = tile * block_n
        row, places = tile_place(sequence_ptr, sequence, key, most_keys, seqlen_k, 1, block_n, page, clipped)
        c_tile_ptr = c_ptr + row * width + places[:, None] * width
        if clipped:
            inside = (key + tl.arange(0, block_n) < seqlen_k)[:, None]
            latent = tl.load(c_tile_ptr + latents[None, :], mask=inside, other=0.0)
            rope = tl.load(c_tile_ptr + (latent_dim + ropes)[None, :], mask=inside, other=0.0)
        else:
            latent = tl.load(c_tile_ptr + latents[None, :])
            rope = tl.load(c_tile_ptr + (latent_dim + ropes)[None, :])
        scores = tl.dot(q_rope, tl.trans(rope), tl.dot(q, tl.trans(latent)))
        p, acc, row_sum, row_max = online_softmax(
            scores, acc, row_sum, row_max, key, last_key, seqlen_k, scale_log2, block_n, causal, masked, masked, 0, 0,
        )  # fmt: skip
        acc = tl.dot(p.to(latent.dtype), latent, acc)
    return acc, row_sum, row_max


TWINS = {
    "mla_decode": twin_of(mla_decode_kernel),
    "mla_decode_cache": twin_of(mla_decode_cache_kernel),
    **MERGE,
}


def mla_decode(
    q: torch.Tensor,
    cache: torch.Tensor,
    lengths: torch.Tensor | None = None,
    pages: torch.Tensor | None = None,
    *,
    scale: float,
    latent_dim: int = 512,
    causal: bool = False,
    config: Config | None = None,
    device: Device | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of few queries over a cache of latents (MLA, projections absorbed).

    Args:
        q: (B, H, M, L + R), the part of the latents first.
        cache: (B, 1, N, L + R); with `pages` (pages, page, 1, L + R).
        lengths, pages: as of `flash_decode_cache`; lengths None: all sequences have N keys.
        scale: of scores, e.g. (128 + 64) ** -0.5 for DeepSeek-V3: of its heads before they are absorbed.
        latent_dim: L.

    Returns:
        O (B, H, M, L) in the dtype of q, and LSE (B, H, M) in fp32, natural logarithm.

    Raises:
        ValueError: tensors or configuration that the kernels cannot take; one line.
    """
    check_tensor("q", q, "(batch, heads, length, latent_dim + rope_dim)")
    check_tensor(
        "cache", cache, "(batch, 1, length, latent_dim + rope_dim), or (pages, page, 1, latent_dim + rope_dim)"
    )
    if (cache.dtype, cache.device, cache.shape[3]) != (q.dtype, q.device, q.shape[3]):
        raise ValueError(
            f"cache has {cache.shape[3]} elements a key of {cache.dtype} on {cache.device}:"
            f" must have those of q, {q.shape[3]} of {q.dtype} on {q.device}"
        )
    if cache.shape[1 if pages is None else 2] != 1:
        raise ValueError(f"cache has shape {tuple(cache.shape)}: must have one head, which all heads of q share")
    if lengths is None and (pages is not None or cache.shape[0] != q.shape[0]):
        raise ValueError(f"lengths is None: with pages, or {cache.shape[0]} sequences for {q.shape[0]}, give lengths")
    tensors, shape = {"Q": q, "C": cache}, {"seqlen_k": cache.shape[2]}
    if lengths is not None:
        keys, page, tensors["TABLE"] = table_of(cache, lengths, pages)
        shape = {"seqlen_k": max(keys), "lengths": keys, "page": page}
    problem = LatentAttentionProblem(
        batch=q.shape[0],
        heads=q.shape[1],
        seqlen_q=q.shape[2],
        latent_dim=latent_dim,
        rope_dim=q.shape[3] - latent_dim,
        dtype=next(name for name, dtype in TORCH_DTYPES.items() if dtype == q.dtype),
        causal=causal,
        **shape,
    )
    return decoded("mla_decode", TWINS, problem, tensors, {"scale_log2": scale * LOG2_E}, config, device)
