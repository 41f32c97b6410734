"""Device memory writes for a while, and reads wait for it: the more of the time goes to writes, the longer."""

from dataclasses import replace
from math import sqrt

import pytest
from machine.toys import ONE_PARTITION, launch, run, tensor, tile
from tilesight.simulator.launch.program import Loop, Step

TIMES, TILE_CYCLES = 3000, 16


def iteration(stored: int, turn_s: float) -> float:
    """Cycles of an iteration that loads a tile and stores so many, none of which was seen before."""
    stores = tuple(tile(f"Y{number}", i=1) for number in range(stored))
    step = Step(name="step", loads=(tile("X", i=1),), stores=stores)
    tensors = tuple(tensor(name, TIMES) for name in ("X", *(f"Y{number}" for number in range(stored))))
    kernel = launch((Loop(counter="i", trips=TIMES, body=(step,)),), tensors, [(0,)])
    return run(kernel, gpu=replace(ONE_PARTITION, hbm_turn_s=turn_s)).cycles / TIMES


@pytest.mark.parametrize("stored", [1, 2, 4])
@pytest.mark.parametrize("turn_s", [1e-6, 4e-6])
def test_reads_wait_for_the_share_of_a_turn_in_which_memory_writes(stored: int, turn_s: float) -> None:
    """On an H200, 8 KiB come after 1,195 cycles where CTAs write as much as they load, 1,004 where nobody writes."""
    before = iteration(stored, 0.0)
    owed = turn_s * 1e9 * stored * TILE_CYCLES
    assert iteration(stored, turn_s) == pytest.approx((before + sqrt(before**2 + 4 * owed)) / 2, rel=0.03)


def test_reads_alone_wait_for_no_turn() -> None:
    """Kernels that write next to nothing would be slower for what others do."""
    assert iteration(0, 4e-6) == iteration(0, 0.0)
