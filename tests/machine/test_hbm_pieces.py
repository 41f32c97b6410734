"""Device memory is slower with pieces of rows, and where reads and writes take turns; L2 is slower with writes."""

from dataclasses import replace

import pytest
from machine.toys import ONE_PARTITION, TILE_BYTES, TILE_ROWS, launch, run, run_all, sweeps, writes
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.engine.engine import LaunchRun
from tilesight.simulator.launch.program import Launch, Loop, Step, Tensor, Tile, affine

PIECES = 200
PER_BYTE = 1 / 64
"""Cycles of device memory for a byte."""


def walk(width: int, *, whole: bool = False, stages: int = 8, high: int = TILE_ROWS) -> Launch:
    """A CTA goes along rows of 16-bit elements in pieces of `width`, or down a matrix that is no wider than that."""
    wide = width if whole else width * PIECES
    rows = TILE_ROWS * PIECES if whole else high
    held = Tensor(name="X", role="input", slabs=1, rows=rows, cols=wide, dtype=DTYPES["fp16"])
    at = {"row": affine(i=TILE_ROWS)} if whole else {"col": affine(i=width), "row": affine()}
    piece = Tile(tensor="X", slab="slab", rows=TILE_ROWS if whole else high, cols=width, path="async", **at)
    step = Step(name="move", loads=(piece,))
    return launch((Loop(counter="i", trips=PIECES, stages=stages, body=(step,)),), (held,), [(0,)])


def cycles_per_byte(width: int, *, whole: bool = False, **options: object) -> float:
    """HBM-bound. Args: width: elements of a piece; whole: as of `walk`; options: fields of the GPU."""
    gpu = replace(ONE_PARTITION, l2_latency_cycles=1, hbm_latency_s=1e-8, l2_bytes=1 << 16, **options)  # type: ignore[arg-type]
    return run(walk(width, whole=whole), gpu=gpu).cycles / (TILE_ROWS * width * 2 * PIECES)


@pytest.mark.parametrize(("width", "slower"), [(16, 2.0), (32, 2.0), (64, 1.0), (128, 1.0)])
def test_pieces_of_less_than_a_line_are_read_at_a_part_of_the_bandwidth(width: int, slower: float) -> None:
    """Score tiles of 32 keys would stream at full speed; an H200 reads them at 0.59 of it."""
    assert cycles_per_byte(width, hbm_part_line_fraction=0.5) == pytest.approx(slower * PER_BYTE, rel=0.05)


def test_rows_that_are_read_whole_are_not_pieces() -> None:
    """K and V of a small head dimension lie in one place."""
    assert cycles_per_byte(32, whole=True, hbm_part_line_fraction=0.5) == pytest.approx(PER_BYTE, rel=0.1)


def test_pieces_come_later_than_whole_rows() -> None:
    """A lone CTA waits for the last of many rows, each from a page of its own."""
    slow = replace(ONE_PARTITION, hbm_piece_latency_s=500e-9)
    late, soon = (run(walk(64, stages=1), gpu=gpu).cycles for gpu in (slow, ONE_PARTITION))
    assert late - soon == pytest.approx(500 * PIECES, rel=0.01)
    assert run(walk(64, whole=True), gpu=slow).cycles == run(walk(64, whole=True), gpu=ONE_PARTITION).cycles


def test_a_piece_by_itself_does_not_come_later() -> None:
    """The next element of a scan would be 126 ns late in each step; 64 B come as soon as a pointer chase finds them."""
    slow = replace(ONE_PARTITION, hbm_piece_latency_s=500e-9)
    late, soon = (run(walk(64, stages=1, high=1), gpu=gpu).cycles for gpu in (slow, ONE_PARTITION))
    assert late == soon


def both_ways(share: int, fraction: float) -> LaunchRun:
    """A CTA that stores a tile of Y for every `share` tiles of X; the L2 is too small for either."""
    tensors = tuple(
        Tensor(name=name, role=role, slabs=1, rows=TILE_ROWS * 6400, cols=64, dtype=DTYPES["fp16"])  # type: ignore[arg-type]
        for name, role in (("X", "input"), ("Y", "output"))
    )
    stride = share * TILE_ROWS
    loads = tuple(
        Tile(tensor="X", slab="slab", rows=TILE_ROWS, cols=64, row=affine(i=stride, one=n * TILE_ROWS), path="async")
        for n in range(share)
    )
    store = Tile(tensor="Y", slab="slab", rows=TILE_ROWS, cols=64, row=affine(i=TILE_ROWS))
    step = Step(name="move", loads=loads, stores=(store,))
    gpu = replace(ONE_PARTITION, l2_bytes=1 << 16, hbm_mixed_fraction=fraction, hbm_latency_s=1e-8, l2_latency_cycles=1)
    body = (Loop(counter="i", trips=6400 // share, stages=8, body=(step,)),)
    return run(launch(body, tensors, [(0, 1)], ("slab", "one")), gpu=gpu)


@pytest.mark.parametrize(("share", "longer"), [(1, 2.0), (2, 1.0 + 2.0 / 3.0)])
def test_reads_and_writes_in_turn_take_longer_than_one_after_the_other(share: int, longer: float) -> None:
    """A row softmax would run at the bandwidth of reads; an H200 moves 0.92 of it."""
    assert both_ways(share, 0.5).cycles / both_ways(share, 1.0).cycles == pytest.approx(longer, rel=0.05)


def test_few_writes_cost_little() -> None:
    """Attention writes one byte for hundreds that it reads."""
    assert 1.0 < both_ways(100, 0.5).cycles / both_ways(100, 1.0).cycles <= 1.0 + 2.0 / 101.0


def test_l2_takes_writes_at_its_write_bandwidth() -> None:
    """What fits L2 never leaves it, and still takes its time to get there."""
    slow = replace(ONE_PARTITION, l2_write_bytes_per_s=16e9)
    wrote = run(writes(tiles=8, slabs=(0, 1), times=50), gpu=slow)
    assert wrote.hbm_write_bytes == 0
    read = run_all(
        writes(tiles=8, slabs=(0, 1), times=50),
        sweeps(tiles=8, times=1, slabs=(0, 1), name="Y", role="output"),
        gpu=slow,
    )[1]
    assert read.cycles > 2 * 8 * 50 * TILE_BYTES / 16
