"""Small kernels that go through tiles of matrices: products, attention, transposes; persistent, split, paged."""

import torch
import triton
import triton.language as tl


@triton.jit
def gemm(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EVEN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        if EVEN:
            a = tl.load(A + rm[:, None] * K + rk[None, :])
            b = tl.load(B + rk[:, None] * N + rn[None, :])
        else:
            a = tl.load(A + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
            b = tl.load(B + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(C + rm[:, None] * N + rn[None, :], acc.to(tl.float16), mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def gemm_grouped(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    t = tl.program_id(0)
    mb, nb = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = t // (GROUP * nb) * GROUP
    rows = tl.minimum(mb - first, GROUP)
    pm, pn = first + t % (GROUP * nb) % rows, t % (GROUP * nb) // rows
    rm = (pm * BM + tl.arange(0, BM)) % M
    rn = (pn * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    a_at, b_at = A + rm[:, None] * K + rk[None, :], B + rk[:, None] * N + rn[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_at, mask=rk[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_at, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_at += BK
        b_at += BK * N
    cm, cn = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
    tl.store(C + cm[:, None] * N + cn[None, :], acc.to(tl.float16), mask=(cm[:, None] < M) & (cn[None, :] < N))


@triton.jit
def gemm_persistent(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    nb = tl.cdiv(N, BN)
    for t in range(tl.program_id(0), tl.cdiv(M, BM) * nb, tl.num_programs(0)):
        rm, rn = t // nb * BM + tl.arange(0, BM), t % nb * BN + tl.arange(0, BN)
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            a = tl.load(A + rm[:, None] * K + rk[None, :])
            b = tl.load(B + rk[:, None] * N + rn[None, :])
            acc = tl.dot(a, b, acc)
        tl.store(C + rm[:, None] * N + rn[None, :], acc.to(tl.float16))


@triton.jit
def gemm_one_loop(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """As `gemm_persistent`, in one loop: products are stored in the last of the iterations that a tile takes."""
    nb, kb = tl.cdiv(N, BN), tl.cdiv(K, BK)
    mine = tl.cdiv(tl.cdiv(M, BM) * nb - tl.program_id(0), tl.num_programs(0))
    acc = tl.zeros([BM, BN], tl.float32)
    for i in range(0, mine * kb):
        t, k = tl.program_id(0) + i // kb * tl.num_programs(0), i % kb
        rm, rn, rk = t // nb * BM + tl.arange(0, BM), t % nb * BN + tl.arange(0, BN), k * BK + tl.arange(0, BK)
        acc = tl.dot(tl.load(A + rm[:, None] * K + rk[None, :]), tl.load(B + rk[:, None] * N + rn[None, :]), acc)
        if k == kb - 1:
            tl.store(C + rm[:, None] * N + rn[None, :], acc.to(tl.float16))
            acc = tl.zeros([BM, BN], tl.float32)


@triton.jit
def gemm_split(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    nb = tl.cdiv(N, BN)
    rm = tl.program_id(0) // nb * BM + tl.arange(0, BM)
    rn = tl.program_id(0) % nb * BN + tl.arange(0, BN)
    rk = tl.program_id(1) * BK + tl.arange(0, BK)
    acc = tl.zeros([BM, BN], tl.float32)
    for _ in range(0, tl.cdiv(K, BK * SPLIT)):
        a = tl.load(A + rm[:, None] * K + rk[None, :])
        b = tl.load(B + rk[:, None] * N + rn[None, :])
        acc = tl.dot(a, b, acc)
        rk += BK * SPLIT
    tl.atomic_add(C + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def products_below(X, Y, Z, blocks, D: tl.constexpr, B: tl.constexpr):
    """Each block of rows times those below it, of which the last has none: there the inner loop is not entered."""
    base = tl.program_id(0) * blocks * B * D
    rb, rd = tl.arange(0, B), tl.arange(0, D)
    for j in range(0, blocks):
        x = tl.load(X + base + (j * B + rb[:, None]) * D + rd[None, :])
        total = tl.zeros([B, B], tl.float32)
        for i in range(j + 1, blocks):
            y = tl.load(Y + base + (i * B + rb[None, :]) * D + rd[:, None])
            total = tl.dot(x, y, total)
        tl.store(Z + base + (j * B + rb[:, None]) * D + rd[None, :], (x * tl.sum(total, 1)[:, None]).to(tl.float16))


@triton.jit
def transpose(X, Z, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    x = tl.load(X + rm[:, None] * N + rn[None, :], mask=(rm[:, None] < M) & (rn[None, :] < N))
    tl.store(Z + rn[:, None] * M + rm[None, :], tl.trans(x), mask=(rn[:, None] < N) & (rm[None, :] < M))


@triton.jit
def attention(Q, K, V, Z, N, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    mb, head = tl.program_id(0), tl.program_id(1)
    rm, rd = mb * BM + tl.arange(0, BM), tl.arange(0, D)
    base = head * N * D
    q = tl.load(Q + base + rm[:, None] * D + rd[None, :], mask=rm[:, None] < N, other=0.0)
    top, total = tl.full([BM], -1e30, tl.float32), tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    stop = tl.minimum((mb + 1) * BM, N) if CAUSAL else N
    for at in range(0, stop, BN):
        rn = at + tl.arange(0, BN)
        k = tl.load(K + base + rn[None, :] * D + rd[:, None], mask=rn[None, :] < N, other=0.0)
        s = tl.dot(q, k) * scale
        ok = (rm[:, None] >= rn[None, :]) & (rn[None, :] < N) if CAUSAL else rn[None, :] < N
        s = tl.where(ok, s, -1e30)
        new = tl.maximum(top, tl.max(s, 1))
        p, alpha = tl.exp(s - new[:, None]), tl.exp(top - new)
        v = tl.load(V + base + rn[:, None] * D + rd[None, :], mask=rn[:, None] < N, other=0.0)
        acc = tl.dot(p.to(tl.float16), v, acc * alpha[:, None])
        total, top = total * alpha + tl.sum(p, 1), new
    tl.store(Z + base + rm[:, None] * D + rd[None, :], (acc / total[:, None]).to(tl.float16), mask=rm[:, None] < N)


@triton.jit
def attention_ragged(Q, K, Z, STARTS, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    mb, group = tl.program_id(0), tl.program_id(1)
    begin, end = tl.load(STARTS + group), tl.load(STARTS + group + 1)
    if mb * BM >= end - begin:
        return
    rm, rd = begin + mb * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(Q + rm[:, None] * D + rd[None, :], mask=rm[:, None] < end, other=0.0)
    acc = tl.zeros([BM], tl.float32)
    for at in range(begin, end, BN):
        rn = at + tl.arange(0, BN)
        k = tl.load(K + rn[None, :] * D + rd[:, None], mask=rn[None, :] < end, other=0.0)
        acc += tl.sum(tl.dot(q, k), 1)
    tl.store(Z + rm, acc, mask=rm < end)


@triton.jit
def paged_sum(CACHE, TABLE, LENGTHS, Z, PAGES, D: tl.constexpr, PAGE: tl.constexpr):
    sequence = tl.program_id(0)
    length = tl.load(LENGTHS + sequence)
    rd, rp = tl.arange(0, D), tl.arange(0, PAGE)
    acc = tl.zeros([D], tl.float32)
    for page in range(0, tl.cdiv(length, PAGE)):
        block = tl.load(TABLE + sequence * PAGES + page).to(tl.int64)
        inside = page * PAGE + rp < length
        rows = tl.load(CACHE + (block * PAGE + rp[:, None]) * D + rd[None, :], mask=inside[:, None], other=0.0)
        acc += tl.sum(rows.to(tl.float32), 0)
    tl.store(Z + sequence * D + rd, acc)


def _half(*shape):
    return lambda device: torch.zeros(shape, device=device, dtype=torch.float16)


def _single(*shape):
    return lambda device: torch.zeros(shape, device=device)


def _whole(*values):
    return lambda device: torch.tensor(values, dtype=torch.int32)


def _of(kernel, grid, *arguments, **options):
    def case(device):
        made = [argument(device) if callable(argument) else argument for argument in arguments]
        return lambda: kernel[grid](*made, **options)

    return case


TILES = {"BM": 32, "BN": 32, "BK": 32}
CASES = {
    "gemm": _of(gemm, (2, 3), _half(64, 160), _half(160, 96), _half(64, 96), 64, 96, 160, EVEN=True, **TILES),
    "gemm_deep": _of(
        gemm, (2, 2), _half(64, 160), _half(160, 64), _half(64, 64), 64, 64, 160, EVEN=True, num_stages=4, **TILES
    ),
    "gemm_one_trip": _of(gemm, (2, 2), _half(64, 32), _half(32, 64), _half(64, 64), 64, 64, 32, EVEN=True, **TILES),
    "gemm_edges": _of(gemm, (3, 3), _half(72, 104), _half(104, 88), _half(72, 88), 72, 88, 104, EVEN=False, **TILES),
    "gemm_grouped": _of(
        gemm_grouped, (9,), _half(96, 104), _half(104, 96), _half(96, 96), 96, 96, 104, GROUP=2, **TILES
    ),
    "gemm_persistent": _of(gemm_persistent, (3,), _half(96, 96), _half(96, 96), _half(96, 96), 96, 96, 96, **TILES),
    "gemm_one_loop": _of(gemm_one_loop, (3,), _half(96, 96), _half(96, 96), _half(96, 96), 96, 96, 96, **TILES),
    "gemm_split": _of(
        gemm_split, (4, 2), _half(64, 128), _half(128, 64), _single(64, 64), 64, 64, 128, SPLIT=2, **TILES
    ),
    "products_below": _of(products_below, (2,), *(_half(2, 256, 32) for _ in range(3)), 8, D=32, B=32),
    "transpose": _of(transpose, (3, 2), _half(80, 64), _half(64, 80), 80, 64, BM=32, BN=32),
    "attention": _of(
        attention, (2, 2), *(_half(2, 64, 64) for _ in range(4)), 64, 0.1, D=64, BM=32, BN=32, CAUSAL=False
    ),
    "attention_causal": _of(
        attention, (5, 2), *(_half(2, 150, 32) for _ in range(4)), 150, 0.1, D=32, BM=32, BN=32, CAUSAL=True
    ),
    "attention_ragged": _of(
        attention_ragged, (3, 4), _half(200, 32), _half(200, 32), _single(200), _whole(0, 40, 40, 120, 200),
        D=32, BM=32, BN=32,
    ),
    "paged_sum": _of(
        paged_sum, (3,), _half(20 * 16, 64), _whole(3, 17, 5, 0, 9, 1, 2, 0, 19, 4, 11, 8), _whole(60, 20, 64),
        _single(3, 64), 4, D=64, PAGE=16,
    ),
}  # fmt: skip
