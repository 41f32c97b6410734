"""Kernels that users tune by the size of a block."""

from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

CONFIGS = [triton.Config({"BLOCK": size}, num_warps=4) for size in (64, 4096, 1024)]
N = 1 << 18


@triton.jit
def double(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def even_double(X, Y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(Y + i, tl.load(X + i) * 2)
    else:
        tl.store(Y + i, tl.load(X + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def gather(X, IDS, Y, D: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.arange(0, D)
    rows = tl.load(IDS + i)
    tl.store(Y + i[:, None] * D + j[None, :], tl.load(X + rows[:, None] * D + j[None, :]))


@triton.jit
def copy_boxes(X, Y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK
    Y.store([i, 0], X.load([i, 0]) + 1)


def doubled(device: str = "meta") -> tuple[torch.Tensor, torch.Tensor, int]:
    """Arguments of `double`."""
    return torch.zeros(N, device=device), torch.zeros(N, device=device), N


def gathered(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Arguments of `gather`, with the rows that one rank asks for."""
    ids = torch.randint(0, 1024, (2048,), generator=torch.Generator().manual_seed(seed), dtype=torch.int32)
    return torch.zeros(1024, 64, dtype=torch.float16), ids, torch.zeros(2048, 64, dtype=torch.float16)


def boxes() -> tuple[TensorDescriptor, TensorDescriptor]:
    """Arguments of `copy_boxes`, whose blocks a hook sets."""
    x, y = (TensorDescriptor.from_tensor(torch.ones(4096, 64, dtype=torch.float16), [8, 64]) for _ in range(2))
    return x, y


def set_blocks(given: dict[str, Any]) -> None:
    """A hook as users have them: it sets descriptors, and clears the output."""
    for name in ("X", "Y"):
        given[name].block_shape = [given["BLOCK"], 64]
    given["Y"].base.zero_()


def grid(given: dict[str, Any]) -> tuple[int]:
    """One CTA for each block."""
    size = given["n"] if "n" in given else 4096 if hasattr(given["X"], "base") else 2048
    return (triton.cdiv(size, given["BLOCK"]),)
