"""Pieces that lie alone: HBM moves more than they are, and takes as long for a sector as for a line to write."""

import pytest
from machine.random_places import GIB, H200, PIECES, ps_a_piece, random_places
from machine.toys import launch, run
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.launch.program import Loop, Step, Tensor, Tile


@pytest.mark.parametrize(("piece_bytes", "fetched_bytes"), [(32, 64), (64, 64), (128, 128)])
def test_a_sector_alone_is_fetched_with_its_neighbour(piece_bytes: int, fetched_bytes: int) -> None:
    """An H200 reads 63.6 B from HBM for each random word and sector, and 126.7 B for a line."""
    seen = run(random_places(piece_bytes, 4 * GIB), gpu=H200)
    assert seen.hbm_read_bytes == pytest.approx(PIECES * fetched_bytes, rel=0.02)


@pytest.mark.parametrize(("piece_bytes", "measured_ps"), [(32, 28.8), (64, 29.2), (128, 35.0)])
def test_random_pieces_are_read_at_the_pace_of_an_h200(piece_bytes: int, measured_ps: float) -> None:
    """Rows of 4 GiB, back to back (validate/lab/memory_kernels.py), 4 us of launch left out."""
    assert ps_a_piece(random_places(piece_bytes, 4 * GIB)) == pytest.approx(measured_ps, rel=0.2)


@pytest.mark.parametrize(("piece_bytes", "measured_ps"), [(32, 37.4), (64, 38.7), (128, 42.7), (256, 66.8)])
def test_random_pieces_are_written_at_the_pace_of_an_h200(piece_bytes: int, measured_ps: float) -> None:
    """The same for stores: a sector takes HBM as long as a line."""
    assert ps_a_piece(random_places(piece_bytes, 4 * GIB, stores=True)) == pytest.approx(measured_ps, rel=0.2)


def columns(width_bytes: int, *, beside: bool = False) -> int:
    """Bytes that HBM reads for each row of a matrix whose rows are 4 sectors, of which CTAs load columns in turn.

    Args:
        width_bytes: of a column, one in each sector; beside: whether CTAs beside each other load those of a row.
    """
    rows, sectors, high = 1 << 20, 4, 64
    row, col = (("at", high),), (("i", 32),)
    if beside:
        row, col = (("i", high),), (("at", width_bytes),)
    held = Tensor(name="S", role="input", slabs=1, rows=rows, cols=32 * sectors, dtype=DTYPES["u8"])
    column = Tile(tensor="S", slab="slab", rows=high, cols=width_bytes, row=row, col=col, path="async")
    step = Step(name="load", loads=(column,))
    trips, ctas = (rows // high, 32 * sectors // width_bytes) if beside else (sectors, rows // high)
    made = launch(
        (Loop(counter="i", trips=trips, body=(step,)),), (held,), [(0, cta) for cta in range(ctas)], ("slab", "at")
    )
    return round(run(made, gpu=H200).hbm_read_bytes / rows)


def test_a_column_of_parts_of_sectors_is_fetched_like_pieces_that_lie_alone() -> None:
    """4 B of each sector, and nobody beside: 64 B each (285.2 MB of 276.8 on an H200); whole sectors are 32."""
    assert columns(4) == 4 * 64
    assert columns(32) == 4 * 32


def test_columns_that_neighbours_go_on_with_are_fetched_once() -> None:
    """CTAs beside each other load 16 B each of the same rows."""
    assert columns(16, beside=True) == 4 * 32
