"""Small kernels whose trips, masks and places are computed from data: lengths, offsets, flags, counts."""

import torch
import triton
import triton.language as tl
from zoo.arguments import Case, case_of, drawn, empty_whole, half, shuffled, single, whole


@triton.jit
def compact(X, FLAGS, STARTS, Z, D: tl.constexpr, N: tl.constexpr):
    r, c = tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, D)
    keep = tl.load(FLAGS + r)
    place = tl.load(STARTS + tl.program_id(0)) + tl.cumsum(keep, 0) - keep
    kept = (keep != 0)[:, None]
    x = tl.load(X + r[:, None] * D + c[None, :], mask=kept)
    tl.store(Z + place[:, None] * D + c[None, :], x, mask=kept)


@triton.jit
def jagged_mean(X, OFFSETS, Z, D: tl.constexpr, R: tl.constexpr):
    cta = tl.program_id(0)
    begin, end = tl.load(OFFSETS + cta), tl.load(OFFSETS + cta + 1)
    c = tl.arange(0, D)
    acc = tl.zeros([D], tl.float32)
    for at in range(begin, end, R):
        r = at + tl.arange(0, R)
        x = tl.load(X + r[:, None] * D + c[None, :], mask=(r < end)[:, None], other=0.0)
        acc += tl.sum(x.to(tl.float32), 0)
    tl.store(Z + cta * D + c, acc / tl.maximum(end - begin, 1).to(tl.float32))


@triton.jit
def longest_first(X, LENGTHS, Z, B: tl.constexpr, BLOCK: tl.constexpr):
    cta = tl.program_id(0)
    every = tl.load(LENGTHS + tl.arange(0, B))
    most = tl.max(every, 0)
    begin = tl.sum(tl.where(tl.arange(0, B) < cta, every, 0), 0)
    length = tl.load(LENGTHS + cta)
    for at in range(0, most, BLOCK):
        c = at + tl.arange(0, BLOCK)
        x = tl.load(X + begin + c, mask=c < length, other=0.0)
        tl.store(Z + cta * most + c, x, mask=c < most)


@triton.jit
def route(EXPERTS, X, Z, STARTS, E: tl.constexpr, T: tl.constexpr, D: tl.constexpr):
    e = tl.program_id(0)
    t, c = tl.arange(0, T), tl.arange(0, D)
    chosen = (tl.load(EXPERTS + t) == e).to(tl.int32)
    place = tl.load(STARTS + e) + tl.cumsum(chosen, 0) - 1
    x = tl.load(X + t[:, None] * D + c[None, :], mask=(chosen != 0)[:, None])
    tl.store(Z + place[:, None] * D + c[None, :], x, mask=(chosen != 0)[:, None])


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
    cta = tl.program_id(0)
    low, high = 0, B
    while low + 1 < high:
        middle = (low + high) // 2
        if tl.load(OFFSETS + middle) <= cta:
            low = middle
        else:
            high = middle
    c = tl.arange(0, D)
    x = tl.load(X + (low * 8 + cta - tl.load(OFFSETS + low)) * D + c)
    tl.store(Z + cta * D + c, x)


@triton.jit
def tiles_of_sequences(OFFSETS, X, Z, B, D: tl.constexpr, R: tl.constexpr):
    tile = tl.program_id(0)
    left, right = 0, B
    while left < right:
        middle = (left + right) // 2
        if tl.load(OFFSETS + middle) // R + middle <= tile:
            left = middle + 1
        else:
            right = middle
    sequence = left - 1
    begin, end = tl.load(OFFSETS + sequence), tl.load(OFFSETS + sequence + 1)
    row = (tile - begin // R - sequence) * R
    if row >= end - begin:
        return
    r, c = begin + row + tl.arange(0, R), tl.arange(0, D)
    at = r[:, None] * D + c[None, :]
    tl.store(Z + at, tl.load(X + at, mask=(r < end)[:, None], other=0.0), mask=(r < end)[:, None])


@triton.jit
def windows(X, TABLE, Z, D: tl.constexpr, W: tl.constexpr, R: tl.constexpr):
    cta = tl.program_id(0)
    c = tl.arange(0, D)
    acc = tl.zeros([R, D], tl.float32)
    for at in range(0, W, R):
        r = at + tl.arange(0, R)
        row = tl.load(TABLE + cta * W + r)
        x = tl.load(X + row[:, None] * D + c[None, :], mask=(row >= 0)[:, None], other=0.0)
        acc += x.to(tl.float32)
    tl.store(Z + cta * D + c, tl.sum(acc, 0))


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


@triton.jit
def products_of_groups(A, B, ENDS, Z, D: tl.constexpr, K: tl.constexpr, R: tl.constexpr):
    group, c = tl.program_id(0), tl.arange(0, D)
    begin = tl.load(ENDS + group - 1, mask=group > 0, other=0)
    length = tl.load(ENDS + group) - begin
    acc = tl.zeros([D, D], tl.float32)
    for at in range(0, K, R):
        k = at + tl.arange(0, R)
        inside = (k < length) & (begin + k < K)
        a = tl.load(A + (begin + k)[None, :] * D + c[:, None], mask=inside[None, :], other=0.0)
        b = tl.load(B + (begin + k)[:, None] * D + c[None, :], mask=inside[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(Z + group * D * D + c[:, None] * D + c[None, :], acc)


@triton.jit
def documents(Q, X, LENGTHS, ENDS, Z, N, D: tl.constexpr, R: tl.constexpr):
    cta, c, q = tl.program_id(0), tl.arange(0, D), tl.arange(0, 16)
    length, end = tl.load(LENGTHS + cta), tl.load(ENDS + cta)
    query = tl.load(Q + q[:, None] * D + c[None, :])
    best = tl.full([16], float("-inf"), tl.float32)
    for at in range(0, end, R):
        r = at + tl.arange(0, R)
        x = tl.load(X + (cta * N + r)[:, None] * D + c[None, :], mask=(r < length)[:, None], other=0.0)
        best = tl.maximum(best, tl.max(tl.dot(query, tl.trans(x)), 1))
    tl.store(Z + cta * 16 + q, best)


@triton.jit
def weighted_rows(X, INDICES, WEIGHTS, LENGTHS, Z, N, other, D: tl.constexpr, R: tl.constexpr):
    cta, c = tl.program_id(0), tl.arange(0, D)
    length = tl.load(LENGTHS + cta)
    acc = tl.zeros([D], tl.float32)
    for at in range(0, length, R):
        r = at + tl.arange(0, R)
        row = tl.load(INDICES + cta * N + r, mask=r < length, other=other)
        weight = tl.load(WEIGHTS + cta * N + r, mask=r < length, other=0.0)
        acc += tl.sum(weight[:, None] * tl.load(X + row[:, None] * D + c[None, :]), 0)
    tl.store(Z + cta * D + c, acc)


@triton.jit
def tiles_in_turn(X, LENGTHS, Z, count, PITCH: tl.constexpr, R: tl.constexpr):
    tile, last = tl.program_id(0), 0
    for group in range(count):
        length = tl.load(LENGTHS + group)
        tiles = tl.cdiv(length, R)
        while tile >= last and tile < last + tiles:
            i = (tile - last) * R + tl.arange(0, R)
            x = tl.load(X + group * PITCH + i, mask=i < length)
            tl.store(Z + group * PITCH + i, x, mask=i < length)
            tile += tl.num_programs(0)
        last += tiles


def _documents(lengths: list[int], ends: list[int], rows: int) -> Case:
    """A CTA for each document. Args: lengths: rows that it has; ends: where its loop ends; rows: of a tile."""
    count, most = len(lengths), max(ends)
    tensors = half(16, 128), half(count, most, 128), whole(lengths), whole(ends), single(count, 16)
    return case_of(documents, (count,), *tensors, most, D=128, R=rows)


CASES = {
    "documents_shorter_than_a_tile": _documents([64, 99, 73, 20], [180] * 4, 128),
    "documents_that_end_midway": _documents([472, 300, 350, 400], [512] * 4, 64),
    "documents_padded_to_unlike_lengths": _documents([64, 64, 64, 64], [64, 128, 192, 128], 64),
    "weighted_rows_of_one_warp": case_of(
        weighted_rows, (3,), half(512, 128), whole(drawn(512, 300, seed=21)), half(3, 100), whole([100, 64, 31]),
        single(3, 128), 100, 7, D=128, R=64, num_warps=1,
    ),
    "documents_of_forty_lengths": _documents([*range(20, 180, 4)], [*range(20, 180, 4)], 64),
    "compact": case_of(
        compact, (2,), half(64, 32), whole([int(k % 3 == 0 or k > 50) for k in range(64)]), whole([0, 11]),
        half(64, 32), D=32, N=32,
    ),
    "jagged_mean": case_of(jagged_mean, (5,), half(70, 64), whole([0, 9, 9, 40, 41, 70]), single(5, 64), D=64, R=8),
    "longest_first": case_of(
        longest_first, (4,), single(180), whole([60, 5, 100, 15]), single(4, 100), B=4, BLOCK=64
    ),
    "route": case_of(
        route, (3,), whole(drawn(3, 64, seed=11)),
        half(64, 32), half(64, 32), whole([0, 20, 42]), E=3, T=64, D=32,
    ),
    "masked_by_bytes": case_of(
        masked_by_bytes, (3,), single(700), whole([k % 3 for k in range(44)], torch.uint8), single(700), 700, BLOCK=256
    ),
    "nearest": case_of(nearest, (5,), single(40, 40), single(5, 100), 40, 100, 0.4, BLOCK=128),
    "searched": case_of(searched, (9,), whole([0, 2, 3, 7, 9]), half(64, 64), half(9, 64), 4, D=64),
    "windows": case_of(
        windows, (3,), half(64, 64),
        whole([k if k % 5 else -1 for k in shuffled(64, 13, 48)]), single(3, 64), D=64, W=16, R=8,
    ),
    "histogram_of": case_of(
        histogram_of, (2,), whole(drawn(64, 200, seed=14)),
        empty_whole(64), 200, BINS=64, BLOCK=128,
    ),
    "reversed_rows": case_of(
        reversed_rows, (3,), single(3, 200), whole([200, 13, 77], torch.int16), single(3, 200), 200, BLOCK=256
    ),
    "ranked": case_of(
        ranked, (2,), whole([k % 3 != 0 for k in range(256)], torch.bool), half(200, 32), half(256, 32), N=128, D=32
    ),
    # The third and fourth CTA take tiles of the second and fourth group, and none of the first.
    "tiles_in_turn": case_of(
        tiles_in_turn, (5,), half(5, 128), whole([33, 64, 5, 100, 17]), half(5, 128), 5, PITCH=128, R=32
    ),
    "products_of_groups": case_of(
        products_of_groups, (6,), half(512, 64), half(512, 64), whole([70, 134, 139, 340, 340, 512]), single(6, 64, 64),
        D=64, K=512, R=32,
    ),
}  # fmt: skip
