"""Small kernels whose addresses, trips and branches come from index data: pages, tokens of experts, tables, offsets."""

import torch
import triton
import triton.language as tl
from zoo.arguments import case_of, empty_whole, half, single, whole


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
def embedding_rows(IDS, W, Z, n, D: tl.constexpr, R: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, D)
    row = tl.load(IDS + r, mask=r < n, other=0).to(tl.int64)
    x = tl.load(W + row[:, None] * D + c[None, :], mask=r[:, None] < n)
    tl.store(Z + r[:, None] * D + c[None, :], x, mask=r[:, None] < n)


@triton.jit
def index_select(X, ROWS, COLS, Z, pitch, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    row, col = tl.load(ROWS + r), tl.load(COLS + c)
    x = tl.load(X + row[:, None] * pitch + col[None, :])
    tl.store(Z + r[:, None] * (BN * tl.num_programs(1)) + c[None, :], x)


@triton.jit
def gather_block(X, INDEX, Z, rows, pitch, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.arange(0, BN)
    inside = (r < rows)[:, None]
    index = tl.load(INDEX + r[:, None] * BN + c[None, :], mask=inside, other=0)
    tl.store(Z + r[:, None] * BN + c[None, :], tl.load(X + r[:, None] * pitch + index, mask=inside), mask=inside)


@triton.jit
def scatter_add(X, INDEX, Z, D: tl.constexpr, R: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, D)
    row = tl.load(INDEX + r)
    x = tl.load(X + r[:, None] * D + c[None, :], mask=(row >= 0)[:, None])
    tl.atomic_add(Z + row[:, None] * D + c[None, :], x, mask=(row >= 0)[:, None])


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
def sorted_rows(KEYS, X, Z, N: tl.constexpr, D: tl.constexpr):
    r, c = tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, D)
    row = tl.sort(tl.load(KEYS + r))
    tl.store(Z + r[:, None] * D + c[None, :], tl.load(X + row[:, None] * D + c[None, :]))


@triton.jit
def compact(X, FLAGS, STARTS, Z, D: tl.constexpr, N: tl.constexpr):
    r, c = tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, D)
    keep = tl.load(FLAGS + r)
    place = tl.load(STARTS + tl.program_id(0)) + tl.cumsum(keep, 0) - keep
    kept = (keep != 0)[:, None]
    x = tl.load(X + r[:, None] * D + c[None, :], mask=kept)
    tl.store(Z + place[:, None] * D + c[None, :], x, mask=kept)


@triton.jit
def looked_up(TABLE, INDEX, X, Z, N: tl.constexpr, D: tl.constexpr):
    r, c = tl.arange(0, N), tl.arange(0, D)
    row = tl.gather(tl.load(TABLE + r), tl.load(INDEX + tl.program_id(0) * N + r), 0)
    out = tl.program_id(0) * N + r
    tl.store(Z + out[:, None] * D + c[None, :], tl.load(X + row[:, None] * D + c[None, :]))


@triton.jit
def jagged_mean(X, OFFSETS, Z, D: tl.constexpr, R: tl.constexpr):
    one = tl.program_id(0)
    begin, end = tl.load(OFFSETS + one), tl.load(OFFSETS + one + 1)
    c = tl.arange(0, D)
    acc = tl.zeros([D], tl.float32)
    for at in range(begin, end, R):
        r = at + tl.arange(0, R)
        x = tl.load(X + r[:, None] * D + c[None, :], mask=(r < end)[:, None], other=0.0)
        acc += tl.sum(x.to(tl.float32), 0)
    tl.store(Z + one * D + c, acc / tl.maximum(end - begin, 1).to(tl.float32))


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


@triton.jit
def write_cache(KEY, SLOTS, CACHE, H: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr):
    one = tl.program_id(0)
    slot = tl.load(SLOTS + one)
    if slot < 0:
        return
    h, c = tl.arange(0, H), tl.arange(0, D)
    x = tl.load(KEY + (one * H + h[:, None]) * D + c[None, :])
    tl.store(CACHE + (slot // PAGE * H + h[:, None]) * PAGE * D + slot % PAGE * D + c[None, :], x)


@triton.jit
def longest_first(X, LENGTHS, Z, B: tl.constexpr, BLOCK: tl.constexpr):
    one = tl.program_id(0)
    every = tl.load(LENGTHS + tl.arange(0, B))
    most = tl.max(every, 0)
    begin = tl.sum(tl.where(tl.arange(0, B) < one, every, 0), 0)
    own = tl.load(LENGTHS + one)
    for at in range(0, most, BLOCK):
        c = at + tl.arange(0, BLOCK)
        x = tl.load(X + begin + c, mask=c < own, other=0.0)
        tl.store(Z + one * most + c, x, mask=c < most)


@triton.jit
def largest_index(SCORES, X, Z, N: tl.constexpr, D: tl.constexpr):
    one = tl.program_id(0)
    best = tl.argmax(tl.load(SCORES + one * N + tl.arange(0, N)), 0)
    c = tl.arange(0, D)
    tl.store(Z + one * D + c, tl.load(X + best * D + c))


@triton.jit
def route(EXPERTS, X, Z, STARTS, E: tl.constexpr, T: tl.constexpr, D: tl.constexpr):
    e = tl.program_id(0)
    t, c = tl.arange(0, T), tl.arange(0, D)
    chosen = (tl.load(EXPERTS + t) == e).to(tl.int32)
    place = tl.load(STARTS + e) + tl.cumsum(chosen, 0) - 1
    x = tl.load(X + t[:, None] * D + c[None, :], mask=(chosen != 0)[:, None])
    tl.store(Z + place[:, None] * D + c[None, :], x, mask=(chosen != 0)[:, None])


@triton.jit
def both_layouts(INDEX, X, Y, Z, N: tl.constexpr, pitch):
    r = tl.load(INDEX + tl.program_id(0) * N + tl.arange(0, N))
    x = tl.load(X + r[:, None] * pitch + r[None, :])
    y = tl.load(Y + r[None, :] * pitch + r[:, None])
    out = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(Z + out[:, None] * N + tl.arange(0, N)[None, :], x + tl.trans(y))


@triton.jit
def long_indices(INDEX, X, Z, rows, pitch, D: tl.constexpr, R: tl.constexpr):
    r, c = tl.program_id(0) * R + tl.arange(0, R), tl.arange(0, D)
    index = tl.load(INDEX + r)
    index = tl.where(index < 0, index + rows, index)
    row = index // 3 * 3 + index % 3
    tl.store(Z + r[:, None] * D + c[None, :], tl.load(X + row[:, None] * pitch + c[None, :]))


@triton.jit
def masked_by_bytes(X, MASK, Z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.load(MASK + i // 16, mask=i < n, other=0) != 0
    tl.store(Z + i, tl.load(X + i, mask=keep & (i < n), other=0.0), mask=i < n)


@triton.jit
def nearest(X, Z, width, wide, scale, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    inside = c < wide
    at = tl.minimum(((c.to(tl.float32) + 0.5) * scale).to(tl.int32), width - 1)
    down = tl.minimum(tl.floor((r.to(tl.float32) + 0.5) * scale).to(tl.int32), width - 1)
    tl.store(Z + r * wide + c, tl.load(X + down * width + at, mask=inside), mask=inside)


@triton.jit
def searched(OFFSETS, X, Z, B, D: tl.constexpr):
    one = tl.program_id(0)
    low, high = 0, B
    while low + 1 < high:
        middle = (low + high) // 2
        if tl.load(OFFSETS + middle) <= one:
            low = middle
        else:
            high = middle
    c = tl.arange(0, D)
    x = tl.load(X + (low * 8 + one - tl.load(OFFSETS + low)) * D + c)
    tl.store(Z + one * D + c, x)


@triton.jit
def windows(X, TABLE, Z, D: tl.constexpr, W: tl.constexpr, R: tl.constexpr):
    one = tl.program_id(0)
    c = tl.arange(0, D)
    acc = tl.zeros([R, D], tl.float32)
    for at in range(0, W, R):
        r = at + tl.arange(0, R)
        row = tl.load(TABLE + one * W + r)
        x = tl.load(X + row[:, None] * D + c[None, :], mask=(row >= 0)[:, None], other=0.0)
        acc += x.to(tl.float32)
    tl.store(Z + one * D + c, tl.sum(acc, 0))


@triton.jit
def histogram_of(EXPERTS, COUNTS, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    e = tl.load(EXPERTS + i, mask=i < n, other=0)
    tl.atomic_add(COUNTS + e, 1, mask=i < n)


@triton.jit
def reversed_rows(X, LENGTHS, Z, N, BLOCK: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, BLOCK)
    n = tl.load(LENGTHS + r).to(tl.int32)
    x = tl.load(X + r * N + n - 1 - c, mask=c < n, other=0.0)
    tl.store(Z + r * N + c, x, mask=c < N)


@triton.jit
def _added(a, b):
    return a + b


@triton.jit
def ranked(FLAGS, X, Z, N: tl.constexpr, D: tl.constexpr):
    r, c = tl.arange(0, N), tl.arange(0, D)
    flags = tl.load(FLAGS + tl.program_id(0) * N + r).to(tl.int32)
    after = tl.associative_scan(flags, 0, _added, reverse=True)
    row = N - after
    tl.store(Z + (tl.program_id(0) * N + r)[:, None] * D + c[None, :], tl.load(X + row[:, None] * D + c[None, :]))


def _pages(count, seed, rows):
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:rows].tolist()


def _tokens():
    """Tokens of 3 experts in blocks of 16, padded with 40; the expert of each block."""
    chosen = torch.randint(0, 3, (40,), generator=torch.Generator().manual_seed(3))
    tokens, experts = [], []
    for expert in range(3):
        own = torch.nonzero(chosen == expert).flatten().tolist()
        own += [40] * (-len(own) % 16)
        tokens += own
        experts += [expert] * (len(own) // 16)
    return tokens, experts


TOKENS, EXPERTS = _tokens()
SMALL = {"BM": 16, "BN": 32, "BK": 32}
PAGED = (
    half(3 * 2 * 8, 64), half(24 * 16 * 2, 64), half(24 * 16 * 2, 64), whole(_pages(24, 1, 24)), whole([90, 33, 16]),
    half(3 * 2 * 8, 64), 0.1, 8, 2,
)  # fmt: skip
BY_ROW = (
    half(3 * 16, 64), half(48 * 8, 64), half(48 * 8, 64), whole(_pages(48, 2, 48)), whole([80, 37, 5]),
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
        f"experts_gemm_{stages}": case_of(
            experts_gemm, (2 * len(EXPERTS) + 2,), half(20, 72), half(3, 64, 72), half(40, 64), whole(TOKENS),
            whole([*EXPERTS, -1]), whole([len(TOKENS)]), 40, 64, 72, TOP=2, num_stages=stages, **SMALL,
        )
        for stages in (2, 3)
    },
    "embedding_rows": case_of(
        embedding_rows, (3,), whole([9, 3, 3, 31, 0, 17, 4, 5, 9, 30]), half(32, 64), half(10, 64), 10, D=64, R=4
    ),
    "index_select": case_of(
        index_select, (2, 2), half(64, 100), whole(_pages(64, 4, 32)), whole(_pages(100, 5, 64)), half(32, 64), 100,
        BM=16, BN=32,
    ),
    "gather_block": case_of(
        gather_block, (3,), single(20, 200), whole(torch.randint(0, 200, (20, 16), generator=torch.Generator()
        .manual_seed(6)).tolist()), single(20, 16), 20, 200, BM=8, BN=16,
    ),
    "scatter_add": case_of(
        scatter_add, (2,), single(16, 32), whole([3, -1, 7, 7, 0, 12, 5, 1, 2, 15, -1, 9, 4, 6, 11, 8]), single(16, 32),
        D=32, R=8,
    ),
    "sparse_attention_2": case_of(sparse_attention, (4,), *SPARSE, D=64, BM=32, BN=32, num_stages=2),
    "sparse_attention_4": case_of(sparse_attention, (4,), *SPARSE, D=64, BM=32, BN=32, num_stages=4),
    "sorted_rows": case_of(
        sorted_rows, (2,), whole(_pages(100, 7, 64)), half(100, 32), half(64, 32), N=32, D=32
    ),
    "sorted_rows_of_many": case_of(
        sorted_rows, (1,), whole(_pages(600, 7, 256)), half(600, 32), half(256, 32), N=256, D=32
    ),
    "compact": case_of(
        compact, (2,), half(64, 32), whole([int(k % 3 == 0 or k > 50) for k in range(64)]), whole([0, 11]),
        half(64, 32), D=32, N=32,
    ),
    "looked_up": case_of(
        looked_up, (2,), whole(_pages(64, 8, 32)), whole(torch.randint(0, 32, (64,), generator=torch.Generator()
        .manual_seed(9)).tolist()), half(64, 32), half(64, 32), N=32, D=32,
    ),
    "looked_up_across_warps": case_of(
        looked_up, (1,), whole(_pages(600, 8, 256)), whole(torch.randint(0, 256, (256,), generator=torch.Generator()
        .manual_seed(9)).tolist()), half(600, 32), half(256, 32), N=256, D=32,
    ),
    "jagged_mean": case_of(jagged_mean, (5,), half(70, 64), whole([0, 9, 9, 40, 41, 70]), single(5, 64), D=64, R=8),
    "grouped_gemm": case_of(
        grouped_gemm, (8,), half(70, 64), half(3, 64, 64), half(70, 64), whole([20, 38, 70]), 64, 64, 3, **SMALL
    ),
    "write_cache": case_of(
        write_cache, (5,), half(5, 2, 64), whole([32, -1, 0, 17, 63], torch.int64), half(4, 2, 16, 64), H=2, D=64,
        PAGE=16,
    ),
    "longest_first": case_of(
        longest_first, (4,), single(180), whole([60, 5, 100, 15]), single(4, 100), B=4, BLOCK=64
    ),
    "largest_index": case_of(
        largest_index, (3,), whole(_pages(600, 10, 3 * 128)), half(128, 64), half(3, 64), N=128, D=64
    ),
    "route": case_of(
        route, (3,), whole(torch.randint(0, 3, (64,), generator=torch.Generator().manual_seed(11)).tolist()),
        half(64, 32), half(64, 32), whole([0, 20, 42]), E=3, T=64, D=32,
    ),
    "both_layouts": case_of(
        both_layouts, (2,), whole(_pages(64, 12, 64)), single(64, 64), single(64, 64), single(64, 32), N=32, pitch=64
    ),
    "long_indices": case_of(
        long_indices, (2,), whole([3, -1, 8, 30, -32, 7, 7, 12], torch.int64), half(32, 64), half(8, 64), 32, 64,
        D=64, R=4,
    ),
    "masked_by_bytes": case_of(
        masked_by_bytes, (3,), single(700), whole([k % 3 for k in range(44)], torch.uint8), single(700), 700, BLOCK=256
    ),
    "nearest": case_of(nearest, (5,), single(40, 40), single(5, 100), 40, 100, 0.4, BLOCK=128),
    "searched": case_of(searched, (9,), whole([0, 2, 3, 7, 9]), half(64, 64), half(9, 64), 4, D=64),
    "windows": case_of(
        windows, (3,), half(64, 64),
        whole([k if k % 5 else -1 for k in _pages(64, 13, 48)]), single(3, 64), D=64, W=16, R=8,
    ),
    "histogram_of": case_of(
        histogram_of, (2,), whole(torch.randint(0, 64, (200,), generator=torch.Generator().manual_seed(14)).tolist()),
        empty_whole(64), 200, BINS=64, BLOCK=128,
    ),
    "reversed_rows": case_of(
        reversed_rows, (3,), single(3, 200), whole([200, 13, 77], torch.int16), single(3, 200), 200, BLOCK=256
    ),
    "ranked": case_of(
        ranked, (2,), whole([k % 3 != 0 for k in range(256)], torch.bool), half(200, 32), half(256, 32), N=128, D=32
    ),
}  # fmt: skip
