"""From torch tensors to the kernels: descriptors, what they write, and the three launches."""

from dataclasses import dataclass
from typing import Any

import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from ...simulator.problems.attention_backward import AttentionBackwardProblem
from ..backward.call import Gradients
from ..flash3.call import descriptor
from ..launch.numbers import LOG2_E
from .kernel import BLOCK_N, HALF, gradients_kernel
from .rows import convert_kernel, prepare_kernel

AT_A_TIME = 8
"""KV slabs whose tiles are begun together under a causal mask, where the first key tile is the longest."""
SUM_COLUMNS = 128
"""Columns of the sums of dQ as a matrix."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Three launches, each its grid and arguments, and the gradients that they make."""

    before: tuple[tuple[int, int], tuple[Any, ...]]
    main: tuple[tuple[int], tuple[Any, ...]]
    after: tuple[tuple[int, int], tuple[Any, ...]]
    gradients: Gradients

    def run(self) -> None:
        """Launch the kernels."""
        prepare_kernel[self.before[0]](*self.before[1], num_warps=4)
        gradients_kernel[self.main[0]](*self.main[1], num_warps=4)
        convert_kernel[self.after[0]](*self.after[1], num_warps=4)


def plain_descriptor(tensor: torch.Tensor, width: int, box: list[int]) -> TensorDescriptor:
    """Numbers in fp32 in rows of a width, as they lie; of one dimension where the box is."""
    shape = [tensor.numel()] if len(box) == 1 else [tensor.numel() // width, width]
    strides = [1] if len(box) == 1 else [width, 1]
    return TensorDescriptor(tensor, shape, strides, box, gl.NVMMASharedLayout(0, 32, len(box)))


def prepare(given: dict[str, torch.Tensor], problem: AttentionBackwardProblem) -> Prepared:
    """The launches of a problem that the kernels have. Args: given: q, k, v, o, lse and do."""
    q, k, v, do = (given[name] for name in ("q", "k", "v", "do"))
    batch, heads, seqlen_q, dim = q.shape
    kv_heads, seqlen_k = k.shape[1:3]
    slabs, kv_slabs = batch * heads, batch * kv_heads
    block_m = 64 if dim == 128 else 128
    q_tiles, k_tiles = -(-seqlen_q // block_m), -(-seqlen_k // BLOCK_N)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    numbers = torch.empty(slabs * q_tiles * block_m * 2, dtype=torch.float32, device=q.device)
    sums = torch.empty(slabs * q_tiles * block_m * dim, dtype=torch.float32, device=q.device)
    queries = [descriptor(x, (slabs, seqlen_q, dim), (1, block_m, dim)) for x in (q, do)]
    keys = [descriptor(x, (kv_slabs, seqlen_k, dim), (1, BLOCK_N, dim)) for x in (k, v, dk, dv)]
    scale = dim**-0.5
    arguments = (
        *queries, *keys, plain_descriptor(numbers, 1, [2 * block_m]),
        plain_descriptor(sums, SUM_COLUMNS, [HALF * HALF // SUM_COLUMNS, SUM_COLUMNS]),
        seqlen_q, seqlen_k, heads // kv_heads, q_tiles, k_tiles, scale, scale * LOG2_E.value, block_m, dim,
        problem.causal, seqlen_k % BLOCK_N != 0, AT_A_TIME if problem.causal else 1,
    )  # fmt: skip
    return Prepared(
        ((q_tiles, slabs), (given["o"], do, given["lse"], numbers, sums, seqlen_q, q_tiles, dim, block_m)),
        ((kv_slabs * k_tiles,), arguments),
        ((2 * q_tiles, slabs), (sums, dq, seqlen_q, q_tiles, scale, dim, block_m)),
        Gradients(dq, dk, dv),
    )
