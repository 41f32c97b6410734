"""FlashAttention-2 forward in Triton: the twin of `simulator/schedules/flash2.py`, loaded by plain pointers.

One CTA takes a query tile (a persistent one takes every G-th), keeps Q, O and the softmax statistics on chip,
and streams K and V past them: the key tiles that no mask touches without a mask, those at its edges with it.
"""

import torch
import triton
import triton.language as tl

from ..simulator.device.device import Device
from ..simulator.schedules.config import Config
from .launch.launch import launches_for, problem_of, run_all, twin_of
from .query_tile import finish, key_tiles, online_softmax, place


@triton.jit
def flash2_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, seqlen_q, seqlen_k, slabs, items, scale_log2,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr,
    block_m: tl.constexpr, block_n: tl.constexpr, cta_order: tl.constexpr, kv_order: tl.constexpr,
    causal: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr, guarded: tl.constexpr, p_log2: tl.constexpr,
    persistent: tl.constexpr, window: tl.constexpr = 0,
):  # fmt: skip
    """All items of a CTA. Shapes: Q, O (slabs, M, D); K, V (slabs / group, N, D); LSE (slabs, M)."""
    if persistent:
        for item in tl.range(tl.program_id(0), items, tl.num_programs(0), num_stages=1):
            _item(
                q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, seqlen_q, seqlen_k, slabs, item, scale_log2,
                head_dim, padded_dim, head_group, block_m, block_n, cta_order, kv_order,
                causal, whole_m, whole_n, guarded, p_log2, window,
            )  # fmt: skip
    else:
        _item(
            q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, seqlen_q, seqlen_k, slabs, tl.program_id(0), scale_log2,
            head_dim, padded_dim, head_group, block_m, block_n, cta_order, kv_order,
            causal, whole_m, whole_n, guarded, p_log2, window,
        )  # fmt: skip


@triton.jit
def _item(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, seqlen_q, seqlen_k, slabs, item, scale_log2,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr,
    block_m: tl.constexpr, block_n: tl.constexpr, cta_order: tl.constexpr, kv_order: tl.constexpr,
    causal: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr, guarded: tl.constexpr, p_log2: tl.constexpr,
    window: tl.constexpr,
):  # fmt: skip
    """One query tile of one head: O[tile] and LSE[tile]."""
    slab, q_tile = place(item, seqlen_q, slabs, block_m, cta_order)
    row = q_tile * block_m
    rows, dims = tl.arange(0, block_m), tl.arange(0, padded_dim)
    # Positions in device memory need 64 bits, positions inside a tile do not.
    first_row = slab.to(tl.int64) * seqlen_q + row
    q_tile_ptr = q_ptr + first_row * head_dim + (rows[:, None] * head_dim + dims[None, :])
    if whole_m and head_dim == padded_dim:
        q = tl.load(q_tile_ptr)
    else:
        q = tl.load(q_tile_ptr, mask=(rows < seqlen_q - row)[:, None] & (dims < head_dim)[None, :], other=0.0)

    window_first, edge, step, first, unmasked, masked_first, masked = key_tiles(
        row, q_tile, seqlen_q, seqlen_k, block_m, block_n, kv_order, causal, whole_n, window
    )
    first_key = (slab // head_group).to(tl.int64) * seqlen_k
    k_slab_ptr, v_slab_ptr = k_ptr + first_key * head_dim, v_ptr + first_key * head_dim
    last_key = row + rows + (seqlen_k - seqlen_q)

    acc = tl.zeros((block_m, padded_dim), tl.float32)
    row_sum = tl.zeros((block_m,), tl.float32)
    row_max = tl.full((block_m,), float("-inf"), tl.float32)
    if window:
        acc, row_sum, row_max = _stream(
            acc, row_sum, row_max, q, k_slab_ptr, v_slab_ptr, window_first, step, edge, last_key, seqlen_k,
            scale_log2, head_dim, padded_dim, block_n, causal, True, whole_n, guarded, p_log2, window,
        )  # fmt: skip
    acc, row_sum, row_max = _stream(
        acc, row_sum, row_max, q, k_slab_ptr, v_slab_ptr, first, step, unmasked, last_key, seqlen_k, scale_log2,
        head_dim, padded_dim, block_n, causal, False, whole_n, False, p_log2, window,
    )  # fmt: skip
    if causal or not whole_n:
        acc, row_sum, row_max = _stream(
            acc, row_sum, row_max, q, k_slab_ptr, v_slab_ptr, masked_first, step, masked, last_key, seqlen_k,
            scale_log2, head_dim, padded_dim, block_n, causal, True, whole_n, guarded, p_log2, window,
        )  # fmt: skip
    finish(
        o_ptr, lse_ptr, acc, row_sum, row_max, first_row, seqlen_q - row,
        head_dim, padded_dim, block_m, whole_m, guarded, p_log2,
    )  # fmt: skip


@triton.jit
def _stream(
    acc, row_sum, row_max, q, k_slab_ptr, v_slab_ptr, first, step, trips, last_key, seqlen_k, scale_log2,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, block_n: tl.constexpr, causal: tl.constexpr,
    masked: tl.constexpr, whole_n: tl.constexpr, guarded: tl.constexpr, p_log2: tl.constexpr, window: tl.constexpr,
):  # fmt: skip
    """Key tiles first, first + step, ...: S = Q K^T, online softmax, O = O * alpha + P V."""
    keys, dims = tl.arange(0, block_n), tl.arange(0, padded_dim)
    tile = keys[:, None] * head_dim + dims[None, :]
    clipped: tl.constexpr = masked and not whole_n
    padded: tl.constexpr = head_dim != padded_dim
    for trip in tl.range(0, trips):
        key = (first + step * trip) * block_n
        inside = dims[None, :] < head_dim
        if clipped:
            inside = (key + keys < seqlen_k)[:, None] & inside
        start = key.to(tl.int64) * head_dim
        if clipped or padded:
            k = tl.load(k_slab_ptr + start + tile, mask=inside, other=0.0)
        else:
            k = tl.load(k_slab_ptr + start + tile)
        p, acc, row_sum, row_max = online_softmax(
            tl.dot(q, tl.trans(k)), acc, row_sum, row_max, key, last_key, seqlen_k, scale_log2,
            block_n, causal, masked, guarded, p_log2, window,
        )  # fmt: skip
        if clipped or padded:
            v = tl.load(v_slab_ptr + start + tile, mask=inside, other=0.0)
        else:
            v = tl.load(v_slab_ptr + start + tile)
        acc = tl.dot(p.to(v.dtype), v, acc)
    return acc, row_sum, row_max


TWINS = {"flash2": twin_of(flash2_kernel)}
RECOMMENDED = {
    (64, False): Config(block_m=64, block_n=64, num_warps=4, num_stages=3),
    (64, True): Config(block_m=64, block_n=64, num_warps=4, num_stages=3, cta_order="m-reversed"),
    (128, False): Config(block_m=64, block_n=64, num_warps=4, num_stages=3),
    (128, True): Config(block_m=64, block_n=64, num_warps=4, num_stages=3, cta_order="m-reversed"),
}
"""(head dimension, causal) -> a configuration to begin with on Hopper (see `launch.registry.recommended`)."""


def flash2(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int = 0,
    config: Config | None = None,
    device: Device | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention by FlashAttention-2.

    Args:
        q: (B, H, M, D); k, v: (B, G, N, D); contiguous, fp16, bf16, fp32 (multiplied as tf32) or fp8 (e4m3),
            on one GPU.
        causal: whether the mask is causal, aligned to the last key; window: keys that a query sees at most, 0 for all.
        config: block sizes, warps, orders; the schedule's default where None.
        device: catalogue name or `Device` for the schedule; that of the tensors where None.

    Returns:
        O (B, H, M, D) in the dtype of q (bf16 where that is fp8), and LSE (B, H, M) in fp32, natural logarithm.

    Raises:
        ValueError: tensors or configuration that the kernel cannot take; one line.
    """
    problem = problem_of(q, k, v, causal=causal, window=window)
    tensors = {"Q": q, "K": k, "V": v}
    run_all(launches_for("flash2", problem, config, device, q), TWINS, tensors)
    return tensors["O"].view(q.shape), tensors["LSE"].view(q.shape[:3])
