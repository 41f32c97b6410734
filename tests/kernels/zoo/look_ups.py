"""Small kernels that look values up in a codebook, at indices that are computed or loaded; and one that loads twice."""

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


@triton.jit
def differences(X, Z, N: tl.constexpr, CACHE: tl.constexpr):
    r = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(X + r, cache_modifier=CACHE)
    tl.store(Z + r, tl.load(X + r + N // 2, cache_modifier=CACHE) - x)
