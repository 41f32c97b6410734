"""Unfused attention in Triton: six kernels, as an eager framework runs them; twin of `simulator/schedules/unfused.py`.

Scores, softmax and output are those of `naive`; scale, mask and dropout map score matrices element by element.
Dropout draws from Philox 4x32-10 by seed and position: the same seed drops the same elements, whatever the launch.
"""

from dataclasses import replace

import torch
import triton
import triton.language as tl

from ..simulator.device.device import Device
from ..simulator.schedules.config import Config
from ..simulator.schedules.contract import frozen
from .launch.launch import Roundings, allocate, launches_for, problem_of, run_all, twin_of
from .naive import TWINS as NAIVE_TWINS
from .reference import visible_keys


@triton.jit
def _place(seqlen_q, seqlen_k, block_rows: tl.constexpr, block_cols: tl.constexpr):
    """Where a CTA's tile is: slab, first row and first key."""
    q_tiles, k_tiles = tl.cdiv(seqlen_q, block_rows), tl.cdiv(seqlen_k, block_cols)
    strip = tl.program_id(0) // k_tiles
    return strip // q_tiles, (strip % q_tiles) * block_rows, (tl.program_id(0) % k_tiles) * block_cols


@triton.jit
def _tile(slab, row, key, seqlen_q, pitch, block_rows: tl.constexpr, block_cols: tl.constexpr):
    """Offsets of a tile's elements in a stack of matrices."""
    rows, keys = tl.arange(0, block_rows), tl.arange(0, block_cols)
    first = (slab.to(tl.int64) * seqlen_q + row) * pitch + key
    return first + (rows.to(tl.int64)[:, None] * pitch + keys[None, :])


@triton.jit
def _inside(row, key, seqlen_q, seqlen_k, block_rows: tl.constexpr, block_cols: tl.constexpr):
    """Which elements of a tile are elements of the matrix."""
    rows, keys = tl.arange(0, block_rows), tl.arange(0, block_cols)
    return (row + rows < seqlen_q)[:, None] & (key + keys < seqlen_k)[None, :]


@triton.jit
def scale_kernel(
    s_ptr, scaled_ptr, seqlen_q, seqlen_k, pitch, scale,
    block_rows: tl.constexpr, block_cols: tl.constexpr, whole: tl.constexpr,
):  # fmt: skip
    """One tile of S_scaled = S * scale."""
    slab, row, key = _place(seqlen_q, seqlen_k, block_rows, block_cols)
    tile = _tile(slab, row, key, seqlen_q, pitch, block_rows, block_cols)
    if whole:
        scores = tl.load(s_ptr + tile).to(tl.float32) * scale
        tl.store(scaled_ptr + tile, scores.to(scaled_ptr.dtype.element_ty))
    else:
        inside = _inside(row, key, seqlen_q, seqlen_k, block_rows, block_cols)
        scores = tl.load(s_ptr + tile, mask=inside, other=0.0).to(tl.float32) * scale
        tl.store(scaled_ptr + tile, scores.to(scaled_ptr.dtype.element_ty), mask=inside)


@triton.jit
def mask_kernel(
    scaled_ptr, mask_ptr, masked_ptr, seqlen_q, seqlen_k, pitch, mask_pitch,
    block_rows: tl.constexpr, block_cols: tl.constexpr, whole: tl.constexpr,
):  # fmt: skip
    """One tile of S_masked: S_scaled where MASK (one matrix for all heads) is not 0, else -inf."""
    slab, row, key = _place(seqlen_q, seqlen_k, block_rows, block_cols)
    tile = _tile(slab, row, key, seqlen_q, pitch, block_rows, block_cols)
    mask_tile = _tile(slab * 0, row, key, seqlen_q, mask_pitch, block_rows, block_cols)
    if whole:
        scores = tl.load(scaled_ptr + tile)
        visible = tl.load(mask_ptr + mask_tile) != 0
        tl.store(masked_ptr + tile, tl.where(visible, scores, float("-inf")))
    else:
        inside = _inside(row, key, seqlen_q, seqlen_k, block_rows, block_cols)
        scores = tl.load(scaled_ptr + tile, mask=inside, other=0.0)
        visible = tl.load(mask_ptr + mask_tile, mask=inside, other=0) != 0
        tl.store(masked_ptr + tile, tl.where(visible, scores, float("-inf")), mask=inside)


@triton.jit
def dropout_kernel(
    p_ptr, dropped_ptr, keep_ptr, seqlen_q, seqlen_k, pitch, keep_pitch, probability, seed,
    block_rows: tl.constexpr, block_cols: tl.constexpr, whole: tl.constexpr,
):  # fmt: skip
    """One tile of P_dropped = P / (1 - probability) where an element is kept, else 0; and of DROP_MASK."""
    slab, row, key = _place(seqlen_q, seqlen_k, block_rows, block_cols)
    tile = _tile(slab, row, key, seqlen_q, pitch, block_rows, block_cols)
    keep_tile = _tile(slab, row, key, seqlen_q, keep_pitch, block_rows, block_cols)
    keep = _uniform(slab, row, key, seqlen_q, seqlen_k, seed, block_rows, block_cols) >= probability
    scale = 1.0 / (1.0 - probability)
    if whole:
        p = tl.load(p_ptr + tile).to(tl.float32)
        tl.store(dropped_ptr + tile, tl.where(keep, p * scale, 0.0).to(dropped_ptr.dtype.element_ty))
        tl.store(keep_ptr + keep_tile, keep.to(tl.uint8))
    else:
        inside = _inside(row, key, seqlen_q, seqlen_k, block_rows, block_cols)
        p = tl.load(p_ptr + tile, mask=inside, other=0.0).to(tl.float32)
        tl.store(dropped_ptr + tile, tl.where(keep, p * scale, 0.0).to(dropped_ptr.dtype.element_ty), mask=inside)
        tl.store(keep_ptr + keep_tile, keep.to(tl.uint8), mask=inside)


@triton.jit
def _uniform(slab, row, key, seqlen_q, seqlen_k, seed, block_rows: tl.constexpr, block_cols: tl.constexpr):
    """Uniform numbers in [0, 1), one for each element; one call of Philox gives four neighbours theirs."""
    rows = tl.arange(0, block_rows).to(tl.int64)
    if block_cols >= 4:
        fours = tl.arange(0, block_cols // 4)
        counter = (slab.to(tl.int64) * seqlen_q + row + rows)[:, None] * tl.cdiv(seqlen_k, 4) + (key // 4 + fours)[
            None, :
        ]
        a, b, c, d = tl.rand4x(seed, counter)
        return tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), (block_rows, block_cols))
    else:
        counter = (slab.to(tl.int64) * seqlen_q + row + rows)[:, None] + tl.zeros((1, block_cols), tl.int64)
        a, b, _, _ = tl.rand4x(seed, counter)
        return tl.where(tl.arange(0, block_cols)[None, :] == 0, a, b)


ROUNDINGS = Roundings(scores=2, outputs=2)
"""Scores are stored before and after they are scaled, P before and after dropout."""
TWINS = {
    **NAIVE_TWINS,
    "scale": twin_of(scale_kernel),
    "mask": twin_of(mask_kernel),
    "dropout": twin_of(dropout_kernel),
}


def unfused(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int = 0,
    dropout: float = 0.0,
    seed: int = 0,
    config: Config | None = None,
    device: Device | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention by six kernels; every intermediate goes through device memory, in the dtype of q.

    Args:
        q: (B, H, M, D); k, v: (B, G, N, D); contiguous, fp16, bf16 or fp32 (multiplied as tf32), on one GPU.
        causal: whether the mask is causal, aligned to the last key; window: keys that a query sees at most, 0 for all.
            The mask is applied as a matrix in any case.
        dropout: probability that an element of P is dropped; seed: of what is dropped, an integer.
        config: block sizes, warps, stages of the two products; the schedule's default where None.
        device: catalogue name or `Device` for the schedule; that of the tensors where None.

    Returns:
        O (B, H, M, D) in the dtype of q, and a uint8 matrix (B, H, M, N) that is 1 where dropout kept an element.

    Raises:
        ValueError: tensors or configuration that the kernels cannot take; one line.
    """
    problem = problem_of(q, k, v, causal=causal, window=window, dropout=dropout)
    launches = launches_for("unfused", problem, config, device, q)
    mask = allocate(launches[2].program.tensor("MASK"), q.device)
    mask[0, :, : problem.seqlen_k] = visible_keys(problem.whole_mask, problem.seqlen_q, problem.seqlen_k, q.device)
    tensors = {"Q": q, "K": k, "V": v, "MASK": mask}
    seeded = [
        replace(launch, arguments=frozen(**launch.arguments | {"seed": seed})) if launch.name == "dropout" else launch
        for launch in launches
    ]
    run_all(tuple(seeded), TWINS, tensors)
    keep = tensors["DROP_MASK"][:, :, : problem.seqlen_k].unflatten(0, q.shape[:2])
    return tensors["O"].view(q.shape), keep
