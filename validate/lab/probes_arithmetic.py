"""Probes of what warps compute: scans, sorts, bits, taps, small products, random numbers, casts, powers, norms.

Written without a look at what the model knows, nothing of which was tuned on them. A probe is a function of the device
and of a variant that makes tensors and returns a function without arguments, which launches.
Addresses are in range whatever the tensors hold. `probes_measure.py` predicts and measures. No Tilesight here.
"""

import torch
import triton
import triton.language as tl
from probes_kept import blank, floats, probe
from triton.language.extra import libdevice


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def k_cummax(X, Y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + at, tl.associative_scan(tl.load(X + at), 0, larger))


@probe("running maximum of 16,384 rows of 2,048 fp32 by associative_scan, a CTA of 4 warps a row")
def cummax(device):
    x, y = floats(device, 16384, 2048), blank(device, 16384, 2048)
    return lambda: k_cummax[(16384,)](x, y, 2048)


@triton.jit
def k_wide_softmax(X, Y, N, BLOCK: tl.constexpr):
    start, c = tl.program_id(0).to(tl.int64) * N, tl.arange(0, BLOCK)
    most, total = -float("inf"), 0.0
    for at in range(0, N, BLOCK):
        x = tl.load(X + start + at + c)
        new = tl.maximum(most, tl.max(x, 0))
        total = total * tl.exp(most - new) + tl.sum(tl.exp(x - new), 0)
        most = new
    for at in range(0, N, BLOCK):
        tl.store(Y + start + at + c, tl.exp(tl.load(X + start + at + c) - most) / total)


@probe("softmax of 200 rows of 2^17 fp32 (105 MB), twice read, by CTAs of 8 warps and steps of 4,096; 1.5 CTAs an SM")
def wide_softmax(device):
    x, y = floats(device, 200, 1 << 17), blank(device, 200, 1 << 17)
    return lambda: k_wide_softmax[(200,)](x, y, 1 << 17, 4096, num_warps=8)


@triton.jit
def k_top(X, Y, N: tl.constexpr, K: tl.constexpr):
    c = tl.arange(0, N)
    ordered = tl.sort(tl.load(X + tl.program_id(0) * N + c), descending=True)
    tl.store(Y + tl.program_id(0) * K + c, ordered, mask=c < K)


@probe("the 8 largest of rows of 512 fp32 by tl.sort of the whole row; 8,192 CTAs of 4 warps")
def top(device):
    x, y = floats(device, 8192, 512), blank(device, 8192, 8)
    return lambda: k_top[(8192,)](x, y, 512, 8)


@triton.jit
def k_pack(X, Y, WORDS: tl.constexpr):
    x = tl.load(X + tl.program_id(0) * WORDS * 32 + tl.arange(0, WORDS * 32))
    bits = tl.reshape((x > 0).to(tl.int32), (WORDS, 32)) << tl.arange(0, 32)[None, :]
    tl.store(Y + tl.program_id(0) * WORDS + tl.arange(0, WORDS), tl.sum(bits, 1))


@probe("signs of 2^26 bf16 packed to 32 bits a word: shifts, and sums over lanes")
def pack(device):
    x, y = floats(device, 1 << 26, dtype=torch.bfloat16), blank(device, 1 << 21, dtype=torch.int32)
    return lambda: k_pack[(1 << 14,)](x, y, 128)


@triton.jit
def k_conv(X, W, Y, N, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    row, i = tl.program_id(1) * N, tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(TAPS):
        at = i + tap - TAPS // 2
        x = tl.load(X + row + at, mask=(at >= 0) & (at < N), other=0.0)
        total += x * tl.load(W + tl.program_id(1) * TAPS + tap)
    tl.store(Y + row + i, total, mask=i < N)


@probe("31 taps over 256 channels of 65,536 fp32: 31 shifted loads with masks, of which 30 are unaligned")
def conv(device):
    x, w, y = floats(device, 256, 65536), floats(device, 256, 31), blank(device, 256, 65536)
    return lambda: k_conv[(64, 256)](x, w, y, 65536, 31, 1024)


@triton.jit
def k_tiny(A, B, C, N: tl.constexpr):
    r, c = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    at = tl.program_id(0) * N * N + r * N + c
    tl.store(C + at, tl.dot(tl.load(A + at), tl.load(B + at)).to(tl.float16))


@probe("65,536 products of 16 x 16 x 16 fp16, a CTA a product", {"warps": 1}, {"warps": 4})
def tiny(device, warps):
    a, b, c = (floats(device, 65536, 16, 16, dtype=torch.float16) for _ in range(3))
    return lambda: k_tiny[(65536,)](a, b, c, 16, num_warps=warps)


@triton.jit
def k_split(A, B, C, K, N: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    r, c = tl.program_id(0) * T + tl.arange(0, T), tl.program_id(1) * T + tl.arange(0, T)
    part = K // tl.num_programs(2)
    k = tl.program_id(2) * part + tl.arange(0, BK)
    total = tl.zeros((T, T), tl.float32)
    for _ in range(0, part, BK):
        total = tl.dot(tl.load(A + r[:, None] * K + k[None, :]), tl.load(B + c[None, :] * K + k[:, None]), total)
        k += BK
    tl.atomic_add(C + r[:, None] * N + c[None, :], total, sem="relaxed")


@probe("256 x 256 x 65,536 bf16, split 64 times along K, tiles of 64 x 64: 1,024 CTAs add to 256 KB of fp32")
def split(device):
    a, b = floats(device, 256, 65536, dtype=torch.bfloat16), floats(device, 256, 65536, dtype=torch.bfloat16)
    c = blank(device, 256, 256)
    return lambda: k_split[(4, 4, 64)](a, b, c, 65536, 256, 64, 64, num_stages=3)


@triton.jit
def k_dropout(X, Y, seed, P: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, at) > P
    tl.store(Y + at, tl.where(kept, tl.load(X + at) / (1 - P), 0.0))


@probe("dropout of 2^25 bf16, a number of tl.rand for each")
def dropout(device):
    x, y = floats(device, 1 << 25, dtype=torch.bfloat16), blank(device, 1 << 25, dtype=torch.bfloat16)
    return lambda: k_dropout[(1 << 15,)](x, y, 54, 0.1, 1024)


@triton.jit
def k_to_fp8(X, Y, S, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(X + at).to(tl.float32)
    scale = tl.max(tl.abs(x), 0) / 448.0 + 1e-12
    tl.store(S + tl.program_id(0), scale)
    tl.store(Y + at, (x / scale).to(tl.float8e4nv))


@probe("16,384 rows of 4,096 bf16 scaled to fp8 (e4m3) by their largest, a CTA of 4 warps a row")
def to_fp8(device):
    x, s = floats(device, 16384, 4096, dtype=torch.bfloat16), blank(device, 16384)
    y = torch.empty(16384, 4096, device=device, dtype=torch.float8_e4m3fn)
    return lambda: k_to_fp8[(16384,)](x, y, s, 4096)


@triton.jit
def k_polynomial(X, Y, DEGREE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + at)
    y = x
    for power in tl.static_range(DEGREE):
        y = y * x + (power * 0.37 - 3.0)
    tl.store(Y + at, y)


@probe("a polynomial of degree 600, unrolled, its coefficients in the code, of 2^22 fp32, 8 a thread")
def polynomial(device):
    x, y = floats(device, 1 << 22), blank(device, 1 << 22)
    return lambda: k_polynomial[(1 << 12,)](x, y, 600, 1024)


@triton.jit
def k_power(X, Y, exponent, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + at)
    for _ in tl.static_range(4):
        x = libdevice.pow(tl.abs(x) + 0.5, exponent) + tl.log2(x * x + 1.0)
    tl.store(Y + at, x)


@probe("powers by libdevice.pow, exponent a scalar argument, and logarithms, four times over, of 2^23 fp32")
def power(device):
    x, y = floats(device, 1 << 23), blank(device, 1 << 23)
    return lambda: k_power[(1 << 13,)](x, y, 0.7, 1024)


@triton.jit
def k_row(X, Y, N, PITCH, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    x = tl.load(X + tl.program_id(0) * PITCH + c, mask=c < N, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 0) / N + 1e-5)
    tl.store(Y + tl.program_id(0) * PITCH + c, (x * scale).to(tl.bfloat16), mask=c < N)


@probe("norm of 32,768 rows of bf16, a CTA a row: of 1,024 by 1 warp, by 16 warps, and of 1,001 with that pitch by 4",
       {"n": 1024, "warps": 1}, {"n": 1024, "warps": 16}, {"n": 1001, "warps": 4})  # fmt: skip
def row(device, n, warps):
    x, y = floats(device, 32768, n, dtype=torch.bfloat16), blank(device, 32768, n, dtype=torch.bfloat16)
    return lambda: k_row[(32768,)](x, y, n, n, 1024, num_warps=warps)
