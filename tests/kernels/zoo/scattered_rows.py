"""Small kernels of many CTAs, each of which gathers or scatters rows of its own: too many patterns to be classes."""

import triton
import triton.language as tl
from zoo.arguments import case_of, drawn, half, single, whole
from zoo.indexed_rows import embedding_rows, scatter_add

CTAS = 48


@triton.jit
def gathered_product(IDS, X, W, Z, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    r, c, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    row = tl.load(IDS + r)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        x = tl.load(X + row[:, None] * K + first + k[None, :])
        total = tl.dot(x, tl.load(W + (first + k)[:, None] * BN + c[None, :]), total)
    tl.store(Z + r[:, None] * BN + c[None, :], total)


@triton.jit
def gathered_masks(IDS, X, Z, count, D: tl.constexpr, R: tl.constexpr):
    r, c = tl.program_id(0) * R + tl.arange(0, R), tl.arange(0, D)
    row = tl.load(IDS + r)
    total = tl.zeros((R, D), tl.float32)
    for number in range(count):
        total += tl.load(X + (row[:, None] + number) * D + c[None, :], mask=(row > 4 * number)[:, None], other=0.0)
    tl.store(Z + row[:, None] * D + c[None, :], total, mask=(row > 8)[:, None])


@triton.jit
def gathered_pairs(IDS, X, Y, Q, Z, length, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    r, c, d = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    q = tl.load(Q + r[:, None] * D + d[None, :])
    total = tl.zeros((BM, D), tl.float32)
    for first in range(0, length, BN):
        row = tl.load(IDS + tl.program_id(0) * length + first + c)
        p = tl.dot(q, tl.trans(tl.load(X + row[:, None] * D + d[None, :])))
        total = tl.dot(p.to(tl.float16), tl.load(Y + row[:, None] * D + d[None, :]), total)
    tl.store(Z + (tl.program_id(0) * BM + r[:, None]) * D + d[None, :], total)


CASES = {
    "embedding_rows_of_many_ctas": case_of(
        embedding_rows, (CTAS,), whole(drawn(300, 191, seed=10)), half(300, 64), half(191, 64), 191, D=64, R=4
    ),
    "scatter_add_of_many_ctas": case_of(
        scatter_add, (CTAS,), single(CTAS * 8, 32), whole([row - 20 for row in drawn(200, CTAS * 8, seed=11)]),
        single(180, 32), D=32, R=8,
    ),
    "gathered_product_of_many_ctas": case_of(
        gathered_product, (CTAS,), whole(drawn(900, CTAS * 16, seed=12)), half(900, 160), half(160, 32),
        single(CTAS * 16, 32), 160, BM=16, BN=32, BK=32,
    ),
    "gathered_pairs_of_many_ctas": case_of(
        gathered_pairs, (CTAS,), whole(drawn(500, CTAS * 160, seed=14)), half(500, 64), half(500, 64), half(16, 64),
        single(CTAS * 16, 64), 160, BM=16, BN=32, D=64, num_stages=2,
    ),
    "gathered_masks_of_many_ctas": case_of(
        gathered_masks, (CTAS,), whole(drawn(40, CTAS * 8, seed=13)), single(64, 32), single(40, 32), 3, D=32, R=8
    ),
}  # fmt: skip
