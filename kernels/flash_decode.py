"""Attention of few queries over a long cache in Triton: the kernels of `simulator/schedules/flash_decode.py`.

Row r of a tile is query r // group of head r % group of a KV head's group, so that rows of a query share its mask.
"""

from types import MappingProxyType

import torch
import triton
import triton.language as tl

from ..simulator.device.device import Device
from ..simulator.launch.program import Launch
from ..simulator.problems.attention import AttentionProblem
from ..simulator.schedules.config import Config
from .flash2 import _stream
from .launch.launch import Twin, check_runnable, launches_for, problem_of, run_all
from .numbers import LN_2


@triton.jit
def flash_decode_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, seqlen_q, seqlen_k, scale_log2,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, tile_rows: tl.constexpr,
    block_n: tl.constexpr, causal: tl.constexpr, window: tl.constexpr, whole_n: tl.constexpr, p_log2: tl.constexpr,
    merged: tl.constexpr,
):  # fmt: skip
    """A split of the keys of a KV head. Shapes: Q, O (slabs, M, D); K, V (slabs / group, N, D); LSE (slabs, M).

    Of several splits O and LSE are those of this one: (slabs / group, splits, rows, D) and (slabs / group, splits,
    rows), LSE in log2.
    """
    split, splits, kv_slab = tl.program_id(0), tl.num_programs(0), tl.program_id(1)
    rows, dims = tl.arange(0, tile_rows), tl.arange(0, padded_dim)
    inside = rows < head_group * seqlen_q
    query = rows // head_group
    row = (kv_slab.to(tl.int64) * head_group + rows % head_group) * seqlen_q + query
    inside_tile = inside[:, None] & (dims < head_dim)[None, :]
    q = tl.load(q_ptr + row[:, None] * head_dim + dims[None, :], mask=inside_tile, other=0.0)

    # Key tiles: from `start` on any query sees some, from `full` on all see all, from `ragged` on not all, until `end`.
    start = 0
    full = 0
    ragged = seqlen_k // block_n
    end = tl.cdiv(seqlen_k, block_n)
    if causal:
        ragged = tl.maximum(seqlen_k - seqlen_q + 1, 0) // block_n
        if window:
            start = tl.maximum(seqlen_k - seqlen_q + 1 - window, 0) // block_n
            full = tl.cdiv(tl.maximum(seqlen_k - window, 0), block_n)
            ragged = tl.maximum(ragged, start)
            full = tl.minimum(full, end)
            ragged = tl.maximum(ragged, full)
    first = start + (end - start) * split // splits
    last = start + (end - start) * (split + 1) // splits

    last_key = query + (seqlen_k - seqlen_q)
    slab_key = kv_slab.to(tl.int64) * seqlen_k
    k_slab_ptr, v_slab_ptr = k_ptr + slab_key * head_dim, v_ptr + slab_key * head_dim
    acc = tl.zeros((tile_rows, padded_dim), tl.float32)
    row_sum = tl.zeros((tile_rows,), tl.float32)
    row_max = tl.full((tile_rows,), float("-inf"), tl.float32)
    if window:
        acc, row_sum, row_max = _stream(
            acc, row_sum, row_max, q, k_slab_ptr, v_slab_ptr, first, 1, tl.minimum(last, full) - first,
            last_key, seqlen_k, scale_log2, head_dim, padded_dim, block_n, causal, True, whole_n, True, p_log2, window,
        )  # fmt: skip
    begin = tl.maximum(first, full)
    acc, row_sum, row_max = _stream(
        acc, row_sum, row_max, q, k_slab_ptr, v_slab_ptr, begin, 1, tl.minimum(last, ragged) - begin,
        last_key, seqlen_k, scale_log2, head_dim, padded_dim, block_n, causal, False, whole_n, False, p_log2, window,
    )  # fmt: skip
    if causal or not whole_n:
        begin = tl.maximum(first, ragged)
        acc, row_sum, row_max = _stream(
            acc, row_sum, row_max, q, k_slab_ptr, v_slab_ptr, begin, 1, last - begin,
            last_key, seqlen_k, scale_log2, head_dim, padded_dim, block_n, causal, True, whole_n, True, p_log2, window,
        )  # fmt: skip

    # A row that sees no key of the split has the sum 0: its output is 0, its LSE -inf. A NaN is not 0, and stays.
    seen = row_sum != 0.0
    divisor = tl.where(seen, row_sum, 1.0)
    lse = tl.where(seen, row_max - p_log2 + tl.log2(divisor), float("-inf"))
    if merged:
        row = (kv_slab.to(tl.int64) * splits + split) * (head_group * seqlen_q) + rows
    else:
        lse = lse * LN_2
    o = (acc * (1.0 / divisor)[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + row[:, None] * head_dim + dims[None, :], o, mask=inside_tile)
    tl.store(lse_ptr + row, lse, mask=inside)


@triton.jit
def flash_decode_merge_kernel(
    o_parts_ptr, lse_parts_ptr, o_ptr, lse_ptr, seqlen_q, splits,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, padded_splits: tl.constexpr,
):  # fmt: skip
    """O and LSE of a query of a head: the splits' outputs, weighted by 2^LSE. Shapes: as of the kernel above."""
    query, slab = tl.program_id(0), tl.program_id(1)
    row = query * head_group + slab % head_group
    parts, dims = tl.arange(0, padded_splits), tl.arange(0, padded_dim)
    place = ((slab // head_group).to(tl.int64) * splits + parts) * (head_group * seqlen_q) + row
    inside = parts < splits
    lse = tl.load(lse_parts_ptr + place, mask=inside, other=float("-inf"))
    inside_tile = inside[:, None] & (dims < head_dim)[None, :]
    o = tl.load(o_parts_ptr + place[:, None] * head_dim + dims[None, :], mask=inside_tile, other=0.0)
    largest = tl.max(lse, 0)
    finite = tl.where(largest == float("-inf"), 0.0, largest)
    weights = tl.exp2(lse - finite)
    total = tl.sum(weights, 0)
    seen = total != 0.0
    divisor = tl.where(seen, total, 1.0)
    merged = tl.sum(o * weights[:, None], 0) / divisor
    at = slab.to(tl.int64) * seqlen_q + query
    tl.store(o_ptr + at * head_dim + dims, merged.to(o_ptr.dtype.element_ty), mask=dims < head_dim)
    tl.store(lse_ptr + at, tl.where(seen, (finite + tl.log2(divisor)) * LN_2, float("-inf")))


def split_twin(launch: Launch, problem: AttentionProblem) -> Twin:
    """The kernel that takes a split of the keys. Raises: ValueError: a grid that no GPU takes."""
    check_runnable(launch)
    return Twin(flash_decode_kernel, launch.kernel_arguments)


def merge_twin(launch: Launch, problem: AttentionProblem) -> Twin:
    """The kernel that merges splits. Raises: ValueError: a grid that no GPU takes."""
    check_runnable(launch)
    return Twin(flash_decode_merge_kernel, launch.kernel_arguments)


TWINS = MappingProxyType({"flash_decode": split_twin, "flash_decode_merge": merge_twin})


def flash_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int = 0,
    config: Config | None = None,
    device: Device | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of few queries: at most 128 of all heads that share a KV head.

    Args:
        q: (B, H, M, D); k, v: (B, G, N, D); the rest as in `flash2`.

    Returns:
        O (B, H, M, D) in the dtype of q (bf16 where that is fp8), and LSE (B, H, M) in fp32, natural logarithm.

    Raises:
        ValueError: tensors or configuration that the kernels cannot take; one line.
    """
    problem = problem_of(q, k, v, causal=causal, window=window)
    launches = launches_for("flash_decode", problem, config, device, q)
    tensors = {"Q": q, "K": k, "V": v}
    run_all(launches, problem, TWINS, tensors)
    return tensors["O"].view(q.shape), tensors["LSE"].view(q.shape[:3])
