"""Device memory is slower with pieces of rows, and where reads and writes take turns; L2 is slower with writes."""

from dataclasses import replace

import pytest
from machine.toys import ONE_PARTITION, TILE_BYTES, TILE_ROWS, launch, run, run_all, writes
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.engine.engine import LaunchRun
from tilesight.simulator.launch.program import Launch, Loop, Step, Tensor, Tile, affine

PIECES = 200
PER_BYTE = 1 / 64
"""Cycles of device memory for a byte."""


def walk(width: int, *, stores: bool = False, whole: bool = False, stages: int = 8, high: int = TILE_ROWS) -> Launch:
    """A CTA goes along rows of 16-bit elements in pieces of `width`, or down a matrix that is no wider than that."""
    wide = width if whole else width * PIECES
    rows = TILE_ROWS * PIECES if whole else high
    held = Tensor(name="X", role="output" if stores else "input", slabs=1, rows=rows, cols=wide, dtype=DTYPES["fp16"])
    at = {"row": affine(i=TILE_ROWS)} if whole else {"col": affine(i=width), "row": affine()}
    piece = Tile(tensor="X", slab="slab", rows=TILE_ROWS if whole else high, cols=width, path="async", **at)
    step = Step(name="move", stores=(piece,)) if stores else Step(name="move", loads=(piece,))
    return launch((Loop(counter="i", trips=PIECES, stages=stages, body=(step,)),), (held,), [(0,)])


def cycles_per_byte(width: int, **options: object) -> float:
    """HBM-bound. Args: width: elements of a piece; options: of `walk`, or fields of the GPU."""
    walked = {name: options.pop(name) for name in ("stores", "whole") if name in options}
    # Nothing stays in L2, so that writes reach device memory at once.
    gpu = replace(ONE_PARTITION, l2_latency_cycles=1, hbm_latency_s=1e-8, l2_bytes=1 << 16, **options)  # type: ignore[arg-type]
    return run(walk(width, **walked), gpu=gpu).cycles / (TILE_ROWS * width * 2 * PIECES)  # type: ignore[arg-type]


@pytest.mark.parametrize(("width", "slower"), [(16, 2.0), (32, 2.0), (64, 1.0), (128, 1.0)])
def test_pieces_of_less_than_a_line_are_read_at_a_part_of_the_bandwidth(width: int, slower: float) -> None:
    """Score tiles of 32 keys would stream at full speed; an H200 reads them at 0.59 of it."""
    assert cycles_per_byte(width, hbm_part_line_fraction=0.5) == pytest.approx(slower * PER_BYTE, rel=0.05)


def beside(width: int, ctas: int, *, row_major: bool) -> Launch:
    """CTA i goes down pieces of `width` elements: those beside the ones of CTA i - 1, or below them."""
    held = Tensor(
        name="X",
        role="input",
        slabs=1,
        rows=TILE_ROWS * PIECES * (1 if row_major else ctas),
        cols=width * (ctas if row_major else 64),
        dtype=DTYPES["fp16"],
    )
    at = {"col": affine(at=width)} if row_major else {"row": affine(at=TILE_ROWS * PIECES, i=TILE_ROWS)}
    if row_major:
        at["row"] = affine(i=TILE_ROWS)
    piece = Tile(tensor="X", slab="slab", rows=TILE_ROWS, cols=width, path="async", **at)
    loop = Loop(counter="i", trips=PIECES, stages=8, body=(Step(name="move", loads=(piece,)),))
    return launch((loop,), (held,), [(0, cta) for cta in range(ctas)], ("slab", "at"))


@pytest.mark.parametrize(("row_major", "slower"), [(True, 1.0), (False, 2.0)])
def test_pieces_of_a_line_that_neighbours_complete_are_read_as_lines(row_major: bool, slower: float) -> None:
    """32 columns of a weight for each CTA: an H200 reads them as fast as 64, where 0.59 of that were said."""
    gpu = replace(ONE_PARTITION, l2_latency_cycles=1, hbm_latency_s=1e-8, l2_bytes=1 << 16, hbm_part_line_fraction=0.5)
    cycles = run(beside(32, 8, row_major=row_major), gpu=gpu).cycles
    assert cycles / (8 * TILE_ROWS * 32 * 2 * PIECES) == pytest.approx(slower * PER_BYTE, rel=0.1)


@pytest.mark.parametrize(("width", "slower"), [(64, 1.25), (96, 1.25), (128, 1.0), (512, 1.0)])
def test_single_lines_are_read_at_a_share_of_the_bandwidth(width: int, slower: float) -> None:
    """An H100 reads runs of 128 B at 0.94 of what it does runs of 256 B and more at."""
    assert cycles_per_byte(width, hbm_single_line_fraction=0.8) == pytest.approx(slower * PER_BYTE, rel=0.05)


def test_rows_that_are_read_whole_are_not_pieces() -> None:
    """K and V of a small head dimension lie in one place."""
    assert cycles_per_byte(32, whole=True, hbm_part_line_fraction=0.5) == pytest.approx(PER_BYTE, rel=0.1)


@pytest.mark.parametrize("width", [32, 64, 128])
def test_a_piece_takes_some_bytes_more_to_write(width: int) -> None:
    """The narrower the tile, the slower its rows leave."""
    plain, more = (
        run_all(
            walk(width, stores=True),
            walk(width, stores=True),
            gpu=replace(ONE_PARTITION, l2_bytes=1 << 16, hbm_piece_write_bytes=extra),
        )[1].cycles
        for extra in (0, 64)
    )
    if width * 2 * TILE_ROWS * PIECES > 2 << 16:
        assert more / plain == pytest.approx(1 + 64 / (2 * width), rel=0.05)
    else:
        assert more > plain


def test_l2_takes_rows_of_a_tile_in_turns_whatever_else_lies_in_the_tensor() -> None:
    """A narrower tile elsewhere cuts the tensor into smaller granules; rows of a line still take a turn each."""
    wide = walk(64, stores=True)
    (step,) = wide.program.body[0].body  # type: ignore[union-attr]
    corner = Step(name="corner", stores=(replace(step.stores[0], cols=16, col=affine()),))
    mixed = replace(wide, program=replace(wide.program, body=(*wide.program.body, corner)))
    gpu = replace(ONE_PARTITION, l2_bytes=1 << 20, l2_write_bytes_per_s=16e9)
    alone, with_corner = (run(launched, gpu=gpu).cycles for launched in (wide, mixed))
    assert gpu.sm.l2_turn_bytes == 64
    assert with_corner == pytest.approx(alone, rel=0.02)


LATE_S, LATE = 150e-9, 150
"""By which a place comes later than the mean at most; the same in cycles. It is within the latency of 200."""


def later(walked: Launch) -> float:
    """Cycles by which each of `PIECES` steps waits longer where places come sooner or later than the mean."""
    late, soon = (run(walked, gpu=replace(ONE_PARTITION, hbm_piece_latency_s=late_s)).cycles for late_s in (LATE_S, 0))
    return (late - soon) / PIECES


@pytest.mark.parametrize("rows", [2, 4, TILE_ROWS])
def test_a_read_of_pieces_waits_for_the_last_of_them(rows: int) -> None:
    """The last of n places, each drawn evenly, comes (n - 1) / (n + 1) of the range behind the mean; 8 % is 3 sigma."""
    assert later(walk(1024, stages=1, high=rows)) == pytest.approx(LATE * (rows - 1) / (rows + 1), abs=0.08 * LATE)


def test_a_piece_by_itself_comes_as_the_mean_does() -> None:
    """The next element of a scan would be late in each step; the mean of 200 is within 12 % of the range, 3 sigma."""
    assert later(walk(64, stages=1, high=1)) == pytest.approx(0, abs=0.12 * LATE)


def test_of_two_loads_the_later_one_counts() -> None:
    """A scan of three tensors steps as slowly as the last of them comes, on an H200 160 cycles behind the mean."""
    first, second = (walk(64, stages=1, high=1).program.tensors[0] for _ in range(2))
    tensors = (replace(first, name="X"), replace(second, name="Y"))
    loads = tuple(
        Tile(tensor=name, slab="slab", rows=1, cols=64, path="async", row=affine(), col=affine(i=64)) for name in "XY"
    )
    both = launch((Loop(counter="i", trips=PIECES, stages=1, body=(Step(name="move", loads=loads),)),), tensors, [(0,)])
    assert later(both) == pytest.approx(LATE / 3, abs=0.08 * LATE)


def test_what_lies_together_comes_as_the_mean_does() -> None:
    """Tiles of whole rows come from several places, whose latencies average out."""
    assert later(walk(128, stages=1, whole=True)) == 0


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


@pytest.mark.parametrize("share", [1, 2])
def test_reads_and_writes_in_turn_take_longer_than_one_after_the_other(share: int) -> None:
    """A row softmax would run at the bandwidth of reads; an H200 moves 0.92 of it."""
    assert both_ways(share, 0.5).cycles / both_ways(share, 1.0).cycles == pytest.approx(2.0, rel=0.05)


def test_few_writes_cost_little() -> None:
    """Attention writes one byte for hundreds that it reads."""
    assert both_ways(100, 0.5).cycles / both_ways(100, 1.0).cycles == pytest.approx(1.0 + 0.01 / 0.33, rel=0.03)


def test_l2_takes_writes_at_its_write_bandwidth() -> None:
    """What fits L2 never leaves it, and still takes its time to get there."""
    slow = replace(ONE_PARTITION, l2_write_bytes_per_s=16e9)
    wrote = run(writes(tiles=8, slabs=(0, 1), times=50), gpu=slow)
    assert wrote.hbm_write_bytes == 0
    assert wrote.cycles == pytest.approx(2 * 8 * 50 * TILE_BYTES / 16, rel=0.01)
