"""The TLB: random rows take as long of any footprint that it reaches, and longer the more lies beyond."""

from dataclasses import replace

import pytest
from machine.random_places import GIB, H200, PIECES, ps_a_piece, random_places
from machine.toys import run


def test_within_its_reach_the_footprint_does_not_matter() -> None:
    """Rows of 128 B of 8 and of 60 GiB; an H200 takes 44 to 47 us for a million of them of 0.5 to 64 GiB."""
    near, far = (ps_a_piece(random_places(128, footprint)) for footprint in (8 * GIB, 60 * GIB))
    assert far == pytest.approx(near, rel=0.03)


@pytest.mark.parametrize(("footprint_gib", "measured_ps"), [(80, 61.7), (96, 103.3)])
def test_beyond_its_reach_misses_decide(footprint_gib: int, measured_ps: float) -> None:
    """A fifth and a third of the rows miss (validate/lab/translations.cu), 5 us of launch left out."""
    assert ps_a_piece(random_places(128, footprint_gib * GIB)) == pytest.approx(measured_ps, rel=0.1)


def test_misses_come_one_after_the_other() -> None:
    """Twice the time of a miss is twice the time of a launch that misses decide; stores miss like loads."""
    slow, slower = (replace(H200, sm=replace(H200.sm, tlb_miss_s=seconds)) for seconds in (2e-9, 4e-9))
    missing = 1 - H200.sm.tlb_reach_bytes / (96 * GIB)
    for stores in (False, True):
        made = random_places(128, 96 * GIB, stores=stores)
        slow_cycles, slower_cycles = (run(made, gpu=gpu).cycles for gpu in (slow, slower))
        assert slow_cycles == pytest.approx(PIECES * missing * 2e-9 * H200.boost_clock_hz, rel=0.05)
        assert slower_cycles == pytest.approx(2 * slow_cycles, rel=0.05)
