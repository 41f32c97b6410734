"""Data fall unevenly on the sets of an L2: near its capacity some overflow, and others do not."""

from dataclasses import replace

import pytest
from machine.toys import GPU, KIB, ONE_PARTITION, TILE_BYTES, every_sm_sweeps, run, sweeps

TILES = 2048
UNEVEN = replace(ONE_PARTITION, l2_bytes=TILES * TILE_BYTES, l2_set_spread=0.1)
"""16 groups of sets, each with room for 128 tiles on average."""
BELOW = {0.78: 0, 0.89: 2, 0.967: 6, 1.0: 8, 1.033: 10, 1.11: 14, 1.22: 16}
"""Share of the L2 that is swept -> groups, of 16 quantiles of a normal of 0.1, that have less room than that."""


@pytest.mark.parametrize(("share", "too_small"), BELOW.items())
def test_groups_with_too_little_room_miss_and_others_do_not(share: float, too_small: int) -> None:
    """Swept again and again, what overflows its sets misses in every sweep, a sixteenth of the data a group."""
    tiles = round(share * TILES)
    seen = run(sweeps(tiles=tiles, times=5, slabs=(0,)), gpu=UNEVEN)
    missed = (seen.hbm_read_bytes / TILE_BYTES - tiles) / (4 * tiles)
    assert missed == pytest.approx(too_small / 16, abs=0.5 / 16)


@pytest.mark.parametrize("share", [0.9, 1.0])
def test_sets_without_a_spread_overflow_all_at_once(share: float) -> None:
    """A buffer of the size of the L2 is read once, and one tile more in every sweep."""
    even = replace(UNEVEN, l2_set_spread=0)
    tiles = round(share * TILES)
    assert run(sweeps(tiles=tiles, times=5, slabs=(0,)), gpu=even).hbm_read_bytes == tiles * TILE_BYTES
    assert run(sweeps(tiles=TILES + 1, times=5, slabs=(0,)), gpu=even).hbm_read_bytes == 5 * (TILES + 1) * TILE_BYTES


def test_both_partitions_have_sets_of_both_kinds() -> None:
    """Shared data of half the L2 miss in the smaller half of each partition's groups."""
    tiles = TILES // 2
    seen = run(sweeps(tiles=tiles, times=5, slabs=(0, 0)), gpu=replace(UNEVEN, l2_partitions=GPU.l2_partitions))
    # Of sixteen groups one lies at its capacity, and may miss or not.
    assert (seen.hbm_read_bytes / TILE_BYTES - tiles) / (4 * tiles) == pytest.approx(0.5, abs=1 / 16)


def test_an_l2_of_few_granules_is_one_group() -> None:
    """Sets of one or two granules would overflow by rounding; 15 of 8 KiB are no room for two groups of eight."""
    small = replace(UNEVEN, l2_bytes=15 * 8 * KIB)
    fits, size = every_sm_sweeps(small, total_bytes=15 * 8 * KIB, shared=True, times=5)
    assert fits.hbm_read_bytes == size
    too_much, size = every_sm_sweeps(small, total_bytes=16 * 8 * KIB, shared=True, times=5)
    assert too_much.hbm_read_bytes == 5 * size
