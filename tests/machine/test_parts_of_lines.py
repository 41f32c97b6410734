"""Parts of lines: single sectors, rows that begin within lines, and sectors that are stored to in part."""

from dataclasses import replace

import pytest
from machine.toys import ONE_PARTITION, launch, run
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.engine.engine import LaunchRun
from tilesight.simulator.launch.program import Loop, Step, Tensor, Tile, affine

ROWS, STEPS, LINE_BYTES, SECTOR_BYTES = 64, 32, 128, 32
GPU = replace(ONE_PARTITION, l2_bytes=1 << 22, l2_latency_cycles=1, hbm_latency_s=1e-8)


def moved(width: int, apart: int, ctas: int = 1, *, stores: bool = False, part: float = 0, **gpu: object) -> LaunchRun:
    """CTAs take a piece of `width` bytes of each of 64 rows, 32 times down a matrix of bytes; rows lie `apart`."""
    held = Tensor(
        name="X", role="output" if stores else "input", slabs=1, rows=ROWS * STEPS, cols=apart, dtype=DTYPES["u8"]
    )
    piece = Tile(tensor="X", slab="slab", rows=ROWS, cols=width, row=affine(i=ROWS), path="async", part_fraction=part)
    step = Step(name="move", stores=(piece,)) if stores else Step(name="move", loads=(piece,))
    loop = Loop(counter="i", trips=STEPS, stages=8, body=(step,))
    return run(launch((loop,), (held,), [(0,)] * ctas), gpu=replace(GPU, **gpu))  # type: ignore[arg-type]


@pytest.mark.parametrize(("width", "requests"), [(SECTOR_BYTES, 2), (LINE_BYTES, 1)])
def test_neighbours_join_lines_and_not_single_sectors(width: int, requests: int) -> None:
    """Two SMs in step ask for the same places: of an H200's column sums L2 saw nine requests of ten."""
    seen = moved(width, 4096, ctas=2, coalescer_sms=2)
    assert seen.l2_read_bytes == requests * width * ROWS * STEPS


@pytest.mark.parametrize(("width", "fetched"), [(4, 64), (32, 64), (64, 64), (128, 128)])
def test_words_down_a_column_are_fetched_with_their_neighbours(width: int, fetched: int) -> None:
    """An H200 reads 64 B for each of 2^19 words at strides of 256 B to 16 KiB."""
    assert moved(width, 8192).hbm_read_bytes == fetched * ROWS * STEPS


def test_each_access_beyond_one_a_sector_takes_l2_time() -> None:
    """Rows of 128 B from a word behind a line on: 1.75 accesses a sector, and an H200 takes 1.67 times as long."""
    whole, shared = (
        moved(LINE_BYTES, LINE_BYTES, stores=True, part=part, l2_write_bytes_per_s=16e9).cycles for part in (0, 0.75)
    )
    assert shared / whole == pytest.approx(1 + 0.88 * 0.75, rel=0.02)


@pytest.mark.parametrize(("apart", "slower"), [(4096, 1.0), (4096 + 64, 1.25)])
def test_rows_that_begin_within_lines_are_read_as_parts_of_them(apart: int, slower: float) -> None:
    """Every other row of 256 B has half of its bytes in parts of lines, which come at half of the bandwidth here."""
    held = Tensor(name="X", role="input", slabs=1, rows=1, cols=apart * ROWS * STEPS, dtype=DTYPES["u8"])
    row = Tile(tensor="X", slab="slab", rows=1, cols=256, col=affine(i=apart), path="async")
    loop = Loop(counter="i", trips=ROWS * STEPS, stages=8, body=(Step(name="move", loads=(row,)),))
    parts, whole = (
        run(launch((loop,), (held,), [(0,)]), gpu=replace(GPU, hbm_part_line_fraction=share)).cycles
        for share in (0.5, 1.0)
    )
    assert parts / whole == pytest.approx(slower, rel=0.05)
