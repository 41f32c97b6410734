"""The oracle of row softmax: in fp64 for the truth, and in fp32 rounded to the dtype for the tolerance, row by row.

Beyond twice the plain computation's error, a row may be off by one rounding of its output,
and by the roundings that a kernel of its blocks makes in fp32: those of its sum, and, without a maximum,
those of exponents that are large themselves.
"""

import torch

from .reference import Verdict, judge

FP32_ROUNDINGS = 4
"""Exponential (two units in the last place on a GPU), reciprocal, product."""
BLOCK_ROUNDINGS = 3
"""Of a running sum, a block: one addition; where it is rescaled, an exponential (relative to 1) and a product."""


def softmax(x: torch.Tensor, *, working: bool = False) -> torch.Tensor:
    """Softmax along the last axis; rows of -inf alone are 0.

    Args:
        working: compute in fp32 and round to the dtype of x; else fp64.
    """
    precision = torch.float32 if working else torch.float64
    y = torch.softmax(x.to(precision), dim=-1)
    y = y.masked_fill((x == float("-inf")).all(dim=-1, keepdim=True), 0.0)
    return y.to(x.dtype) if working else y


def judge_softmax(y: torch.Tensor, x: torch.Tensor, *, block_n: int, safe: bool = True) -> Verdict:
    """Hold a kernel's softmax against the truth, each row against its own largest element.

    Args:
        y, x: (batch, heads, M, N); block_n: columns of the kernel's block;
        safe: whether it subtracts the maximum before it exponentiates.

    Returns:
        The verdict. A NaN never passes.
    """
    blocks = -(-x.shape[-1] // block_n)
    within_block = (block_n - 1).bit_length()  # a tree of additions
    roundings = FP32_ROUNDINGS + within_block + BLOCK_ROUNDINGS * blocks
    largest = torch.zeros_like(x[..., 0], dtype=torch.float64)
    if not safe:
        largest = x.double().masked_fill(torch.isinf(x), 0.0).abs().amax(dim=-1)
    # Rows stand where `judge` has heads.
    return judge(
        *(rows.flatten(0, 1) for rows in (y, softmax(x), softmax(x, working=True))),
        ulps=1,
        largest_score=(largest + roundings).flatten(0, 1),
    )
