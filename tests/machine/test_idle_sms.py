"""SMs that have run out of CTAs are idle until the last one ends, whatever kept the others."""

import pytest
from machine.toys import GPU, cost, launch, run, tensor, tile
from tilesight.simulator.launch.program import Launch, Loop, Step

CYCLES = 1000.0
COSTS = {"compute": cost(critical_path=CYCLES)}


def computing(*trips: int) -> Launch:
    """A CTA for each number of trips; nothing is loaded but a tile at the end of each CTA."""
    body = (
        Loop(counter="i", trips="trips", body=(Step(name="compute"),)),
        Step(name="store", stores=(tile("Y", slab="slab"),)),
    )
    items = [(slab, count) for slab, count in enumerate(trips)]
    return launch(body, (tensor("Y", 1, slabs=len(items), role="output"),), items, ("slab", "trips"))


@pytest.mark.parametrize(("trips", "idle"), [((3, 3), 0.0), ((1, 3), 1.0), ((5, 1, 1), 2.0), ((4,), 2.0)])
def test_an_sm_is_idle_from_its_last_cta_to_the_launchs_last(trips: tuple[int, ...], idle: float) -> None:
    """In the mean over two SMs; one that never had a CTA is idle all along."""
    seen = run(computing(*trips), costs=COSTS)
    assert seen.idle_cycles == pytest.approx(idle * CYCLES, abs=1.0)


def test_idle_time_is_part_of_the_launch() -> None:
    """It never exceeds it."""
    assert GPU.sms == 2
    seen = run(computing(1, 9), costs=COSTS)
    assert 0 < seen.idle_cycles < seen.cycles
