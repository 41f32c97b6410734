"""Naive attention in Triton: scores, softmax and output, three kernels; the twin of `simulator/schedules/naive.py`.

S and P are stacks of M x N matrices whose rows start at multiples of a line (`pitch` elements apart).
A CTA's number gives its tile, or its strip of tiles: along the keys fastest, then query tiles, then heads.
"""

import torch
import triton
import triton.language as tl

from ..simulator.device.device import Device
from ..simulator.launch.program import Launch
from ..simulator.schedules.config import Config
from .launch.launch import Roundings, TritonKernel, launches_for, problem_of, run_all, twin_of
from .launch.numbers import LOG2_E


@triton.jit
def scores_kernel(
    q_ptr, k, s, seqlen_q, seqlen_k, pitch, scale,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, block_m: tl.constexpr,
    block_n: tl.constexpr, strip_tiles: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr,
    scaled: tl.constexpr, tma: tl.constexpr,
):  # fmt: skip
    """A strip of tiles of S = Q K^T, times `scale` where `scaled`; k and s are descriptors where `tma`."""
    q_tiles, k_tiles = tl.cdiv(seqlen_q, block_m), tl.cdiv(seqlen_k, block_n)
    strips = tl.cdiv(k_tiles, strip_tiles)
    first_tile, tile_row = (tl.program_id(0) % strips) * strip_tiles, tl.program_id(0) // strips
    slab, row = tile_row // q_tiles, (tile_row % q_tiles) * block_m
    rows, keys, dims = tl.arange(0, block_m), tl.arange(0, block_n), tl.arange(0, padded_dim)
    row_inside, dim_inside = (row + rows < seqlen_q)[:, None], (dims < head_dim)[None, :]
    first_row = slab.to(tl.int64) * seqlen_q + row
    kv_slab = slab // head_group
    q_tile_ptr = q_ptr + first_row * head_dim + (rows[:, None] * head_dim + dims[None, :])
    if whole_m and head_dim == padded_dim:
        q = tl.load(q_tile_ptr)
    else:
        q = tl.load(q_tile_ptr, mask=row_inside & dim_inside, other=0.0)
    k_tile, s_tile = keys[:, None] * head_dim + dims[None, :], rows.to(tl.int64)[:, None] * pitch + keys[None, :]
    for tile in tl.range(0, tl.minimum(strip_tiles, k_tiles - first_tile)):
        key = (first_tile + tile) * block_n
        key_inside = key + keys < seqlen_k
        if tma:
            k_block = k.load([kv_slab, key, 0]).reshape(block_n, padded_dim)
        else:
            k_tile_ptr = k + (kv_slab.to(tl.int64) * seqlen_k + key) * head_dim + k_tile
            if whole_n and head_dim == padded_dim:
                k_block = tl.load(k_tile_ptr)
            else:
                k_block = tl.load(k_tile_ptr, mask=key_inside[:, None] & dim_inside, other=0.0)
        scores = tl.dot(q, tl.trans(k_block))
        if scaled:
            scores = scores * scale
        # In the dtype of q, which is that of S; a descriptor's is not named alike in all versions of Triton.
        scores = scores.to(q_ptr.dtype.element_ty)
        if tma:
            s.store([slab, row, key], scores.reshape(1, block_m, block_n))
        elif whole_m and whole_n:
            tl.store(s + first_row * pitch + key + s_tile, scores)
        else:
            tl.store(s + first_row * pitch + key + s_tile, scores, mask=row_inside & key_inside[None, :])


@triton.jit
def softmax_kernel(
    s_ptr, p_ptr, seqlen_q, seqlen_k, pitch,
    block_rows: tl.constexpr, block_cols: tl.constexpr, sweeps: tl.constexpr, whole: tl.constexpr,
    causal: tl.constexpr, guarded: tl.constexpr,
):  # fmt: skip
    """A strip of rows of P = softmax(S): whole rows in registers, or two sweeps over rows that are too long."""
    q_tiles = tl.cdiv(seqlen_q, block_rows)
    slab, row = tl.program_id(0) // q_tiles, (tl.program_id(0) % q_tiles) * block_rows
    rows, keys = tl.arange(0, block_rows), tl.arange(0, block_cols)
    row_inside = (row + rows < seqlen_q)[:, None]
    last_key = (row + rows + seqlen_k - seqlen_q)[:, None]
    # A tile holds whole rows, and few elements: positions inside it need no 64 bits.
    s_ptr += (slab.to(tl.int64) * seqlen_q + row) * pitch
    p_ptr += (slab.to(tl.int64) * seqlen_q + row) * pitch
    strip = rows[:, None] * pitch + keys[None, :]
    if sweeps == 1:
        scores = _score_rows(s_ptr + strip, row_inside, keys[None, :], last_key, seqlen_k, whole, causal)
        row_max = _finite(tl.max(scores, 1), guarded) * LOG2_E
        p = tl.exp2(scores * LOG2_E - row_max[:, None])
        p = p * (1.0 / _divisor(tl.sum(p, 1), guarded))[:, None]
        if whole:
            tl.store(p_ptr + strip, p.to(p_ptr.dtype.element_ty))
        else:
            tl.store(p_ptr + strip, p.to(p_ptr.dtype.element_ty), mask=row_inside & (keys < seqlen_k)[None, :])
    else:
        running_max = tl.full((block_rows,), float("-inf"), tl.float32)
        row_sum = tl.zeros((block_rows,), tl.float32)
        for key in tl.range(0, seqlen_k, block_cols):
            scores = _score_rows(
                s_ptr + strip + key, row_inside, (key + keys)[None, :], last_key, seqlen_k, False, causal
            )
            new_max = tl.maximum(running_max, tl.max(scores, 1) * LOG2_E)
            finite_max = _finite(new_max, guarded)
            p = tl.exp2(scores * LOG2_E - finite_max[:, None])
            row_sum = row_sum * tl.exp2(running_max - finite_max) + tl.sum(p, 1)
            running_max = new_max
        row_max = _finite(running_max, guarded)
        inverse = 1.0 / _divisor(row_sum, guarded)
        for key in tl.range(0, seqlen_k, block_cols):
            scores = _score_rows(
                s_ptr + strip + key, row_inside, (key + keys)[None, :], last_key, seqlen_k, False, causal
            )
            p = tl.exp2(scores * LOG2_E - row_max[:, None]) * inverse[:, None]
            inside = row_inside & (key + keys < seqlen_k)[None, :]
            tl.store(p_ptr + strip + key, p.to(p_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _score_rows(s_tile_ptr, row_inside, key, last_key, seqlen_k, whole: tl.constexpr, causal: tl.constexpr):
    """Scores in fp32, -inf past the row's end and where the mask hides them; rows past the last are 0."""
    if whole:
        scores = tl.load(s_tile_ptr).to(tl.float32)
    else:
        scores = tl.load(s_tile_ptr, mask=row_inside & (key < seqlen_k), other=0.0).to(tl.float32)
        scores = tl.where(key < seqlen_k, scores, float("-inf"))
    if causal:
        scores = tl.where(key <= last_key, scores, float("-inf"))
    return scores


@triton.jit
def _finite(row_max, guarded: tl.constexpr):
    """The maximum, 0 in rows that see nothing."""
    if guarded:
        row_max = tl.where(row_max == float("-inf"), 0.0, row_max)
    return row_max


@triton.jit
def _divisor(row_sum, guarded: tl.constexpr):
    """The sum, 1 in rows that see nothing."""
    if guarded:
        row_sum = tl.where(row_sum == 0.0, 1.0, row_sum)
    return row_sum


@triton.jit
def output_kernel(
    p_ptr, v_ptr, o_ptr, seqlen_q, seqlen_k, pitch,
    head_dim: tl.constexpr, padded_dim: tl.constexpr, head_group: tl.constexpr, block_m: tl.constexpr,
    block_n: tl.constexpr, whole_m: tl.constexpr, whole_n: tl.constexpr,
):  # fmt: skip
    """One query tile of O = P V."""
    q_tiles = tl.cdiv(seqlen_q, block_m)
    slab, row = tl.program_id(0) // q_tiles, (tl.program_id(0) % q_tiles) * block_m
    rows, keys, dims = tl.arange(0, block_m), tl.arange(0, block_n), tl.arange(0, padded_dim)
    row_inside, dim_inside = (row + rows < seqlen_q)[:, None], (dims < head_dim)[None, :]
    first_row = slab.to(tl.int64) * seqlen_q + row
    p_tile = rows.to(tl.int64)[:, None] * pitch + keys[None, :]
    v_tile = keys[:, None] * head_dim + dims[None, :]
    p_strip_ptr = p_ptr + first_row * pitch
    first_key = (slab // head_group).to(tl.int64) * seqlen_k
    acc = tl.zeros((block_m, padded_dim), tl.float32)
    for key in tl.range(0, seqlen_k, block_n):
        key_inside = key + keys < seqlen_k
        if whole_m and whole_n:
            p = tl.load(p_strip_ptr + key + p_tile)
        else:
            p = tl.load(p_strip_ptr + key + p_tile, mask=row_inside & key_inside[None, :], other=0.0)
        v_tile_ptr = v_ptr + (first_key + key) * head_dim + v_tile
        if whole_n and head_dim == padded_dim:
            v = tl.load(v_tile_ptr)
        else:
            v = tl.load(v_tile_ptr, mask=key_inside[:, None] & dim_inside, other=0.0)
        acc = tl.dot(p, v, acc)
    o_tile_ptr = o_ptr + first_row * head_dim + (rows[:, None] * head_dim + dims[None, :])
    if whole_m and head_dim == padded_dim:
        tl.store(o_tile_ptr, acc.to(o_ptr.dtype.element_ty))
    else:
        tl.store(o_tile_ptr, acc.to(o_ptr.dtype.element_ty), mask=row_inside & dim_inside)


def scores_twin(launch: Launch) -> TritonKernel:
    """The kernel of S = Q K^T, its arguments, and the tiles that it copies."""
    block_m, block_n = int(launch.constants["block_m"]), int(launch.constants["block_n"])
    padded_dim = int(launch.constants["padded_dim"])
    blocks = {"K": (block_n, padded_dim), "S": (block_m, block_n)} if launch.constants["tma"] else {}
    return TritonKernel(scores_kernel, launch.kernel_arguments, blocks)


ROUNDINGS = Roundings(scores=1)
"""S is stored."""
TWINS = {"scores": scores_twin, "softmax": twin_of(softmax_kernel), "output": twin_of(output_kernel)}
_NARROW = Config(block_m=128, block_n=128, num_warps=8, num_stages=3)
_WIDE = Config(block_m=128, block_n=64, num_warps=4, num_stages=4)
RECOMMENDED = {(64, False): _NARROW, (64, True): _NARROW, (128, False): _WIDE, (128, True): _WIDE}
"""(head dimension, causal) -> a configuration to begin with on Hopper (see `launch.registry.recommended`)."""


def naive(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    config: Config | None = None,
    device: Device | str | None = None,
) -> torch.Tensor:
    """Attention by three kernels; S and P go through device memory, in the dtype of q.

    Args:
        q: (B, H, M, D); k, v: (B, G, N, D); contiguous, fp16, bf16 or fp32 (multiplied as tf32), on one GPU.
        causal: whether the mask is causal, aligned to the last key.
        config: block sizes, warps, stages of the two products; the schedule's default where None.
        device: catalogue name or `Device` for the schedule; that of the tensors where None.

    Returns:
        O (B, H, M, D) in the dtype of q.

    Raises:
        ValueError: tensors or configuration that the kernels cannot take; one line.
    """
    problem = problem_of(q, k, v, causal=causal)
    tensors = {"Q": q, "K": k, "V": v}
    run_all(launches_for("naive", problem, config, device, q), TWINS, tensors)
    return tensors["O"].view(q.shape)
