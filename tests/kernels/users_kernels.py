"""Kernels of the kind that people bring: each found a fault of its own, and was measured on an H100."""

import torch
import triton
import triton.language as tl


@triton.jit
def hist(X, Y, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h = tl.histogram(tl.load(X + i, mask=i < n, other=0), BINS)
    tl.atomic_add(Y + tl.arange(0, BINS), h, sem="relaxed")


@triton.jit
def hist_atomic(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(Y + tl.load(X + i, mask=i < n, other=0), 1, mask=i < n, sem="relaxed")


@triton.jit
def sine(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.sin(tl.load(X + i, mask=i < n)), mask=i < n)


@triton.jit
def rare(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + i, mask=i < n, other=0.0)
    if tl.max(x, 0) > 1e30:
        for k in range(64):
            x = tl.exp(x - k) * tl.cos(x)
    tl.store(Y + i, x, mask=i < n)


@triton.jit
def ln_bwd_atomic(X, DY, W, MU, RS, DX, DW, DB, N, BLOCK: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(X + r * N + c, mask=c < N, other=0.0).to(tl.float32)
    dy = tl.load(DY + r * N + c, mask=c < N, other=0.0).to(tl.float32)
    w = tl.load(W + c, mask=c < N, other=0.0).to(tl.float32)
    xh = (x - tl.load(MU + r)) * tl.load(RS + r)
    wd = w * dy
    tl.store(DX + r * N + c, (wd - (xh * tl.sum(xh * wd, 0) + tl.sum(wd, 0)) / N) * tl.load(RS + r), mask=c < N)
    tl.atomic_add(DW + c, dy * xh, mask=c < N, sem="relaxed")
    tl.atomic_add(DB + c, dy, mask=c < N, sem="relaxed")


@triton.jit
def product(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a, b = A + m[:, None] * K + k[None, :], B + n[None, :] * K + k[:, None]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, tl.cdiv(K, BK)):
        acc = tl.dot(tl.load(a), tl.load(b), acc)
        a += BK
        b += BK
    tl.store(C + m[:, None] * N + n[None, :], acc.to(tl.float16))


def histograms(n=1 << 22):
    torch.manual_seed(0)
    x, y = torch.randint(0, 256, (n,), dtype=torch.int32), torch.empty(256, device="meta", dtype=torch.int32)
    hist[(n // 2048,)](x, y, n, BINS=256, BLOCK=2048)
    hist_atomic[(n // 2048,)](x, y, n, BLOCK=2048)


def elementwise(n=1 << 24):
    x = torch.empty(n, device="meta")
    sine[(n // 1024,)](x, torch.empty_like(x), n, BLOCK=1024)
    rare[(n // 1024,)](x, torch.empty_like(x), n, BLOCK=1024)


def layer_norm(rows=4096, cols=4096):
    x, dy, dx = (torch.empty(rows, cols, device="meta", dtype=torch.float16) for _ in range(3))
    w, dw, db = (torch.empty(cols, device="meta", dtype=kind) for kind in (torch.float16, torch.float32, torch.float32))
    mean, rstd = (torch.empty(rows, device="meta") for _ in range(2))
    ln_bwd_atomic[(rows,)](x, dy, w, mean, rstd, dx, dw, db, cols, BLOCK=4096, num_warps=8)


def matmul(n=4096, dtype=torch.float16):
    a, b = (torch.empty(n, n, device="meta", dtype=dtype) for _ in range(2))
    c = torch.empty(n, n, device="meta", dtype=torch.float16)
    product[(n // 128, n // 128)](a, b, c, n, n, n, BM=128, BN=128, BK=64, num_warps=4, num_stages=3)


@triton.jit
def first_visit_adds(A, B, C, DIAGONAL: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """The first of the visits of the inner loop multiplies twice, as the backward pass of an mLSTM does."""
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    acc, more = tl.zeros([BLOCK, BLOCK], tl.float32), tl.zeros([BLOCK, BLOCK], tl.float32)
    visits = tl.program_id(0) + 1 if DIAGONAL else 4
    for visit in range(visits):
        for k in range(STEPS):
            a = tl.load(A + i * BLOCK * STEPS + k * BLOCK + j)
            if visit == 0:
                more = tl.dot(a, tl.load(B + (k * BLOCK + i) * BLOCK + j), more)
            acc = tl.dot(a, tl.load(B + ((visit * STEPS + k) * BLOCK + i) * BLOCK + j), acc)
    tl.store(C + tl.program_id(0) * BLOCK * BLOCK + i * BLOCK + j, acc + more)


def first_visits(diagonal: bool, ctas: int = 1024) -> int:
    """Launch `first_visit_adds`. Returns: its operations [FLOP]."""
    steps, block = 8, 64
    visits = [cta % 2 + 1 if diagonal else 4 for cta in range(ctas)]
    half = {"device": "meta", "dtype": torch.float16}
    a, b = torch.empty(block, block * steps, **half), torch.empty(4 * steps * block, block, **half)
    c = torch.empty(ctas, block, block, device="meta")
    grid = (2, ctas // 2) if diagonal else (ctas,)
    first_visit_adds[grid](a, b, c, DIAGONAL=diagonal, STEPS=steps, BLOCK=block)
    return sum(2 * block**3 * steps * (visit + 1) for visit in visits)
