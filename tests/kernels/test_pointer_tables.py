"""Tensors that kernels find by tables of their addresses: `data_ptr()` in a tensor of integers."""

from typing import Any

import pytest

pytest.importorskip("triton")

import torch
import triton
import triton.language as tl

import tilesight
from tilesight.predicting import KernelRow

TILE = 128


@triton.jit
def copied(TABLE, Z, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(TABLE + tl.program_id(1)).to(tl.pointer_type(tl.float32))
    tl.store(Z + tl.program_id(1) * n + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def grouped(A, B, C, SIZES, groups, CTAS: tl.constexpr, T: tl.constexpr, K: tl.constexpr):
    tile, end = tl.program_id(0), 0
    for g in range(groups):
        side = tl.load(SIZES + g)
        across = side // T
        while tile >= end and tile < end + across * across:
            a = tl.load(A + g).to(tl.pointer_type(tl.float16))
            b = tl.load(B + g).to(tl.pointer_type(tl.float16))
            c = tl.load(C + g).to(tl.pointer_type(tl.float16))
            row = (tile - end) // across * T + tl.arange(0, T)
            col = (tile - end) % across * T + tl.arange(0, T)
            total = tl.zeros((T, T), tl.float32)
            for at in range(0, side, K):
                k = at + tl.arange(0, K)
                x = tl.load(a + tl.multiple_of(row[:, None] * side + k[None, :], [16, 16]))
                total += tl.dot(x, tl.load(b + tl.multiple_of(k[:, None] * side + col[None, :], [16, 16])))
            tl.store(c + row[:, None] * side + col[None, :], total.to(tl.float16))
            tile += CTAS
        end += across * across


def table(tensors: list[Any]) -> Any:
    return torch.tensor([tensor.data_ptr() for tensor in tensors], device="cuda")


def predicted(launches: Any) -> KernelRow:
    (row,) = tilesight.predict(launches, l2="cold").rows
    assert not row.refused
    return row


@pytest.mark.parametrize("count", [8, 64])
def test_ctas_copy_the_tensors_of_a_table(count: int) -> None:
    """As many as there are, each once: also where there are more than become classes of their own."""
    with tilesight.capture("h200") as launches:
        tensors = [torch.empty(1 << 16, device="cuda") for _ in range(count)]
        copied[(64, count)](table(tensors), torch.empty(count << 16, device="cuda"), 1 << 16, B=1024)
    traffic = predicted(launches).traffic
    assert traffic.hbm_read_bytes == pytest.approx(4 * count << 16, rel=0.01)
    assert traffic.smem_fill_bytes == pytest.approx(4 * count << 16, rel=0.01)


@pytest.mark.parametrize(
    ("sides", "ctas", "made"),
    [((512, 256, 128), 21, torch.empty), ((1024, 512, 256, 128), 84, torch.empty), ((512, 256, 128), 21, torch.rand)],
)
def test_products_of_a_group_read_each_matrix_once_for_each_column_of_tiles(
    sides: tuple[int, ...], ctas: int, made: Any
) -> None:
    """Tiles dealt to CTAs, as in Triton's tutorial: of 85 the first of 84 CTAs takes one of the first and the last."""
    with tilesight.capture("h200") as launches:
        a, b, c = ([made(side, side, device="cuda", dtype=torch.float16) for side in sides] for _ in range(3))
        sizes = torch.tensor(sides, dtype=torch.int32, device="cuda")
        grouped[(ctas,)](table(a), table(b), table(c), sizes, len(sides), CTAS=ctas, T=TILE, K=32)
    traffic = predicted(launches).traffic
    assert traffic.matmul_flop == sum(2 * side**3 for side in sides)
    assert traffic.hbm_read_bytes == pytest.approx(sum(2 * 2 * side**2 for side in sides), rel=0.01)
    assert traffic.smem_fill_bytes == pytest.approx(sum(2 * 2 * side**3 // TILE for side in sides), rel=0.02)
    assert traffic.l2_write_bytes == sum(2 * side**2 for side in sides)
