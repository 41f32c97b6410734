"""Small kernels whose tiles come from index data: pages of a cache, tokens of experts, blocks of a mask, groups."""

import torch
import triton
import triton.language as tl
from zoo.arguments import case_of, half, shuffled, single, whole


@triton.jit
def paged_attention(
    Q, K, V, TABLE, LENGTHS, Z, scale, PAGES, H, G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr
):  # fmt: skip
    b, h = tl.program_id(0), tl.program_id(1)
    n = tl.load(LENGTHS + b)
    rg, rd, rp = tl.arange(0, 16), tl.arange(0, D), tl.arange(0, PAGE)
    at = ((b * H + h) * G + rg[:, None]) * D + rd[None, :]
    q = tl.load(Q + at, mask=rg[:, None] < G, other=0.0)
    top, total = tl.full([16], -1e30, tl.float32), tl.zeros([16], tl.float32)
    acc = tl.zeros([16, D], tl.float32)
    for i in range(0, tl.cdiv(n, PAGE)):
        page = tl.load(TABLE + b * PAGES + i).to(tl.int64)
        row = (page * PAGE + rp) * H + h
        s = tl.dot(q, tl.load(K + row[None, :] * D + rd[:, None])) * scale
        s = tl.where((i * PAGE + rp)[None, :] < n, s, -1e30)
        new = tl.maximum(top, tl.max(s, 1))
        p, alpha = tl.exp(s - new[:, None]), tl.exp(top - new)
        v = tl.load(V + row[:, None] * D + rd[None, :])
        acc = tl.dot(p.to(tl.float16), v, acc * alpha[:, None])
        total, top = total * alpha + tl.sum(p, 1), new
    tl.store(Z + at, (acc / total[:, None]).to(tl.float16), mask=rg[:, None] < G)


@triton.jit
def paged_rows(
    Q, K, V, TABLE, LENGTHS, Z, scale, PAGES, D: tl.constexpr, PAGE: tl.constexpr, BN: tl.constexpr
):  # fmt: skip
    b = tl.program_id(0)
    n = tl.load(LENGTHS + b)
    rg, rd = tl.arange(0, 16), tl.arange(0, D)
    q = tl.load(Q + (b * 16 + rg[:, None]) * D + rd[None, :])
    top, total = tl.full([16], -1e30, tl.float32), tl.zeros([16], tl.float32)
    acc = tl.zeros([16, D], tl.float32)
    for at in range(0, n, BN):
        rn = at + tl.arange(0, BN)
        inside = rn < n
        page = tl.load(TABLE + b * PAGES + rn // PAGE, mask=inside, other=0)
        row = page * PAGE + rn % PAGE
        k = tl.load(K + row[None, :] * D + rd[:, None], mask=inside[None, :], other=0.0)
        s = tl.where(inside[None, :], tl.dot(q, k) * scale, -1e30)
        new = tl.maximum(top, tl.max(s, 1))
        p, alpha = tl.exp(s - new[:, None]), tl.exp(top - new)
        v = tl.load(V + row[:, None] * D + rd[None, :], mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(tl.float16), v, acc * alpha[:, None])
        total, top = total * alpha + tl.sum(p, 1), new
    tl.store(Z + (b * 16 + rg[:, None]) * D + rd[None, :], (acc / total[:, None]).to(tl.float16))


@triton.jit
def equal_pages(X, TABLE, Z, trips, PAGE: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr, STAGES: tl.constexpr):
    row, column = tl.arange(0, ROWS), tl.arange(0, D)
    total = tl.zeros([ROWS, D], tl.float32)
    for i in tl.range(0, trips, num_stages=STAGES):
        key = (tl.program_id(0) * trips + i) * ROWS + row
        page = tl.load(TABLE + key // PAGE)
        total += tl.load(X + (page * PAGE + key % PAGE)[:, None] * D + column[None, :])
    tl.store(Z + tl.program_id(0) * D + column, tl.sum(total, 0))


@triton.jit
def experts_gemm(
    A, W, C, TOKENS, EXPERTS, PADDED, valid, N, K,
    TOP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0)
    nb = tl.cdiv(N, BN)
    pm, pn = t // nb, t % nb
    if pm * BM >= tl.load(PADDED):
        return
    token = tl.load(TOKENS + (pm * BM + tl.arange(0, BM)).to(tl.int64)).to(tl.int64)
    inside = token < valid
    expert = tl.load(EXPERTS + pm).to(tl.int64)
    rn, rk = (pn * BN + tl.arange(0, BN)) % N, tl.arange(0, BK)
    a_at = A + (token[:, None] // TOP) * K + rk[None, :]
    w_at = W + expert * N * K + rk[:, None] + rn[None, :] * K
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_at, mask=inside[:, None] & (rk[None, :] < K - k * BK), other=0.0)
        w = tl.load(w_at, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, w, acc)
        a_at += BK
        w_at += BK
    cn = pn * BN + tl.arange(0, BN)
    tl.store(C + token[:, None] * N + cn[None, :], acc.to(tl.float16), mask=inside[:, None] & (cn[None, :] < N))


@triton.jit
def sparse_attention(
    Q, K, V, STARTS, BLOCKS, Z, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):  # fmt: skip
    mb = tl.program_id(0)
    rm, rd = mb * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(Q + rm[:, None] * D + rd[None, :])
    top, total = tl.full([BM], -1e30, tl.float32), tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for at in range(tl.load(STARTS + mb), tl.load(STARTS + mb + 1)):
        rn = tl.load(BLOCKS + at) * BN + tl.arange(0, BN)
        s = tl.dot(q, tl.load(K + rn[None, :] * D + rd[:, None])) * scale
        new = tl.maximum(top, tl.max(s, 1))
        p, alpha = tl.exp(s - new[:, None]), tl.exp(top - new)
        acc = tl.dot(p.to(tl.float16), tl.load(V + rn[:, None] * D + rd[None, :]), acc * alpha[:, None])
        total, top = total * alpha + tl.sum(p, 1), new
    tl.store(Z + rm[:, None] * D + rd[None, :], (acc / total[:, None]).to(tl.float16))


@triton.jit
def grouped_gemm(A, B, C, ENDS, N, K, GROUPS, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    t = tl.program_id(0)
    nb = tl.cdiv(N, BN)
    begin, tiles, group = 0, 0, 0
    end = tl.load(ENDS)
    mine = tl.cdiv(end, BM) * nb
    while (t >= tiles + mine) & (group + 1 < GROUPS):
        tiles += mine
        group += 1
        begin = end
        end = tl.load(ENDS + group)
        mine = tl.cdiv(end - begin, BM) * nb
    if t < tiles + mine:
        rm = begin + (t - tiles) // nb * BM + tl.arange(0, BM)
        rn, rk = (t - tiles) % nb * BN + tl.arange(0, BN), tl.arange(0, BK)
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            a = tl.load(A + rm[:, None] * K + (k + rk)[None, :], mask=(rm < end)[:, None], other=0.0)
            b = tl.load(B + group * N * K + (k + rk)[:, None] * N + rn[None, :])
            acc = tl.dot(a, b, acc)
        tl.store(C + rm[:, None] * N + rn[None, :], acc.to(tl.float16), mask=(rm < end)[:, None])


def _tokens():
    """Tokens of 3 experts in blocks of 16, padded with 40; the expert of each block."""
    chosen = torch.randint(0, 3, (40,), generator=torch.Generator().manual_seed(3))
    tokens, experts = [], []
    for expert in range(3):
        of_expert = torch.nonzero(chosen == expert).flatten().tolist()
        of_expert += [40] * (-len(of_expert) % 16)
        tokens += of_expert
        experts += [expert] * (len(of_expert) // 16)
    return tokens, experts


TOKENS, EXPERTS = _tokens()
SMALL = {"BM": 16, "BN": 32, "BK": 32}
PAGED = (
    half(3 * 2 * 8, 64), half(24 * 16 * 2, 64), half(24 * 16 * 2, 64), whole(shuffled(24, 1, 24)), whole([90, 33, 16]),
    half(3 * 2 * 8, 64), 0.1, 8, 2,
)  # fmt: skip
BY_ROW = (
    half(3 * 16, 64), half(48 * 8, 64), half(48 * 8, 64), whole(shuffled(48, 2, 48)), whole([80, 37, 5]),
    half(3 * 16, 64), 0.1, 16,
)  # fmt: skip
SPARSE = (
    half(128, 64), half(256, 64), half(256, 64), whole([0, 3, 4, 8, 9]), whole([5, 0, 2, 7, 1, 3, 6, 4, 0]),
    half(128, 64), 0.1,
)  # fmt: skip
CASES = {
    **{
        f"paged_attention_{stages}": case_of(
            paged_attention, (3, 2), *PAGED, G=8, D=64, PAGE=16, num_stages=stages, num_warps=warps
        )
        for stages, warps in ((1, 4), (2, 4), (3, 4), (4, 2))
    },
    **{
        f"paged_rows_{stages}": case_of(paged_rows, (3,), *BY_ROW, D=64, PAGE=8, BN=32, num_stages=stages)
        for stages in (1, 2, 3, 4)
    },
    **{
        f"equal_pages_{page}_{stages}": case_of(
            equal_pages, (4,), half(4 * 6 * 64, 64), whole(shuffled(4 * 6 * 64 // page, 3, 4 * 6 * 64 // page)),
            single(4, 64), 6, PAGE=page, ROWS=64, D=64, STAGES=stages,
        )
        for page, stages in ((4, 3), (16, 1), (16, 2), (16, 3), (32, 4))
    },
    **{
        f"experts_gemm_{stages}": case_of(
            experts_gemm, (2 * len(EXPERTS) + 2,), half(20, 72), half(3, 64, 72), half(40, 64), whole(TOKENS),
            whole([*EXPERTS, -1]), whole([len(TOKENS)]), 40, 64, 72, TOP=2, num_stages=stages, **SMALL,
        )
        for stages in (2, 3)
    },
    "sparse_attention_2": case_of(sparse_attention, (4,), *SPARSE, D=64, BM=32, BN=32, num_stages=2),
    "sparse_attention_4": case_of(sparse_attention, (4,), *SPARSE, D=64, BM=32, BN=32, num_stages=4),
    "grouped_gemm": case_of(
        grouped_gemm, (8,), half(70, 64), half(3, 64, 64), half(70, 64), whole([20, 38, 70]), 64, 64, 3, **SMALL
    ),
}  # fmt: skip
