"""Triton kernels whose time one mechanism of memory decides, at sizes other than those held against the model.

    python memory_kernels.py > memory_kernels.jsonl      on a GPU, torch and triton

cold: one launch behind a write of 256 MB, median of 9, CUDA events; warm: 20 in a row, over 20.
With names of kernels, by commas: each of these once, for ncu --profile-from-start off.
"""

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

import torch
import triton
import triton.language as tl

MIB = 1 << 20
Case = tuple[str, dict[str, object], Callable[[], object]]
"""Kernel, variant, launch."""


@triton.jit
def hot(X, Y, LINES: tl.constexpr, TIMES: tl.constexpr, BLOCK: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, TIMES, 4):
        for j in tl.static_range(4):
            acc += tl.load(X + ((tl.program_id(0) * 31 + k + j) * BLOCK + i) % (LINES * 32), cache_modifier=HOW)
    tl.store(Y + tl.program_id(0) * BLOCK + i, acc)


@triton.jit
def words(X, IDX, Y, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + tl.program_id(0), tl.sum(tl.load(X + tl.load(IDX + r).to(tl.int64)), 0))


@triton.jit
def rows(X, IDX, Y, W: tl.constexpr, R: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    i = tl.load(IDX + r).to(tl.int64)
    x = tl.load(X + i[:, None] * W + tl.arange(0, W)[None, :])
    tl.store(Y + r, tl.sum(x, 1))


@triton.jit
def scatter(X, IDX, W: tl.constexpr, R: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, W)
    i = tl.load(IDX + r).to(tl.int64)
    tl.store(X + i[:, None] * W + c[None, :], (r[:, None] + c[None, :]).to(tl.float32))


@triton.jit
def act(Y, OP: tl.constexpr, PLACES: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if OP == "add":
        tl.atomic_add(Y + i % PLACES, 1, sem="relaxed")
    elif OP == "max":
        tl.atomic_max(Y + i % PLACES, i, sem="relaxed")
    elif OP == "xchg":
        tl.atomic_xchg(Y + i % PLACES, i, sem="relaxed")
    else:
        tl.atomic_cas(Y + i % PLACES, i, i + 1, sem="relaxed")


@triton.jit
def ticket(Y, Z, PLACES: tl.constexpr, APART: tl.constexpr):
    t = tl.atomic_add(Y + (tl.program_id(0) % PLACES) * APART, 1)
    tl.store(Z + tl.program_id(0), t)


@triton.jit
def given_back(Y, Z, BLOCKS, SEM: tl.constexpr, GIVE: tl.constexpr, BLOCK: tl.constexpr):
    i = (tl.program_id(0) % BLOCKS) * BLOCK + tl.arange(0, BLOCK)
    old = tl.atomic_add(Y + i, tl.full((BLOCK,), 1, tl.float32), sem=SEM)
    if GIVE == 1:
        tl.store(Z + i, old)
    if GIVE == 2:
        tl.store(Z + tl.program_id(0), tl.sum(old, 0))


@triton.jit
def sweep(
    S,
    T,
    Y,
    A: tl.constexpr,
    B: tl.constexpr,
    ROUNDS: tl.constexpr,
    KEEP: tl.constexpr,
    PASS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    p, many = tl.program_id(0), tl.num_programs(0)
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for r in range(ROUNDS):
        for k in range(A):
            acc += tl.load(S + (k * many + p) * BLOCK + i, eviction_policy=KEEP)
        for k in range(B):
            acc += tl.load(T + ((r * B + k) * many + p) * BLOCK + i, eviction_policy=PASS)
    tl.store(Y + p * BLOCK + i, acc)


@triton.jit
def fill(X, v, BLOCKS, BLOCK: tl.constexpr):
    i = (tl.program_id(0) % BLOCKS) * BLOCK + tl.arange(0, BLOCK)
    tl.store(X + i, tl.full((BLOCK,), v, X.dtype.element_ty))


@triton.jit
def plus(X, Y, BLOCKS, BLOCK: tl.constexpr, KEEP: tl.constexpr = "", HOW: tl.constexpr = ""):
    i = (tl.program_id(0) % BLOCKS) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i, eviction_policy=KEEP) + 1.0, cache_modifier=HOW)


@triton.jit
def copy(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i, mask=i < n), mask=i < n)


@triton.jit
def stencil(X, Y, N, R: tl.constexpr, C: tl.constexpr, POINTS: tl.constexpr):
    r = tl.program_id(1) * R + tl.arange(0, R)[:, None] + 1
    c = tl.program_id(0) * C + tl.arange(0, C)[None, :] + 1
    at = X + r * N + c
    inside = c < N - 1
    v = tl.load(at, mask=inside)
    if POINTS >= 3:
        v += tl.load(at - 1, mask=inside) + tl.load(at + 1, mask=inside)
    if POINTS == 5 or POINTS == 2:
        v += tl.load(at - N, mask=inside) + tl.load(at + N, mask=inside)
    tl.store(Y + r * N + c, v * 0.2, mask=inside)


def new(*shape: int, d: torch.dtype = torch.float32) -> torch.Tensor:
    """Zeros on the GPU."""
    return torch.zeros(*shape, device="cuda", dtype=d)


def drawn(n: int, high: int) -> torch.Tensor:
    """Random numbers below `high`."""
    return torch.randint(0, high, (n,), device="cuda", dtype=torch.int32)


def reads() -> Iterator[Case]:
    """Loads and stores of few lines, and of random pieces."""
    x, y = new(1 << 22), new(1 << 22)
    for lines, how in ((1, ".cg"), (4, ".cg"), (64, ".cg"), (512, ".cg"), (16384, ".cg"), (512, ".ca"), (512, "")):
        yield "hot", {"lines": lines, "how": how}, partial(hot[(1056,)], x, y, lines, 512, 128, how)
    for mib in (16, 64, 256, 3072):
        table, index = new(mib * MIB // 4), drawn(3 << 20, mib * MIB // 4)
        yield "words", {"mib": mib}, partial(words[((3 << 20) // 1024,)], table, index, y, 1024)
    for width in (32, 64, 128, 256):
        table, index = new(1 << 30), drawn((100 << 20) // width, (4 << 30) // width)
        ctas, shape = ((100 << 20) // 8192,), (width // 4, 8192 // width)
        yield "rows", {"width": width}, partial(rows[ctas], table, index, y, *shape)
        yield "scatter", {"width": width}, partial(scatter[ctas], table, index, *shape)


def atomics() -> Iterator[Case]:
    """Atomics at few places, tickets, and what comes back of additions."""
    counters, z = new(1 << 20, d=torch.int32), new(1 << 20, d=torch.int32)
    for op in ("add", "max", "xchg", "cas"):
        for places in (1, 2, 32, 128, 4096):
            yield "act", {"op": op, "places": places}, partial(act[(700,)], counters, op, places, 1024)
    for ctas in (30000, 200000):
        for places, apart in ((1, 1), (64, 1), (64, 64)):
            variant = {"ctas": ctas, "places": places, "apart": apart}
            yield "ticket", variant, partial(ticket[(ctas,)], counters, z, places, apart)
    a, b = new(8 << 20), new(8 << 20)
    for blocks in (2048, 6144):
        for sem, give in (("relaxed", 0), ("relaxed", 1), ("relaxed", 2), ("acq_rel", 0), ("acq_rel", 1)):
            variant = {"blocks": blocks, "sem": sem, "give": give}
            yield "given_back", variant, partial(given_back[(24576,)], a, b, blocks, sem, give, 1024)


def streams() -> Iterator[Case]:
    """Stores, copies, aligned or not, and stencils."""
    x, y = new(100 << 20), new(100 << 20)
    for mib in (12, 28, 100, 400):
        yield "fill", {"mib": mib}, partial(fill[(51200,)], x, 0.0, mib * MIB // 8192, 2048)
    for mib in (12, 16, 28, 400):
        for place, to in (("in", x), ("out", y)):
            yield "plus", {"mib": mib, "place": place}, partial(plus[(51200,)], x, to, mib * MIB // 8192, 2048)
    for keep, how in (("evict_first", ""), ("", ".cs"), ("", ".wt")):
        yield "plus", {"mib": 400, "keep": keep, "how": how}, partial(plus[(51200,)], x, y, 51200, 2048, keep, how)
    n = 40 << 20
    for d in (torch.bfloat16, torch.float32):
        u, v = x.view(d), y.view(d)
        for src, dst in ((0, 0), (1, 0), (0, 1), (1, 1)):
            launch = partial(copy[(n // 1024,)], u[src : src + n], v[dst : dst + n], n, 1024)
            yield "copy", {"d": str(d), "src": src, "dst": dst}, launch
    x, y = new(6146, 8192), new(6146, 8192)
    for r, c in ((1, 512), (2, 512), (1, 2048), (4, 256), (16, 64), (64, 32)):
        for points in (1, 3, 2, 5) if (r, c) in ((1, 512), (16, 64)) else (5,):
            launch = partial(stencil[(8192 // c, 6144 // r)], x, y, 8192, r, c, points)
            yield "stencil", {"r": r, "c": c, "points": points}, launch


def sweeps() -> Iterator[Case]:
    """Policies, last: what evict_last keeps stays for launches to come."""
    y, s, t = new(1 << 22), new(16 << 20), new(96 << 20)
    first, last = "evict_first", "evict_last"
    for keep, pass_ in (("", ""), ("", first), (first, first), (last, first), (last, "")):
        for mib in (16, 32):
            variant = {"mib": mib, "keep": keep, "pass_": pass_}
            yield "sweep", variant, partial(sweep[(1024,)], s, t, y, mib // 4, 24, 3, keep, pass_, 1024)


def measured(launch: Callable[[], object], other: torch.Tensor) -> tuple[float, float]:
    """Microseconds of a launch, cold and warm."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    launch()
    times = []
    for _ in range(9):
        other.fill_(1)
        begin.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    begin.record()
    for _ in range(20):
        launch()
    end.record()
    torch.cuda.synchronize()
    return sorted(times)[4], begin.elapsed_time(end) * 1e3 / 20


def counted(launch: Callable[[], object], other: torch.Tensor) -> None:
    """A launch for ncu --profile-from-start off, behind a write of 256 MB."""
    launch()
    other.fill_(1)
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    launch()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def main() -> None:
    """Measure all, or the kernels named in the first argument for ncu."""
    other = torch.empty(256 << 20, device="cuda", dtype=torch.int8)
    wanted = sys.argv[1].split(",") if len(sys.argv) > 1 else []
    for kernel, variant, launch in chain(reads(), atomics(), streams(), sweeps()):
        row: dict[str, object] = {"program": "memory_kernels", "kernel": kernel, **variant}
        if kernel in wanted:
            counted(launch, other)
        elif not wanted:
            cold_us, warm_us = measured(launch, other)
            row |= {"cold_us": round(cold_us, 2), "warm_us": round(warm_us, 2)}
        if not wanted or kernel in wanted:
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
