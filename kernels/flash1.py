"""FlashAttention-1 forward in Triton: keys outside, queries inside; the twin of `simulator/schedules/flash1.py`.

One CTA takes a whole head. O, the sum L and the maximum MAX of every query tile come from device memory
and go back there once per key tile, so O is rounded to its dtype each time. MAX is kept in units of log2.
"""

import torch
import triton
import triton.language as tl

from ..simulator.device.device import Device
from ..simulator.schedules.config import Config
from .launch.launch import Roundings, launches_for, problem_of, run_all, twin_of
from .launch.numbers import LN_2


@triton.jit
def flash1_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, sum_ptr, max_ptr, seqlen_q, seqlen_k, scale_log2,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, block_m: tl.constexpr,
    block_n: tl.constexpr, causal: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr,
):  # fmt: skip
    """One head. Shapes: Q, O (slabs, M, D); K, V (slabs / group, N, D); sum, max (slabs, M)."""
    slab = tl.program_id(0)
    rows, keys, dims = tl.arange(0, block_m), tl.arange(0, block_n), tl.arange(0, padded_dim)
    first_row = slab.to(tl.int64) * seqlen_q
    first_key = (slab // head_group).to(tl.int64) * seqlen_k
    q_tile = rows[:, None] * head_dim + dims[None, :]
    k_tile = keys[:, None] * head_dim + dims[None, :]
    dim_inside = (dims < head_dim)[None, :]

    for row in tl.range(0, seqlen_q, block_m, num_stages=1):
        row_inside = row + rows < seqlen_q
        o_tile_ptr = o_ptr + (first_row + row) * head_dim + q_tile
        sum_tile_ptr, max_tile_ptr = sum_ptr + (first_row + row) + rows, max_ptr + (first_row + row) + rows
        o = tl.zeros((block_m, padded_dim), o_ptr.dtype.element_ty)
        row_sum, row_max = tl.zeros((block_m,), tl.float32), tl.full((block_m,), float("-inf"), tl.float32)
        _store_state(o_tile_ptr, sum_tile_ptr, max_tile_ptr, o, row_sum, row_max, row_inside, dim_inside, whole_m,
                     head_dim == padded_dim)  # fmt: skip

    for key in tl.range(0, seqlen_k, block_n, num_stages=1):
        # Other threads than those that stored a row's state may load it for the next key tile.
        tl.debug_barrier()
        key_inside = key + keys < seqlen_k
        k_tile_ptr = k_ptr + (first_key + key) * head_dim + k_tile
        v_tile_ptr = v_ptr + (first_key + key) * head_dim + k_tile
        if whole_n and head_dim == padded_dim:
            k = tl.load(k_tile_ptr)
            v = tl.load(v_tile_ptr)
        else:
            k = tl.load(k_tile_ptr, mask=key_inside[:, None] & dim_inside, other=0.0)
            v = tl.load(v_tile_ptr, mask=key_inside[:, None] & dim_inside, other=0.0)
        for row in tl.range(0, seqlen_q, block_m):
            row_inside = row + rows < seqlen_q
            o_tile_ptr = o_ptr + (first_row + row) * head_dim + q_tile
            q_tile_ptr = q_ptr + (first_row + row) * head_dim + q_tile
            sum_tile_ptr, max_tile_ptr = sum_ptr + (first_row + row) + rows, max_ptr + (first_row + row) + rows
            if whole_m and head_dim == padded_dim:
                q = tl.load(q_tile_ptr)
                o = tl.load(o_tile_ptr).to(tl.float32)
            else:
                q = tl.load(q_tile_ptr, mask=row_inside[:, None] & dim_inside, other=0.0)
                o = tl.load(o_tile_ptr, mask=row_inside[:, None] & dim_inside, other=0.0).to(tl.float32)
            if whole_m:
                row_sum = tl.load(sum_tile_ptr)
                row_max = tl.load(max_tile_ptr)
            else:
                row_sum = tl.load(sum_tile_ptr, mask=row_inside, other=0.0)
                row_max = tl.load(max_tile_ptr, mask=row_inside, other=float("-inf"))

            scores = tl.dot(q, tl.trans(k))
            if causal:
                # Rows of the problem see no key at or past N, so this mask clips a ragged end as well.
                last_key = row + rows + seqlen_k - seqlen_q
                scores = tl.where((key + keys)[None, :] <= last_key[:, None], scores, float("-inf"))
            elif not whole_n:
                scores = tl.where(key_inside[None, :], scores, float("-inf"))
            tile_max = tl.max(scores, 1) * scale_log2
            new_max = tl.maximum(row_max, tile_max)
            if causal:
                # Rows that see nothing of this tile, or have seen nothing at all, would compute -inf - (-inf).
                finite_tile_max = tl.where(tile_max == float("-inf"), 0.0, tile_max)
                finite_max = tl.where(new_max == float("-inf"), 0.0, new_max)
            else:
                finite_tile_max, finite_max = tile_max, new_max
            p = tl.exp2(scores * scale_log2 - finite_tile_max[:, None])
            alpha, beta = tl.exp2(row_max - finite_max), tl.exp2(tile_max - finite_max)
            old_weight = alpha * row_sum
            new_sum = old_weight + beta * tl.sum(p, 1)
            if causal:
                inverse = 1.0 / tl.where(new_sum == 0.0, 1.0, new_sum)
            else:
                inverse = 1.0 / new_sum
            product = tl.dot(p.to(v.dtype), v)
            o = o * (old_weight * inverse)[:, None] + product * (beta * inverse)[:, None]
            _store_state(o_tile_ptr, sum_tile_ptr, max_tile_ptr, o.to(o_ptr.dtype.element_ty), new_sum, new_max,
                         row_inside, dim_inside, whole_m, head_dim == padded_dim)  # fmt: skip


@triton.jit
def _store_state(
    o_tile_ptr, sum_tile_ptr, max_tile_ptr, o, row_sum, row_max, row_inside, dim_inside,
    whole_m: tl.constexpr, whole_dim: tl.constexpr,
):  # fmt: skip
    """O, L and MAX of a query tile."""
    if whole_m and whole_dim:
        tl.store(o_tile_ptr, o)
    else:
        tl.store(o_tile_ptr, o, mask=row_inside[:, None] & dim_inside)
    if whole_m:
        tl.store(sum_tile_ptr, row_sum)
        tl.store(max_tile_ptr, row_max)
    else:
        tl.store(sum_tile_ptr, row_sum, mask=row_inside)
        tl.store(max_tile_ptr, row_max, mask=row_inside)


ROUNDINGS = Roundings(output_each_key_tile=True)
TWINS = {"flash1": twin_of(flash1_kernel)}


def flash1(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    config: Config | None = None,
    device: Device | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention by FlashAttention-1.

    Args:
        q: (B, H, M, D); k, v: (B, G, N, D); contiguous, fp16, bf16 or fp32 (multiplied as tf32), on one GPU.
        causal: whether the mask is causal, aligned to the last key.
        config: block sizes, warps, stages; the schedule's default, but with rows split among warps, where None.
        device: catalogue name or `Device` for the schedule; that of the tensors where None.

    Returns:
        O (B, H, M, D) in the dtype of q, and LSE (B, H, M) in fp32, natural logarithm.

    Raises:
        ValueError: tensors or configuration that the kernel cannot take; one line.
    """
    problem = problem_of(q, k, v, causal=causal)
    tensors = {"Q": q, "K": k, "V": v}
    run_all(launches_for("flash1", problem, config, device, q), TWINS, tensors)
    lse = (tensors["MAX"] + tensors["L"].log2()) * LN_2.value
    return tensors["O"].view(q.shape), lse.view(q.shape[:3])
