"""Kernels written here, to fit what the model guesses: matrix products in shapes and orders, reductions, transposes."""

from collections.abc import Callable
from dataclasses import dataclass

import triton
import triton.language as tl
from launching import CASES, Body, Case
from made import bf16, fp32, given, seeded


# fmt: off
@triton.jit
def gemm(A, B, C, M, N, K, SPLIT: tl.constexpr, GM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B in tiles, in groups of GM rows; SPLIT parts of K are added up by atomics."""
    t = tl.program_id(0)
    part = tl.program_id(1)
    mb, nb = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = t // (GM * nb) * GM
    rows = tl.minimum(mb - first, GM)
    pm, pn = first + t % (GM * nb) % rows, t % (GM * nb) // rows
    rm, rn, rk = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros([BM, BN], tl.float32)
    for at in range(part * (K // SPLIT), (part + 1) * (K // SPLIT), BK):
        a = tl.load(A + rm[:, None] * K + (at + rk)[None, :])
        b = tl.load(B + (at + rk)[:, None] * N + rn[None, :])
        acc = tl.dot(a, b, acc)
    if SPLIT == 1:
        tl.store(C + rm[:, None] * N + rn[None, :], acc.to(tl.bfloat16))
    else:
        tl.atomic_add(C + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def row_sums(X, Y, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for at in range(0, N, BLOCK):
        total += tl.load(X + r[:, None] * N + at + tl.arange(0, BLOCK)[None, :]).to(tl.float32)
    tl.store(Y + r, tl.sum(total, 1))


@triton.jit
def column_sums(X, Y, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for at in range(tl.program_id(1) * ROWS, M, tl.num_programs(1) * ROWS):
        r = (at + tl.arange(0, ROWS)).to(tl.int64)
        total += tl.load(X + r[:, None] * N + c[None, :]).to(tl.float32)
    tl.atomic_add(Y + c, tl.sum(total, 0))


@triton.jit
def transpose(X, Y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rm, rn = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    x = tl.load(X + rm[:, None] * N + rn[None, :])
    tl.store(Y + rn[:, None] * M + rm[None, :], tl.trans(x))


@triton.jit
def gather(IDS, X, Y, D: tl.constexpr, ROWS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, D)
    ids = tl.load(IDS + r)
    tl.store(Y + r[:, None] * D + c[None, :], tl.load(X + ids[:, None] * D + c[None, :]))
# fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCase(Case):
    """One that is fitted on, and so is never blind."""

    @property
    def blind(self) -> bool:
        """No."""
        return False


def _enter(name: str, make: Callable[[str], Body]) -> None:
    CASES[f"own.{name}"] = OpenCase(name=f"own.{name}", kind="calibration", make=make)


def _gemm(
    m: int, n: int, k: int, group: int, bm: int, bn: int, bk: int, warps: int, split: int
) -> Callable[[str], Body]:
    def make(device: str) -> Body:
        a, b = bf16(device, m, k), bf16(device, k, n)
        c = fp32(device, m, n) if split > 1 else bf16(device, m, n)
        grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn), split)
        return lambda: gemm[grid](
            a, b, c, m, n, k, SPLIT=split, GM=group, BM=bm, BN=bn, BK=bk, num_warps=warps, num_stages=3
        )

    return make


for _name, _sizes in {
    "gemm_4k": (4096, 4096, 4096, 8, 128, 128, 64, 4, 1),
    "gemm_4k_rows": (4096, 4096, 4096, 1, 128, 256, 64, 8, 1),
    "gemm_12k": (12288, 12288, 4096, 8, 128, 256, 64, 8, 1),
    "gemm_narrow": (32768, 1024, 1024, 8, 128, 128, 32, 4, 1),
    "gemm_64": (8192, 4096, 2048, 4, 64, 64, 64, 4, 1),
    "gemm_thin": (64, 16384, 8192, 1, 64, 64, 128, 4, 1),
    "gemm_split": (512, 1024, 32768, 8, 128, 128, 64, 4, 16),
}.items():
    _enter(_name, _gemm(*_sizes))


def _rows(rows: int, columns: int, together: int, block: int) -> Callable[[str], Body]:
    def make(device: str) -> Body:
        x, y = bf16(device, rows, columns), fp32(device, rows)
        return lambda: row_sums[(rows // together,)](x, y, columns, ROWS=together, BLOCK=block)

    return make


def _columns(rows: int, columns: int, parts: int) -> Callable[[str], Body]:
    def make(device: str) -> Body:
        x, y = bf16(device, rows, columns), fp32(device, columns)
        return lambda: column_sums[(columns // 64, parts)](x, y, rows, columns, ROWS=64, BLOCK=64)

    return make


def _transpose(size: int, tile: int) -> Callable[[str], Body]:
    def make(device: str) -> Body:
        x, y = bf16(device, size, size), bf16(device, size, size)
        return lambda: transpose[(size // tile, size // tile)](x, y, size, size, BM=tile, BN=tile)

    return make


def _gather(width: int, rows: int) -> Callable[[str], Body]:
    def make(device: str) -> Body:
        x, ids = bf16(device, 1 << 20, width), given(device, seeded(1 << 20, rows, seed=5))
        y = bf16(device, rows, width)
        return lambda: gather[(rows // 32,)](ids, x, y, D=width, ROWS=32)

    return make


_enter("row_sums_4k", _rows(65536, 4096, 1, 2048))
_enter("row_sums_tile", _rows(65536, 4096, 16, 128))
_enter("column_sums", _columns(32768, 8192, 8))
_enter("transpose_32", _transpose(16384, 32))
_enter("transpose_128", _transpose(16384, 128))
_enter("gather_64B", _gather(32, 1 << 20))
_enter("gather_256B", _gather(128, 1 << 19))
_enter("gather_1KiB", _gather(512, 1 << 17))
