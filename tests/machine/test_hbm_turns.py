"""Device memory writes for a while, and reads wait for it: the more of the time goes to writes, the longer."""

from dataclasses import replace
from math import sqrt

import pytest
from machine.toys import COLS, ONE_PARTITION, TILE_BYTES, TILE_ROWS, launch, run, tensor
from tilesight.simulator.launch.program import Loop, Step, Tile

MOVED_TILES, TILE_CYCLES = 3000, TILE_BYTES // 64


def iteration(stored: int, turn_s: float, tiles: int = 4) -> float:
    """Cycles of an iteration that loads so many KiB and stores them several times, none of which was seen before."""
    rows, times = tiles * TILE_ROWS, MOVED_TILES // tiles
    names = "X", *(f"Y{number}" for number in range(stored))
    load, *stores = (Tile(tensor=name, slab="slab", rows=rows, cols=COLS, row=(("i", rows),)) for name in names)
    step = Step(name="step", loads=(load,), stores=tuple(stores))
    tensors = tuple(tensor(name, times * tiles) for name in names)
    kernel = launch((Loop(counter="i", trips=times, body=(step,)),), tensors, [(0,)])
    return run(kernel, gpu=replace(ONE_PARTITION, hbm_turn_s=turn_s)).cycles / times


def expected(stored: int, turn_s: float, tiles: int, share: float) -> float:
    """What an iteration takes that waits for that share of a turn, by how much of its time goes to writes."""
    before = iteration(stored, 0.0, tiles)
    return (before + sqrt(before**2 + 4 * share * turn_s * 1e9 * stored * tiles * TILE_CYCLES)) / 2


@pytest.mark.parametrize("stored", [1, 2])
@pytest.mark.parametrize("turn_s", [1e-6, 4e-6])
def test_reads_wait_for_the_share_of_a_turn_in_which_memory_writes(stored: int, turn_s: float) -> None:
    """On an H200, 8 KiB come after 1,195 cycles where CTAs write as much as they load, 1,004 where nobody writes."""
    assert iteration(stored, turn_s) == pytest.approx(expected(stored, turn_s, 4, 1.0), rel=0.03)


@pytest.mark.parametrize(("tiles", "share"), [(1, 0.5), (2, 1.0), (4, 1.0), (10, 1.0)])
def test_what_comes_from_one_place_waits_for_half_of_a_turn_in_the_mean(tiles: int, share: float) -> None:
    """An element of a scan would wait like a tile, which waits for the last of its lines."""
    assert iteration(1, 4e-6, tiles) == pytest.approx(expected(1, 4e-6, tiles, share), rel=0.03)


def test_reads_alone_wait_for_no_turn() -> None:
    """Kernels that write next to nothing would be slower for what others do."""
    assert iteration(0, 4e-6) == iteration(0, 0.0)
