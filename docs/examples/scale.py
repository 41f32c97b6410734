"""Two kernels; `scale_float32.py` is a change to one of them, for `tilesight diff` (docs/diff.md)."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def add(X, Y, Z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Z + i, tl.load(X + i, mask=i < n) + tl.load(Y + i, mask=i < n), mask=i < n)


def run(n=1 << 26):
    x, z = torch.empty(n, device="cuda", dtype=torch.float16), torch.empty(n, device="cuda", dtype=torch.float16)
    y = torch.empty(n, device="cuda", dtype=torch.float16)
    scale[(n // 1024,)](x, y, n, BLOCK=1024)
    add[(n // 1024,)](x, z, z, n, BLOCK=1024)
