"""Tensors that kernels find by tables of their addresses: `data_ptr()` in a tensor of integers."""

from typing import Any

import pytest

pytest.importorskip("triton")

import torch
import triton
import triton.language as tl
from tilesight.kernels.capture.lowering import lower
from tilesight.kernels.compile.calls import compile_calls
from tilesight.simulator.launch.walk import tally
from tilesight.simulator.residency.l1_room import kept_of
from tilesight.simulator.trace.cta.traced_kernel import CompiledKernel
from tilesight.simulator.trace.program.launch import launches_of, trace
from tilesight.simulator.trace.touch import classes

import tilesight
from tilesight.predicting import KernelRow

TILE, ROW = 128, 1024


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


@triton.jit
def dealt(TABLE, TENSOR, AT, Z, tiles, n, CTAS: tl.constexpr, B: tl.constexpr):
    for tile in range(tl.program_id(0), tiles, CTAS):
        x = tl.multiple_of(tl.load(TABLE + tl.load(TENSOR + tile)).to(tl.pointer_type(tl.float32)), 16)
        at = tl.load(AT + tile)
        total = tl.zeros((B,), tl.float32)
        for i in range(n):
            total += tl.load(x + (at * n + i) * B + tl.arange(0, B))
        tl.store(Z + tile * B + tl.arange(0, B), total)


@triton.jit
def pipelined(TABLE, Z, STEPS, count, B: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * B + tl.arange(0, B)
    for g in range(count):
        length = tl.load(STEPS + g) * K
        x = tl.multiple_of(tl.load(TABLE + g).to(tl.pointer_type(tl.float16)), 16)
        total = tl.zeros((B, B), tl.float32)
        for at in tl.range(0, length, K, num_stages=3):
            tile = tl.load(x + tl.multiple_of(row[:, None] * length, [16, 16]) + at + tl.arange(0, K)[None, :])
            total += tl.dot(tile, tl.trans(tile))
        tl.store(Z + (g * tl.num_programs(0) * B + row[:, None]) * B + tl.arange(0, B)[None, :], total.to(tl.float16))


def table(tensors: list[Any]) -> Any:
    return torch.tensor([tensor.data_ptr() for tensor in tensors], device="cuda")


def bytes_of(launches: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Tensor -> bytes that the CTAs of the one launch load; the same of those that they store."""
    device = tilesight.load_device("h200")
    (launch,) = launches
    (compiled,) = compile_calls([lower(launch, 90)], device, workers=1)
    assert isinstance(compiled, CompiledKernel)
    traced = trace(compiled, kept_of(compiled.resources, compiled.grid, device))
    assert not any("fault" in note for note in traced.notes)
    totals = tally(launches_of([traced])[0].program)
    return totals.load_bytes, totals.store_bytes


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


@pytest.mark.parametrize(
    ("sides", "ctas"),
    [
        ((512, 256, 128), 20),
        ((512, 256, 128), 5),
        ((256, 256, 256), 7),
        ((384, 128, 256), 10),
        ((1024, 512, 256, 128), 83),
    ],
)
def test_a_cta_that_enters_one_loop_for_several_matrices_reads_each_whole(sides: tuple[int, ...], ctas: int) -> None:
    """Whatever came before: a CTA that goes on to another matrix begins there at its own tile, and ends with it."""
    with tilesight.capture("h200") as launches:
        a, b, c = ([torch.empty(side, side, device="cuda", dtype=torch.float16) for side in sides] for _ in range(3))
        sizes = torch.tensor(sides, dtype=torch.int32, device="cuda")
        grouped[(ctas,)](table(a), table(b), table(c), sizes, len(sides), CTAS=ctas, T=TILE, K=32)
    loaded, stored = bytes_of(launches)
    for number, side in enumerate(sides):
        assert loaded[f"A[{number}]"] == loaded[f"B[{number}]"] == 2 * side**2 * (side // TILE)
        assert stored[f"C[{number}]"] == 2 * side**2


def test_ctas_of_too_many_kinds_read_what_their_threads_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they run straight code unequally often in too many ways to be classes."""
    monkeypatch.setattr(classes, "MOST_COUNTS", 1)
    sides = (512, 256, 128)
    with tilesight.capture("h200") as launches:
        a, b, c = ([torch.empty(side, side, device="cuda", dtype=torch.float16) for side in sides] for _ in range(3))
        sizes = torch.tensor(sides, dtype=torch.int32, device="cuda")
        grouped[(20,)](table(a), table(b), table(c), sizes, len(sides), CTAS=20, T=TILE, K=32)
    assert any("too many ways through the code" in note for note in predicted(launches).notes)
    loaded, stored = bytes_of(launches)
    for number, side in enumerate(sides):
        assert loaded[f"A[{number}]"] == loaded[f"B[{number}]"] == 2 * side**2 * (side // TILE)
        assert stored[f"C[{number}]"] == 2 * side**2


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
@pytest.mark.parametrize(("tiles", "ctas"), [((5, 9, 3, 7), 5), ((50, 90, 30, 70), 40), ((8,) * 30, 40)])
def test_tiles_of_many_tensors_are_each_read_once(tiles: tuple[int, ...], ctas: int, order: str) -> None:
    """In each round another tensor, another one in each CTA: also where CTAs are too many kinds to be classes."""
    every = [(tensor, at) for tensor, count in enumerate(tiles) for at in range(count)]
    if order == "shuffled":
        every = [every[number] for number in torch.randperm(len(every), generator=torch.Generator().manual_seed(1))]
    steps = 6
    with tilesight.capture("h200") as launches:
        tensors = [torch.empty(count * steps * ROW, device="cuda") for count in tiles]
        tensor, at = (torch.tensor(numbers, dtype=torch.int32, device="cuda") for numbers in zip(*every, strict=True))
        z = torch.empty(len(every) * ROW, device="cuda")
        dealt[(ctas,)](table(tensors), tensor, at, z, len(every), steps, CTAS=ctas, B=ROW)
    loaded, stored = bytes_of(launches)
    for number, count in enumerate(tiles):
        assert loaded[f"TABLE[{number}]"] == 4 * count * steps * ROW
    assert stored["Z"] == 4 * len(every) * ROW


@pytest.mark.parametrize("steps", [(4, 4, 4), (2, 4, 8), (1, 1), (9, 1), (1, 9), (4, 0, 4), (0, 0, 5), (17, 3)])
def test_a_pipelined_loop_reads_each_tensor_once(steps: tuple[int, ...]) -> None:
    """The last copies of a visit are masked, and belong to no other visit."""
    rows, k, ctas = 64, 32, 8
    with tilesight.capture("h200") as launches:
        tensors = [torch.empty(ctas * rows, max(1, n) * k, device="cuda", dtype=torch.float16) for n in steps]
        z = torch.empty(len(steps) * ctas * rows, rows, device="cuda", dtype=torch.float16)
        lengths = torch.tensor(steps, dtype=torch.int32, device="cuda")
        pipelined[(ctas,)](table(tensors), z, lengths, len(steps), B=rows, K=k)
    loaded, stored = bytes_of(launches)
    for number, count in enumerate(steps):
        assert loaded.get(f"TABLE[{number}]", 0) == 2 * ctas * rows * count * k
    assert stored["Z"] == 2 * len(steps) * ctas * rows**2
