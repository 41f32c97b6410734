"""FlashAttention-2 forward under any mask, in Triton: the kernel of `simulator/schedules/masked_flash.py`.

A query tile goes through a list of key tiles: first those that all of its rows see whole, then those that need a mask.
"""

import torch
import triton
import triton.language as tl

from ..simulator.device.device import Device
from ..simulator.schedules.config import Config
from .launch.launch import check_sinks, launches_for, problem_of, run_all, twin_of
from .launch.numbers import LOG2_E
from .query_tile import capped, finish, online_softmax


@triton.jit
def masked_flash_kernel(
    q_ptr, k_ptr, v_ptr, seen_ptr, tiles_ptr, o_ptr, lse_ptr, sinks_ptr, heads, seqlen_q, seqlen_k, scale_log2, softcap,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, block_m: tl.constexpr,
    block_n: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr, value_dim: tl.constexpr,
    padded_value_dim: tl.constexpr, always: tl.constexpr, p_log2: tl.constexpr,
):  # fmt: skip
    """One query tile of one head. Shapes: Q (slabs, M, D); K (slabs / group, N, D); V, O with D_v; LSE (slabs, M).

    Args: seen_ptr, tiles_ptr: of `mask_tensors`; sinks_ptr: (heads,), softcap: None where there are none; always:
    first keys that rows see beside their interval.
    """
    q_tiles = tl.cdiv(seqlen_q, block_m)
    slab, q_tile = tl.program_id(0) // q_tiles, tl.program_id(0) % q_tiles
    begin, middle, end = (
        tl.load(tiles_ptr + 3 * q_tile), tl.load(tiles_ptr + 3 * q_tile + 1), tl.load(tiles_ptr + 3 * q_tile + 2),
    )  # fmt: skip
    row = q_tile * block_m
    rows, dims = tl.arange(0, block_m), tl.arange(0, padded_dim)
    inside = rows < seqlen_q - row
    first_key = tl.load(seen_ptr + 2 * (row + rows), mask=inside, other=0)
    end_key = tl.load(seen_ptr + 2 * (row + rows) + 1, mask=inside, other=0)
    first_row = slab.to(tl.int64) * seqlen_q + row
    # A tile that sees no key loads nothing.
    q = tl.load(
        q_ptr + first_row * head_dim + (rows[:, None] * head_dim + dims[None, :]),
        mask=(inside & (begin < end))[:, None] & (dims < head_dim)[None, :],
        other=0.0,
    )
    slab_row = (slab // head_group).to(tl.int64) * seqlen_k
    k_slab_ptr, v_slab_ptr = k_ptr + slab_row * head_dim, v_ptr + slab_row * value_dim

    acc = tl.zeros((block_m, padded_value_dim), tl.float32)
    row_sum = tl.zeros((block_m,), tl.float32)
    row_max = tl.full((block_m,), float("-inf"), tl.float32)
    if sinks_ptr is not None:
        # A sink is a key without a value, which rows begin with.
        row_max = row_sum + tl.load(sinks_ptr + slab % heads) * LOG2_E
        row_sum += 1 << p_log2
    acc, row_sum, row_max = _stream(
        acc, row_sum, row_max, q, k_slab_ptr, v_slab_ptr, tiles_ptr, begin, middle, first_key, end_key, seqlen_k,
        scale_log2, softcap, head_dim, padded_dim, value_dim, padded_value_dim, block_n, False, whole_n, always, p_log2,
    )  # fmt: skip
    acc, row_sum, row_max = _stream(
        acc, row_sum, row_max, q, k_slab_ptr, v_slab_ptr, tiles_ptr, middle, end, first_key, end_key, seqlen_k,
        scale_log2, softcap, head_dim, padded_dim, value_dim, padded_value_dim, block_n, True, whole_n, always, p_log2,
    )  # fmt: skip
    finish(
        o_ptr, lse_ptr, acc, row_sum, row_max, first_row, seqlen_q - row,
        value_dim, padded_value_dim, block_m, whole_m, True, p_log2,
    )  # fmt: skip


@triton.jit
def _stream(
    acc, row_sum, row_max, q, k_slab_ptr, v_slab_ptr, tiles_ptr, begin, end, first_key, end_key, seqlen_k,
    scale_log2, softcap, head_dim: tl.constexpr, padded_dim: tl.constexpr, value_dim: tl.constexpr,
    padded_value_dim: tl.constexpr, block_n: tl.constexpr,
    masked: tl.constexpr, whole_n: tl.constexpr, always: tl.constexpr, p_log2: tl.constexpr,
):  # fmt: skip
    """Key tiles of a part of the list: S = Q K^T, online softmax, O = O * alpha + P V."""
    places, dims, value_dims = tl.arange(0, block_n), tl.arange(0, padded_dim), tl.arange(0, padded_value_dim)
    offsets = places[:, None] * head_dim + dims[None, :]
    value_offsets = places[:, None] * value_dim + value_dims[None, :]
    clipped: tl.constexpr = masked and not whole_n
    padded: tl.constexpr = head_dim != padded_dim
    value_padded: tl.constexpr = value_dim != padded_value_dim
    # The number of a tile is loaded while the one before it is computed: a list has an entry more than it needs.
    tile = tl.load(tiles_ptr + begin)
    for place in tl.range(begin, end):
        key = tile * block_n
        tile = tl.load(tiles_ptr + place + 1)
        keys = key + places
        inside, value_inside = dims[None, :] < head_dim, value_dims[None, :] < value_dim
        if clipped:
            inside = (keys < seqlen_k)[:, None] & inside
            value_inside = (keys < seqlen_k)[:, None] & value_inside
        start = key.to(tl.int64)
        if clipped or padded:
            k = tl.load(k_slab_ptr + start * head_dim + offsets, mask=inside, other=0.0)
        else:
            k = tl.load(k_slab_ptr + start * head_dim + offsets)
        scores, scale = capped(tl.dot(q, tl.trans(k)), scale_log2, softcap)
        if masked:
            visible = keys[None, :] >= first_key[:, None]
            if always:
                visible = visible | (keys < always)[None, :]
            scores = tl.where(visible & (keys[None, :] < end_key[:, None]), scores, float("-inf"))
        p, acc, row_sum, row_max = online_softmax(
            scores, acc, row_sum, row_max, key, end_key, seqlen_k, scale, block_n, False, False, masked, p_log2, 0,
        )  # fmt: skip
        if clipped or value_padded:
            v = tl.load(v_slab_ptr + start * value_dim + value_offsets, mask=value_inside, other=0.0)
        else:
            v = tl.load(v_slab_ptr + start * value_dim + value_offsets)
        acc = tl.dot(p.to(v.dtype), v, acc)
    return acc, row_sum, row_max


TWINS = {"masked_flash": twin_of(masked_flash_kernel)}


def masked_flash(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int = 0,
    mask: str = "",
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    config: Config | None = None,
    device: Device | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention under any mask.

    Args:
        q: (B, H, M, D); k: (B, G, N, D); v: (B, G, N, D_v).
        mask: beyond causal and window, e.g. `prefix:512`, `documents:300,212` or `blocks:10/11` (`problems.pattern`).
        softcap: cap of scores, 0 for none; sinks: (H,) fp32, logits that join the sums of rows, None for none; the
            rest as in `flash2`.

    Returns:
        O (B, H, M, D_v) in the dtype of q (bf16 where that is fp8), and LSE (B, H, M) in fp32, natural logarithm, sinks
        included; of a row that sees no key 0 and, without sinks, -inf.

    Raises:
        ValueError: tensors, mask or configuration that the kernel cannot take; one line.
    """
    asked = {"causal": causal, "window": window, "mask": mask, "softcap": softcap, "sinks": sinks is not None}
    problem = problem_of(q, k, v, **asked, head_dim_v=v.shape[-1])
    tensors = {"Q": q, "K": k, "V": v, **check_sinks(sinks, q)}
    run_all(launches_for("masked_flash", problem, config, device, q), TWINS, tensors)
    return tensors["O"].view(*q.shape[:3], -1), tensors["LSE"].view(q.shape[:3])
