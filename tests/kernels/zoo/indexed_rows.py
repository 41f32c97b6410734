"""Small kernels that gather or scatter by index data: as it is loaded, sorted, or handed from thread to thread."""

import torch
import triton
import triton.language as tl
from zoo.arguments import case_of, drawn, half, shuffled, single, whole


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
def sorted_rows(KEYS, X, Z, N: tl.constexpr, D: tl.constexpr):
    r, c = tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, D)
    row = tl.sort(tl.load(KEYS + r))
    tl.store(Z + r[:, None] * D + c[None, :], tl.load(X + row[:, None] * D + c[None, :]))


@triton.jit
def looked_up(TABLE, INDEX, X, Z, N: tl.constexpr, D: tl.constexpr):
    r, c = tl.arange(0, N), tl.arange(0, D)
    row = tl.gather(tl.load(TABLE + r), tl.load(INDEX + tl.program_id(0) * N + r), 0)
    out = tl.program_id(0) * N + r
    tl.store(Z + out[:, None] * D + c[None, :], tl.load(X + row[:, None] * D + c[None, :]))


@triton.jit
def write_cache(KEY, SLOTS, CACHE, H: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr):
    cta = tl.program_id(0)
    slot = tl.load(SLOTS + cta)
    if slot < 0:
        return
    h, c = tl.arange(0, H), tl.arange(0, D)
    x = tl.load(KEY + (cta * H + h[:, None]) * D + c[None, :])
    tl.store(CACHE + (slot // PAGE * H + h[:, None]) * PAGE * D + slot % PAGE * D + c[None, :], x)


@triton.jit
def largest_index(SCORES, X, Z, N: tl.constexpr, D: tl.constexpr):
    cta = tl.program_id(0)
    best = tl.argmax(tl.load(SCORES + cta * N + tl.arange(0, N)), 0)
    c = tl.arange(0, D)
    tl.store(Z + cta * D + c, tl.load(X + best * D + c))


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
def summed_pages(X, PAGES, Z, count, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    total = tl.zeros([SIZE], tl.float32)
    for k in range(count):
        page = tl.load(PAGES + tl.program_id(0) * count + k)
        total += tl.load(X + page * SIZE + i)
    tl.store(Z + tl.program_id(0) * SIZE + i, total)


@triton.jit
def rows_in_turn(X, IDS, Z, D: tl.constexpr, ROWS: tl.constexpr):
    c = tl.arange(0, D)
    for number in range(ROWS):
        r = tl.program_id(0) * ROWS + number + tl.arange(0, 1)
        row = tl.load(IDS + r)
        x = tl.load(X + row[:, None] * D + c[None, :], mask=(row >= 0)[:, None], other=0.0)
        tl.store(Z + r[:, None] * D + c[None, :], x)


CASES = {
    # Pages that sequences share come first, so that loads of a loop that is unrolled lie alike in its first iteration.
    **{
        f"shared_prefix_{count}": case_of(
            summed_pages, (4,), single(64, 64),
            whole([page for cta in range(4) for page in [*range(count), *shuffled(64, 17 + cta, 12 - count)]]),
            single(4, 64), 12, SIZE=64,
        )
        for count in (2, 4, 8)
    },
    # Rows that the first CTA finds in its L1, as it loads one again and again, are no rows that others find there.
    "padding_first": case_of(
        rows_in_turn, (3,), single(64, 64), whole([7] * 16 + shuffled(64, 16, 32)), single(48, 64), D=64, ROWS=16,
        num_warps=1,
    ),
    **{
        f"summed_pages_{count}": case_of(
            summed_pages, (5,), single(64, 64), whole(shuffled(64, 15, 5 * count)), single(5, 64), count, SIZE=64
        )
        for count in (4, 12)
    },
    "embedding_rows": case_of(
        embedding_rows, (3,), whole([9, 3, 3, 31, 0, 17, 4, 5, 9, 30]), half(32, 64), half(10, 64), 10, D=64, R=4
    ),
    "index_select": case_of(
        index_select, (2, 2), half(64, 100), whole(shuffled(64, 4, 32)), whole(shuffled(100, 5, 64)), half(32, 64), 100,
        BM=16, BN=32,
    ),
    "gather_block": case_of(
        gather_block, (3,), single(20, 200), whole(drawn(200, 20, 16, seed=6)), single(20, 16), 20, 200, BM=8, BN=16,
    ),
    "scatter_add": case_of(
        scatter_add, (2,), single(16, 32), whole([3, -1, 7, 7, 0, 12, 5, 1, 2, 15, -1, 9, 4, 6, 11, 8]), single(16, 32),
        D=32, R=8,
    ),
    "sorted_rows": case_of(
        sorted_rows, (2,), whole(shuffled(100, 7, 64)), half(100, 32), half(64, 32), N=32, D=32
    ),
    "sorted_rows_of_many": case_of(
        sorted_rows, (1,), whole(shuffled(600, 7, 256)), half(600, 32), half(256, 32), N=256, D=32
    ),
    "looked_up": case_of(
        looked_up, (2,), whole(shuffled(64, 8, 32)), whole(drawn(32, 64, seed=9)), half(64, 32), half(64, 32),
        N=32, D=32,
    ),
    "looked_up_across_warps": case_of(
        looked_up, (1,), whole(shuffled(600, 8, 256)), whole(drawn(256, 256, seed=9)), half(600, 32), half(256, 32),
        N=256, D=32,
    ),
    "write_cache": case_of(
        write_cache, (5,), half(5, 2, 64), whole([32, -1, 0, 17, 63], torch.int64), half(4, 2, 16, 64), H=2, D=64,
        PAGE=16,
    ),
    "largest_index": case_of(
        largest_index, (3,), whole(shuffled(600, 10, 3 * 128)), half(128, 64), half(3, 64), N=128, D=64
    ),
    "both_layouts": case_of(
        both_layouts, (2,), whole(shuffled(64, 12, 64)), single(64, 64), single(64, 64), single(64, 32), N=32, pitch=64
    ),
    "long_indices": case_of(
        long_indices, (2,), whole([3, -1, 8, 30, -32, 7, 7, 12], torch.int64), half(32, 64), half(8, 64), 32, 64,
        D=64, R=4,
    ),
}  # fmt: skip
