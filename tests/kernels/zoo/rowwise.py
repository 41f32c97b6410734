"""Small kernels that go through rows: elementwise, reductions, gathers by row."""

import torch
import triton
import triton.language as tl


@triton.jit
def add(X, Y, Z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Z + i, tl.load(X + i, mask=i < n) + tl.load(Y + i, mask=i < n), mask=i < n)


@triton.jit
def quotient(X, Y, Z, EXACT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(X + i), tl.load(Y + i)
    tl.store(Z + i, tl.div_rn(x, y) if EXACT else x * y)


@triton.jit
def move_rows(IDS, X, Z, pitch, D: tl.constexpr, MOVED: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, D)
    row = tl.load(IDS + r) if MOVED else r
    tl.store(Z + row * pitch + c, tl.load(X + r * pitch + c))


@triton.jit
def add_strided(X, Z, rows, cols, pitch, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(X + r[:, None] * pitch + c[None, :], mask=inside)
    tl.store(Z + r[:, None] * cols + c[None, :], x + 1, mask=inside)


@triton.jit
def softmax(X, Y, N, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    x = tl.load(X + r * N + c, mask=c < N, other=float("-inf")).to(tl.float32)
    x = tl.exp(x - tl.max(x, 0))
    tl.store(Y + r * N + c, x / tl.sum(x, 0), mask=c < N)


@triton.jit
def softmax_in_pieces(X, Y, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    m = tl.full([BLOCK], float("-inf"), tl.float32)
    s = tl.zeros([BLOCK], tl.float32)
    for at in range(0, N, BLOCK):
        c = at + tl.arange(0, BLOCK)
        x = tl.load(X + r * N + c, mask=c < N, other=float("-inf")).to(tl.float32)
        new = tl.maximum(m, x)
        s = s * tl.exp(m - new) + tl.exp(x - new)
        m = new
    top = tl.max(m, 0)
    total = tl.sum(s * tl.exp(m - top), 0)
    for at in range(0, N, BLOCK):
        c = at + tl.arange(0, BLOCK)
        x = tl.load(X + r * N + c, mask=c < N, other=float("-inf")).to(tl.float32)
        tl.store(Y + r * N + c, tl.exp(x - top) / total, mask=c < N)


@triton.jit
def layer_norm(X, Y, W, B, MEAN, RSTD, N, eps, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for at in range(0, N, BLOCK):
        c = at + tl.arange(0, BLOCK)
        total += tl.load(X + r * N + c, mask=c < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, 0) / N
    square = tl.zeros([BLOCK], tl.float32)
    for at in range(0, N, BLOCK):
        c = at + tl.arange(0, BLOCK)
        x = tl.load(X + r * N + c, mask=c < N, other=0.0).to(tl.float32)
        square += tl.where(c < N, (x - mean) * (x - mean), 0.0)
    rstd = 1 / tl.sqrt(tl.sum(square, 0) / N + eps)
    tl.store(MEAN + r, mean)
    tl.store(RSTD + r, rstd)
    for at in range(0, N, BLOCK):
        c = at + tl.arange(0, BLOCK)
        inside = c < N
        x = tl.load(X + r * N + c, mask=inside, other=0.0).to(tl.float32)
        w, b = tl.load(W + c, mask=inside), tl.load(B + c, mask=inside)
        tl.store(Y + r * N + c, (x - mean) * rstd * w + b, mask=inside)


@triton.jit
def rms_norm_in_place(X, W, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(X + r * N + c, mask=c < N, other=0.0).to(tl.float32)
    x = x * tl.rsqrt(tl.sum(x * x, 0) / N + 1e-6)
    tl.store(X + r * N + c, x * tl.load(W + c, mask=c < N, other=0.0), mask=c < N)


@triton.jit
def column_sums(X, Z, rows, cols, BM: tl.constexpr, BN: tl.constexpr):
    c = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros([BN], tl.float32)
    for at in range(0, rows, BM):
        r = at + tl.arange(0, BM)
        inside = (r[:, None] < rows) & (c[None, :] < cols)
        total += tl.sum(tl.load(X + r[:, None] * cols + c[None, :], mask=inside, other=0.0).to(tl.float32), 0)
    tl.store(Z + c, total, mask=c < cols)


@triton.jit
def grid_stride(X, Z, n, BLOCK: tl.constexpr):
    for at in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = at + tl.arange(0, BLOCK)
        tl.store(Z + i, tl.load(X + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def embedding(IDS, W, Z, D: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, D)
    tl.store(Z + r * D + c, tl.load(W + tl.load(IDS + r).to(tl.int64) * D + c))


@triton.jit
def cross_entropy(X, LABELS, LOSS, V, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    s = tl.zeros([BLOCK], tl.float32)
    for at in range(0, V, BLOCK):
        c = at + tl.arange(0, BLOCK)
        s += tl.exp(tl.load(X + r * V + c, mask=c < V, other=float("-inf")).to(tl.float32))
    label = tl.load(LABELS + r)
    tl.store(LOSS + r, tl.log(tl.sum(s, 0)) - tl.load(X + r * V + label).to(tl.float32))


@triton.jit
def cross_entropy_in_place(X, pitch, LABELS, LOSS, rows, V, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(LABELS + row)
    X += row * pitch
    if label < 0:
        for at in range(0, V, BLOCK):
            cols = at + tl.arange(0, BLOCK)
            tl.store(X + cols, 0.0, mask=cols < V)
        return
    chosen = tl.load(X + label).to(tl.float32)
    top, total = float("-inf"), 0.0
    for at in range(0, V, BLOCK):
        cols = at + tl.arange(0, BLOCK)
        x = tl.load(X + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(x, 0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), 0)
        top = new
    for at in range(0, V, BLOCK):
        cols = at + tl.arange(0, BLOCK)
        x = tl.load(X + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
        slope = tl.exp(x - top) / total / rows
        tl.store(X + cols, tl.where(cols != label, slope, slope - 1 / rows), mask=cols < V)
    tl.debug_barrier()
    tl.store(LOSS + row, top + tl.log(total) - chosen)


@triton.jit
def rotate_halves(X, COS, Z, D: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, D // 2)
    a, b = tl.load(X + r * D + c), tl.load(X + r * D + D // 2 + c)
    w = tl.load(COS + (r % 8) * (D // 2) + c)
    tl.store(Z + r * D + c, a * w - b)
    tl.store(Z + r * D + D // 2 + c, b * w + a)


@triton.jit
def stencil(X, Z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(X + i - 1, mask=(i > 0) & (i < n), other=0.0)
    right = tl.load(X + i + 1, mask=i + 1 < n, other=0.0)
    tl.store(Z + i, left + right, mask=i < n)


@triton.jit
def leave_early(X, Z, LENGTHS, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    length = tl.load(LENGTHS + r)
    if length == 0:
        return
    for at in range(0, length, BLOCK):
        c = at + tl.arange(0, BLOCK)
        tl.store(Z + r * N + c, tl.load(X + r * N + c, mask=c < length), mask=c < length)


@triton.jit
def two_in_one(X, Y, Z, half, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    if p < half:
        i = p * BLOCK + tl.arange(0, BLOCK)
        tl.store(Z + i, tl.load(X + i) + 1)
    else:
        i = (p - half) * BLOCK + tl.arange(0, BLOCK)
        y = tl.load(Y + i)
        tl.store(Y + i, y * y)


def _cases():
    def of(kernel, grid, *arguments, **options):
        """A case: arguments that are functions make tensors on the device, others are as they are."""

        def case(device):
            made = [argument(device) if callable(argument) else argument for argument in arguments]
            return lambda: kernel[grid](*made, **options)

        return case

    def half(*shape):
        return lambda device: torch.zeros(shape, device=device, dtype=torch.float16)

    def single(*shape):
        return lambda device: torch.zeros(shape, device=device)

    def whole(*values):
        return lambda device: torch.tensor(values, dtype=torch.int32)

    return {
        "add": of(add, (5,), single(1200), single(1200), single(1200), 1200, BLOCK=256),
        "add_strided": of(add_strided, (3, 2), half(40, 100), half(40, 96), 40, 96, 100, BM=16, BN=64),
        "softmax": of(softmax, (6,), half(6, 1000), half(6, 1000), 1000, BLOCK=1024),
        "softmax_in_pieces": of(softmax_in_pieces, (4,), half(4, 1504), half(4, 1504), 1504, BLOCK=512),
        "layer_norm": of(
            layer_norm, (4,), half(4, 2000), half(4, 2000), half(2000), half(2000), single(4), single(4), 2000, 1e-5,
            BLOCK=512,
        ),
        "rms_norm_in_place": of(rms_norm_in_place, (4,), half(4, 768), half(768), 768, BLOCK=1024),
        "column_sums": of(column_sums, (3,), half(100, 160), single(160), 100, 160, BM=32, BN=64),
        "grid_stride": of(grid_stride, (3,), single(3000), single(3000), 3000, BLOCK=256),
        "embedding": of(embedding, (6,), whole(5, 0, 31, 5, 7, 30), half(32, 128), half(6, 128), D=128),
        "cross_entropy": of(cross_entropy, (4,), half(4, 1000), whole(7, 999, 0, 512), single(4), 1000, BLOCK=256),
        "cross_entropy_in_place": of(
            cross_entropy_in_place, (4,), half(4, 1000), 1000, whole(7, 999, -1, 0), single(4), 4, 1000, BLOCK=256
        ),
        "rotate_halves": of(rotate_halves, (16,), half(16, 128), half(8, 64), half(16, 128), D=128),
        "stencil": of(stencil, (4,), single(1000), single(1000), 1000, BLOCK=256),
        "leave_early": of(leave_early, (5,), half(5, 512), half(5, 512), whole(0, 512, 100, 300, 0), 512, BLOCK=128),
        "two_in_one": of(two_in_one, (6,), single(1024), single(512), single(1024), 4, BLOCK=256),
    }  # fmt: skip


CASES = _cases()
