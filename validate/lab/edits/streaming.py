"""Kernels bound by memory or by arithmetic on streams, each with the edits that people make of it (EDIT)."""

import triton
import triton.language as tl


@triton.jit
def scale(X, Y, n, EDIT: tl.constexpr, BLOCK: tl.constexpr):
    """Y = 2 x + 1 of a vector."""
    pid = tl.program_id(0)
    if EDIT == "int64 offsets":
        pid = pid.to(tl.int64)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    if EDIT == "mask":
        x = tl.load(X + i, mask=i < n, other=0.0)
    elif EDIT == "evict first":
        x = tl.load(X + i, eviction_policy="evict_first")
    elif EDIT == "cache at L2 alone":
        x = tl.load(X + i, cache_modifier=".cg")
    elif EDIT == "view that begins one element later":
        x = tl.load(X + 1 + i)
    elif EDIT == "strided view":
        x = tl.load(X + i * 2)
    else:
        x = tl.load(X + i)
    y = x * 2.0 + 1.0
    if EDIT == "float32 output":
        y = y.to(tl.float32)
    if EDIT == "mask":
        tl.store(Y + i, y, mask=i < n)
    else:
        tl.store(Y + i, y)


@triton.jit
def rms_norm(X, W, Y, N, EDIT: tl.constexpr, BLOCK: tl.constexpr):
    """Rows by their root mean square, times a weight."""
    row = tl.program_id(0)
    if EDIT == "int64 offsets":
        row = row.to(tl.int64)
    i = tl.arange(0, BLOCK)
    at = row * BLOCK + i
    if EDIT == "mask":
        x = tl.load(X + at, mask=i < N, other=0.0)
    else:
        x = tl.load(X + at)
    if EDIT == "squares in bfloat16":
        total = tl.sum((x * x).to(tl.float32), 0)
    else:
        wide = x.to(tl.float32)
        total = tl.sum(wide * wide, 0)
    if EDIT == "row read twice":
        x = tl.load(X + at, volatile=True)
    inverse = 1.0 / tl.sqrt(total / N + 1e-6) if EDIT == "division by a square root" else tl.rsqrt(total / N + 1e-6)
    y = x.to(tl.float32) * inverse * tl.load(W + i).to(tl.float32)
    if EDIT == "residual added":
        y += tl.load(Y + at).to(tl.float32)
    tl.store(Y + at, y.to(tl.bfloat16))


@triton.jit
def row_loss(X, T, L, N, EDIT: tl.constexpr, BLOCK: tl.constexpr):
    """Cross entropy of rows of logits, a block at a time, by an online sum."""
    row = tl.program_id(0).to(tl.int64)
    peak, total = -float("inf"), 0.0
    if EDIT == "two passes":
        for start in range(0, N, BLOCK):
            peak = tl.maximum(peak, tl.max(tl.load(X + row * N + start + tl.arange(0, BLOCK)).to(tl.float32), 0))
        for start in range(0, N, BLOCK):
            total += tl.sum(tl.exp(tl.load(X + row * N + start + tl.arange(0, BLOCK)).to(tl.float32) - peak), 0)
    else:
        stages: tl.constexpr = 3 if EDIT == "three stages" else 1
        unroll: tl.constexpr = 4 if EDIT == "loop unrolled by four" else 1
        for start in tl.range(0, N, BLOCK, num_stages=stages, loop_unroll_factor=unroll):
            i = start + tl.arange(0, BLOCK)
            if EDIT == "mask":
                x = tl.load(X + row * N + i, mask=i < N, other=-float("inf")).to(tl.float32)
            else:
                x = tl.load(X + row * N + i).to(tl.float32)
            higher = tl.maximum(peak, tl.max(x, 0))
            if EDIT == "powers of two":
                total = total * tl.exp2((peak - higher) * 1.4427) + tl.sum(tl.exp2((x - higher) * 1.4427), 0)
            else:
                total = total * tl.exp(peak - higher) + tl.sum(tl.exp(x - higher), 0)
            peak = higher
    target = tl.load(X + row * N + tl.load(T + row)).to(tl.float32)
    tl.store(L + row, peak + tl.log(total) - target)


@triton.jit
def polynomial(X, Y, TERMS: tl.constexpr, EDIT: tl.constexpr, BLOCK: tl.constexpr):
    """Many multiplications and additions for each element."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + i)
    y = x
    for term in tl.static_range(TERMS):
        if EDIT == "division in each term":
            y = y / (x + term)
        elif EDIT == "exponential in each term":
            y = tl.exp(y * 0.01) + x
        else:
            y = y * x + (term + 0.5)
    tl.store(Y + i, y)


@triton.jit
def gather(X, INDEX, Y, EDIT: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr):
    """Rows of a table by their numbers."""
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    index = tl.load(INDEX + at)
    column = tl.arange(0, D)
    if EDIT == "int64 offsets":
        index = index.to(tl.int64)
    if EDIT == "mask":
        x = tl.load(X + index[:, None] * D + column[None, :], mask=(index >= 0)[:, None], other=0.0)
    elif EDIT == "evict last":
        x = tl.load(X + index[:, None] * D + column[None, :], eviction_policy="evict_last")
    else:
        x = tl.load(X + index[:, None] * D + column[None, :])
    if EDIT == "sum by atomics":
        tl.atomic_add(Y + column, tl.sum(x.to(tl.float32), 0))
    else:
        tl.store(Y + at[:, None] * D + column[None, :], x.to(tl.float32))


@triton.jit
def weighted_rows(W, X, S, Y, K, EDIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """A matrix of int8 with a scale for each row, times a vector."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    factor = tl.load(S + row)
    total = tl.zeros([ROWS], tl.float32)
    stages: tl.constexpr = 4 if EDIT == "four stages" else 1
    for start in tl.range(0, K, BLOCK, num_stages=stages):
        i = start + tl.arange(0, BLOCK)
        w = tl.load(W + row[:, None] * K + i[None, :])
        x = tl.load(X + i).to(tl.float32)
        if EDIT == "scale in the loop":
            total += tl.sum(w.to(tl.float32) * factor[:, None] * x[None, :], 1)
        elif EDIT == "products in bfloat16":
            total += tl.sum((w.to(tl.bfloat16) * x.to(tl.bfloat16)[None, :]).to(tl.float32), 1)
        else:
            total += tl.sum(w.to(tl.float32) * x[None, :], 1)
    if EDIT != "scale in the loop":
        total *= factor
    tl.store(Y + row, total)
