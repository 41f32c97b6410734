"""Small kernels that look values up in a codebook, at indices that are computed or loaded."""

import triton
import triton.language as tl


@triton.jit
def nearest(X, CODES, Z, N: tl.constexpr):
    r = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(X + r)
    index = (x * 255.0).to(tl.int32) & 255
    better = (index + (tl.load(CODES + index) * 8.0).to(tl.int32)) & 255
    tl.store(Z + r, tl.load(CODES + better))


@triton.jit
def dequantise(INDEX, CODES, Z, N: tl.constexpr):
    r = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(Z + r, tl.load(CODES + tl.load(INDEX + r).to(tl.int32)))
