"""Pieces that lie alone: HBM moves more than they are, and takes as long for a sector as for a line to write."""

import pytest
from machine.random_places import GIB, H200, PIECES, ps_a_piece, random_places
from machine.toys import run


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
