"""Pairs of kernels: with an illness and without it, which are otherwise the same."""

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@triton.jit
def scale(X, Y, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i * STRIDE) * 2)


@triton.jit
def matmul(A, B, C, N, K, M_TILE: tl.constexpr, N_TILE: tl.constexpr, K_TILE: tl.constexpr):
    m, n = tl.program_id(0) * M_TILE + tl.arange(0, M_TILE), tl.program_id(1) * N_TILE + tl.arange(0, N_TILE)
    k = tl.arange(0, K_TILE)
    total = tl.zeros((M_TILE, N_TILE), tl.float32)
    for begin in range(0, K, K_TILE):
        a = tl.load(A + m[:, None] * K + begin + k[None, :])
        b = tl.load(B + (begin + k[:, None]) * N + n[None, :])
        total = tl.dot(a, b, total)
    tl.store(C + m[:, None] * N + n[None, :], total.to(tl.float16))


@triton.jit
def blend(X, Y, N: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, N)
    x = tl.load(X + r * N + c)
    y = tl.load(X + r * N + (c + 1) % N)
    total = tl.sum(x, 0)
    for k in range(8):
        a = tl.load(X + (r + k) * N + c)
        x = x * total + a * tl.sum(a * y, 0)
    tl.store(Y + r * N + c, x + y)


@triton.jit
def sum_rows(X, Y, N: tl.constexpr, ATOMIC: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, N)
    x = tl.load(X + r * N + c)
    if ATOMIC:
        tl.atomic_add(Y + c, x, sem="relaxed")
    else:
        tl.store(Y + r * N + c, x)


@triton.jit
def sum_pages(PAGES, X, Y, COUNT, SIZE: tl.constexpr, LISTED: tl.constexpr):
    c = tl.arange(0, SIZE)
    total = tl.zeros((SIZE,), tl.float32)
    for k in range(COUNT):
        number = tl.program_id(0) * COUNT + k
        page = tl.load(PAGES + number) if LISTED else number
        total += tl.load(X + page * SIZE + c)
    tl.store(Y + tl.program_id(0) * SIZE + c, total)


@triton.jit
def transpose_elements(X, Y, ROWS, COLS):
    i, j = tl.program_id(0), tl.program_id(1)
    tl.store(Y + j * ROWS + i, tl.load(X + i * COLS + j))


@triton.jit
def weigh(X, Y, SIZE: tl.constexpr, SIDE_BY_SIDE: tl.constexpr):
    weight, chunk = tl.program_id(0), tl.program_id(1)
    chunks = tl.num_programs(1)
    if not SIDE_BY_SIDE:
        chunk, weight, chunks = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    total = tl.sum(tl.load(X + chunk * SIZE + tl.arange(0, SIZE)) * weight, 0)
    tl.store(Y + weight * chunks + chunk, total)


@gluon.jit
def transpose_tiles(X, Y, N, SIDE: gl.constexpr, PHASES: gl.constexpr):
    rows: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    columns: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    shared: gl.constexpr = gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=PHASES, order=[1, 0])
    i = gl.program_id(0) * SIDE + gl.arange(0, SIDE, layout=gl.SliceLayout(1, rows))
    j = gl.program_id(1) * SIDE + gl.arange(0, SIDE, layout=gl.SliceLayout(0, rows))
    tile = gl.allocate_shared_memory(gl.float32, [SIDE, SIDE], shared)
    tile.store(gl.load(X + i[:, None] * N + j[None, :]))
    x = tile.load(columns)
    m = gl.program_id(0) * SIDE + gl.arange(0, SIDE, layout=gl.SliceLayout(1, columns))
    n = gl.program_id(1) * SIDE + gl.arange(0, SIDE, layout=gl.SliceLayout(0, columns))
    gl.store(Y + n[None, :] * N + m[:, None], x)


def strided(stride: int, size: int = 1 << 22) -> None:
    """Elements apart from each other, or side by side."""
    x, y = torch.empty(size * stride, device="cuda"), torch.empty(size, device="cuda")
    scale[(size // 1024,)](x, y, STRIDE=stride, BLOCK=1024)


@triton.jit
def scaled_product(A, B, SA, SB, C, M, N, K, ROW: tl.constexpr, GROUP: tl.constexpr):
    m, n, k = tl.program_id(0) * 64 + tl.arange(0, 64), tl.program_id(1) * 128 + tl.arange(0, 128), tl.arange(0, 128)
    acc = tl.zeros((64, 128), tl.float32)
    for g in range(K // 128):
        a, b = tl.load(A + m[:, None] * K + g * 128 + k[None, :]), tl.load(B + n[None, :] * K + g * 128 + k[:, None])
        of_rows, of_columns = tl.load(SA + m * ROW + g * GROUP), tl.load(SB + n * ROW + g * GROUP)
        acc += tl.dot(a, b, out_dtype=tl.int32).to(tl.float32) * of_rows[:, None] * of_columns[None, :]
    tl.store(C + m[:, None] * N + n[None, :], acc.to(tl.bfloat16))


def scaled(across: bool, size: int = 4096) -> None:
    """A product in 8 bits whose scales, of rows and columns for each step, lie apart, or side by side."""
    a, b = (torch.empty(size, size, device="cuda", dtype=torch.int8) for _ in "ab")
    c = torch.empty(size, size, device="cuda", dtype=torch.bfloat16)
    rows, columns = (torch.empty(size * size // 128, device="cuda") for _ in "ab")
    steps = (size // 128, 1) if across else (1, size)
    grid = (size // 64, size // 128)
    scaled_product[grid](a, b, rows, columns, c, size, size, size, *steps, num_warps=4, num_stages=3)


def multiplied(m: int, n: int, k: int, tile: tuple[int, int, int], num_warps: int, num_stages: int) -> None:
    """A matrix product."""
    a, b = (torch.empty(*shape, device="cuda", dtype=torch.float16) for shape in ((m, k), (k, n)))
    c = torch.empty(m, n, device="cuda", dtype=torch.float16)
    m_tile, n_tile, k_tile = tile
    options = {"M_TILE": m_tile, "N_TILE": n_tile, "K_TILE": k_tile, "num_warps": num_warps, "num_stages": num_stages}
    matmul[(m // m_tile, n // n_tile)](a, b, c, n, k, **options)


def blended(registers: int) -> None:
    """Rows that a thread needs 117 registers for, with so many at most."""
    x = torch.empty(1032, 8192, device="cuda")
    blend[(1024,)](x, torch.empty_like(x), 8192, num_warps=8, maxnreg=registers)


def summed(atomic: bool) -> None:
    """Rows that are added up, or stored."""
    x = torch.empty(8192, 1024, device="cuda")
    sum_rows[(8192,)](x, torch.empty_like(x), 1024, ATOMIC=atomic)


def paged(listed: bool, ctas: int = 264, count: int = 64, size: int = 512) -> None:
    """Pages in order, listed or not."""
    pages = torch.arange(ctas * count, dtype=torch.int32)
    x, y = torch.empty(ctas * count * size, device="cuda"), torch.empty(ctas * size, device="cuda")
    sum_pages[(ctas,)](pages, x, y, count, SIZE=size, LISTED=listed)


def transposed(size: int = 256) -> None:
    """A program for every element."""
    x = torch.empty(size, size, device="cuda")
    transpose_elements[(size, size)](x, torch.empty_like(x), size, size)


def weighed(side_by_side: bool, chunks: int = 8192, size: int = 4096) -> None:
    """Sums of 134 MB with four weights: each chunk by all of them, or all chunks by each."""
    x, y = torch.empty(chunks * size, device="cuda"), torch.empty(4 * chunks, device="cuda")
    weigh[(4, chunks) if side_by_side else (chunks, 4)](x, y, SIZE=size, SIDE_BY_SIDE=side_by_side)


def tiles_transposed(phases: int, size: int = 2048) -> None:
    """Tiles whose columns lie in so many banks."""
    x = torch.empty(size, size, device="cuda")
    transpose_tiles[(size // 64, size // 64)](x, torch.empty_like(x), size, SIDE=64, PHASES=phases)
