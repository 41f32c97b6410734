"""Probes of ways through memory: columns, transposes, bags, histograms, segments, strides, few and uneven CTAs.

Written without a look at what the model knows, nothing of which was tuned on them. A probe is a function of the device
and of a variant that makes tensors and returns a function without arguments, which launches.
Addresses are in range whatever the tensors hold. `probes_measure.py` predicts and measures. No Tilesight here.
"""

import torch
import triton
import triton.language as tl
from probes_kept import blank, floats, probe, whole


@triton.jit
def k_histogram(Keys, Bins, BINS: tl.constexpr, SHARED: tl.constexpr, BLOCK: tl.constexpr):
    keys = tl.load(Keys + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    if SHARED:
        tl.atomic_add(Bins + tl.arange(0, BINS), tl.histogram(keys, BINS), sem="relaxed")
    else:
        tl.atomic_add(Bins + keys, 1, sem="relaxed")


@probe("2^20 keys counted in 256 bins: within a CTA first (tl.histogram), or an atomic a key; low bins are frequent",
       {"shared": 1}, {"shared": 0})  # fmt: skip
def histogram(device, shared):
    keys, bins = whole(device, 256, 1 << 20, power=2.0), blank(device, 256, dtype=torch.int32)
    return lambda: k_histogram[(512,)](keys, bins, 256, shared, 2048)


@triton.jit
def k_column(X, Y, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    sums = tl.zeros((BLOCK,), tl.float32)
    for row in range(0, ROWS, BLOCK):
        sums += tl.load(X + (row + tl.arange(0, BLOCK)) * N + tl.program_id(0))
    tl.store(Y + tl.program_id(0), tl.sum(sums, 0))


@probe("sums of the columns of a matrix of 4,096 x 4,096, a CTA a column: a sector of 32 B for each word of 4 B")
def column(device):
    x, y = floats(device, 4096, 4096), blank(device, 4096)
    return lambda: k_column[(4096,)](x, y, 4096, 4096, 512)


@triton.jit
def k_transpose(X, Y, N, PITCH, T: tl.constexpr):
    r, c = tl.program_id(1) * T + tl.arange(0, T), tl.program_id(0) * T + tl.arange(0, T)
    inside = (r[:, None] < N) & (c[None, :] < N)
    x = tl.load(X + r[:, None] * PITCH + c[None, :], mask=inside)
    tl.store(Y + c[:, None] * PITCH + r[None, :], tl.trans(x), mask=tl.trans(inside))


@probe("transpose of 4,096 x 4,096 fp32 by tiles of 64 x 64, rows 4,096 or 4,097 words apart",
       {"pitch": 4096}, {"pitch": 4097})  # fmt: skip
def transpose(device, pitch):
    x, y = floats(device, 4096, pitch), blank(device, 4096, pitch)
    return lambda: k_transpose[(64, 64)](x, y, 4096, pitch, 64)


@triton.jit
def k_bag(Table, Index, Y, ITEMS: tl.constexpr, WIDTH: tl.constexpr):
    c = tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), tl.float32)
    for item in range(ITEMS):
        row = tl.load(Index + tl.program_id(0) * ITEMS + item).to(tl.int64)
        total += tl.load(Table + row * WIDTH + c).to(tl.float32)
    tl.store(Y + tl.program_id(0) * WIDTH + c, (total / ITEMS).to(tl.bfloat16))


@probe("16,384 bags of 32 rows of 512 B from a table of 512 MB; few rows are in most bags; a row a step, 1 warp")
def bag(device):
    table, y = blank(device, 1 << 20, 256, dtype=torch.bfloat16), blank(device, 16384, 256, dtype=torch.bfloat16)
    index = whole(device, 1 << 20, 16384 * 32, power=8.0)
    return lambda: k_bag[(16384,)](table, index, y, 32, 256, num_warps=1)


@triton.jit
def k_dequantise(W, S, Y, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    w = tl.load(W + at)
    scale = tl.load(S + at * 2 // GROUP).to(tl.float32)
    low, high = ((w << 4).to(tl.int8) >> 4).to(tl.float32) * scale, (w >> 4).to(tl.float32) * scale
    both = tl.interleave(low, high).to(tl.bfloat16)
    tl.store(Y + tl.program_id(0) * 2 * BLOCK + tl.arange(0, 2 * BLOCK), both)


@probe("2^26 weights of 4 bits, two a byte, with a scale for 128, to bf16: sign by shifts, interleaved by registers")
def dequantise(device):
    w, s = blank(device, 1 << 25, dtype=torch.int8), floats(device, 1 << 19, dtype=torch.float16)
    y = blank(device, 1 << 26, dtype=torch.bfloat16)
    return lambda: k_dequantise[(1 << 14,)](w, s, y, 128, 2048)


@triton.jit
def k_uneven(X, Begin, Steps, Y, TILES, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
        begin, total = tl.load(Begin + tile), tl.zeros((BLOCK,), tl.float32)
        for step in range(tl.load(Steps + tile)):
            total += tl.sqrt(tl.abs(tl.load(X + (begin + step) * BLOCK + tl.arange(0, BLOCK))))
        tl.store(Y + tile, tl.sum(total, 0))


@probe("a persistent grid of 264 CTAs over 2,000 tiles of 1 to 128 steps of 4 KB; most tiles are short, few are long")
def uneven(device):
    steps = whole("meta", 128, 2000, power=3.0) + 1
    begin = steps.cumsum(0, dtype=torch.int32) - steps
    x, y = floats(device, int(steps.sum()) * 1024), blank(device, 2000)
    begin, steps = (t if device == "meta" else t.to(device) for t in (begin, steps))
    return lambda: k_uneven[(264,)](x, begin, steps, y, 2000, 1024)


@triton.jit
def k_segments(X, Segment, Y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(Y + tl.load(Segment + at), tl.load(X + at), sem="relaxed")


@probe("2^20 fp32 added to 4,096 segments by atomics, segments in order, about 256 neighbours in the same")
def segments(device):
    ids = whole("meta", 4096, 1 << 20).sort().values
    ids = ids if device == "meta" else ids.to(device)
    x, y = floats(device, 1 << 20), blank(device, 4096)
    return lambda: k_segments[(1024,)](x, ids, y, 1024)


@triton.jit
def k_lanes(X, Y, KEEP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + at, mask=at % KEEP == 0, other=0.0)
    tl.store(Y + at, tl.where(at % KEEP == 0, tl.exp(x), x), mask=at % KEEP == 0)


@probe("exp in place of every 16th of 2^26 fp32: masks leave a lane of 16 bytes in four, half of the sectors untouched")
def lanes(device):
    x, y = floats(device, 1 << 26), blank(device, 1 << 26)
    return lambda: k_lanes[(1 << 16,)](x, y, 16, 1024)


@triton.jit
def k_few(X, Y, STEPS, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(STEPS):
        total += tl.load(X + (tl.program_id(0) * STEPS + step) * BLOCK + tl.arange(0, BLOCK))
    tl.store(Y + tl.program_id(0), tl.sum(total, 0))


@probe("4 CTAs of 16 warps sum 8 MB each in steps of 32 KB; the rest of the GPU is idle")
def few(device):
    x, y = floats(device, 1 << 23), blank(device, 4)
    return lambda: k_few[(4,)](x, y, 256, 8192, num_warps=16)


@triton.jit
def k_permute(X, Y, A, B, C, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b, a, c = at % B, at // B % A, at // (A * B)
    tl.store(Y + at, tl.load(X + a * B * C + b * C + c, mask=at < A * B * C), mask=at < A * B * C)


@probe("96 x 500 x 700 fp16 to 700 x 96 x 500: places by int64 division and remainder of sizes that are arguments")
def permute(device):
    x, y = floats(device, 96, 500, 700, dtype=torch.float16), blank(device, 700, 96, 500, dtype=torch.float16)
    return lambda: k_permute[(triton.cdiv(96 * 500 * 700, 1024),)](x, y, 96, 500, 700, 1024)


@triton.jit
def k_stride(X, Y, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    tl.store(Y + at, tl.load(X + at * STRIDE))


@probe("2^18 words 8,192 B apart, in order (2 GB), copied to neighbours")
def stride(device):
    x, y = torch.empty(1 << 29, device=device), blank(device, 1 << 18)
    return lambda: k_stride[(1 << 10,)](x, y, 2048, 256)


@triton.jit
def k_swap(From, To, N: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left, right = (at + N - 1) % N, (at + 1) % N
    tl.store(To + at, 0.5 * tl.load(From + at) + 0.25 * (tl.load(From + left) + tl.load(From + right)))


@probe("a smoothing step of a ring of 2^22 fp32 from one buffer to another and back, twice: four launches, 34 MB")
def swap(device):
    x, y = floats(device, 1 << 22), blank(device, 1 << 22)

    def launch() -> None:
        for source, target in ((x, y), (y, x)) * 2:
            k_swap[(1 << 12,)](source, target, 1 << 22, 1024)

    return launch
