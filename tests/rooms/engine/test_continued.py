"""A launch that is simulated again goes on from where it does as before."""

from dataclasses import replace

import pytest
from machine.toys import ONE_PARTITION, cost, run, sweeps
from tilesight.simulator.engine.continued import Comparison, Marks
from tilesight.simulator.launch.program import Launch

GPU = replace(ONE_PARTITION, l2_dirty_fraction=0.5)
TILES, TIMES = 200, 800
"""Of each of two CTAs, whose steps are 39 times those between two marks."""


@pytest.fixture(scope="module")
def swept() -> Launch:
    """Buffers larger than L2, read time and again."""
    return sweeps(tiles=TILES, times=TIMES, slabs=(0, 1))


@pytest.fixture(scope="module")
def marks(swept: Launch) -> Marks:
    """Of it on empty caches."""
    seen = run(swept, gpu=GPU, costs={"load": cost(40.0)}, steady_state=True).marks
    assert seen is not None and len(seen.at) == 2 * TILES * TIMES // 8192
    return seen


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps after which a launch has been compared with marks."""
    compared: list[int] = []
    compare = Comparison.compare

    def counted(self: Comparison, steps: int) -> None:
        compared.append(steps)
        compare(self, steps)

    monkeypatch.setattr(Comparison, "compare", counted)
    monkeypatch.setattr("tilesight.simulator.engine.continued.LEAST_MARKS", 4)
    return compared


def test_behind_dirty_data_a_launch_goes_on_once_these_are_gone(swept: Launch, marks: Marks, looks: list[int]) -> None:
    """The same bytes and time as when all of it is stepped through, in less than half of the steps."""
    whole = run(swept, gpu=GPU, costs={"load": cost(40.0)}, l2="dirty", steady_state=True)
    assert not looks
    continued = run(swept, gpu=GPU, costs={"load": cost(40.0)}, l2="dirty", steady_state=True, marks=marks)
    assert continued.cycles == pytest.approx(whole.cycles, rel=1e-3)
    assert continued.hbm_read_bytes == pytest.approx(whole.hbm_read_bytes, rel=1e-3)
    assert continued.hbm_write_bytes == pytest.approx(whole.hbm_write_bytes, rel=1e-3)
    assert looks[-1] < TILES * TIMES


def test_at_other_costs_the_rest_takes_as_much_longer(swept: Launch, marks: Marks, looks: list[int]) -> None:
    """Steps of ten times the length: time and bytes as when all of it is stepped through."""
    slow = {"load": cost(4000.0)}
    whole = run(swept, gpu=GPU, costs=slow, steady_state=True)
    continued = run(swept, gpu=GPU, costs=slow, steady_state=True, marks=marks)
    assert continued.cycles == pytest.approx(whole.cycles, rel=1e-3)
    assert continued.hbm_read_bytes == whole.hbm_read_bytes
    assert looks[-1] < TILES * TIMES


def test_another_launch_is_stepped_through(swept: Launch, marks: Marks, looks: list[int]) -> None:
    """Marks of another program tell nothing, and none are left of a launch that others came before."""
    other = sweeps(tiles=TILES, times=TIMES, slabs=(0, 1))
    assert run(other, gpu=GPU, l2="warm", steady_state=True, marks=marks).marks is None
    assert not looks
