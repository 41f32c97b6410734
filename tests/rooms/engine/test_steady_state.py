"""When the rest of a grid is skipped, and how much of it: a launch whose items take a time that is given."""

from types import SimpleNamespace

import numpy as np
import pytest
from machine.toys import GPU, launch, tensor
from tilesight.simulator.core.engine import links
from tilesight.simulator.core.engine.lru import CAPACITY, COLUMNS, MOST_DIRTY_BYTES
from tilesight.simulator.engine.lower import lower_tensors
from tilesight.simulator.engine.steady_state import extrapolate_steady_state
from tilesight.simulator.launch.program import Step

ITEMS, SLOTS, SWING_ITEMS = 1024, 2, 16


class Swinging:
    """A launch of 1024 items of 100 cycles on two slots; 16 items take a share longer, 16 as much less, and so on."""

    def __init__(self, swing: float) -> None:
        self.launch = launch((Step(name="work"),), (tensor("X", 1),), [(0,)] * ITEMS, period=1)
        self.tensors = lower_tensors((self.launch,), GPU, "chunk")
        self.slot_count, self.is_folded, self.lowered = SLOTS, False, SimpleNamespace(spilled_granules=0)
        self.program = SimpleNamespace(loops=())
        lists = np.zeros((1, COLUMNS))
        lists[:, [CAPACITY, MOST_DIRTY_BYTES]] = 1e9  # an L2 that never fills
        self.memory = SimpleNamespace(l2=SimpleNamespace(lists=lists), counter=np.zeros(links.COUNTER_ELEMENTS))
        self.swing, self.cycles, self.position = swing, 0.0, 0
        self.skips: list[tuple[int, int]] = []

    def step_to(self, item: int, first: int = 0) -> None:
        """Run items up to this one."""
        for number in range(first, item):
            self.memory.counter[links.STEPS] += 1
            self.cycles += 100.0 * (1.0 + self.swing * (-1) ** (number // SWING_ITEMS))
        self.position = item

    def skip_to(self, item: int) -> None:
        """Go on with a later one."""
        self.skips.append((self.position, item))

    def snapshot(self) -> np.ndarray:
        """Counters and cycles so far."""
        return np.append(self.memory.counter[: links.COUNTERS], self.cycles)


@pytest.mark.parametrize(("swing", "begin"), [(0.005, 64), (0.010, 128)])
def test_half_the_rest_may_use_up_no_more_than_its_share_of_what_is_tolerated(swing: float, begin: int) -> None:
    """All is skipped but two waves, once what windows differ by allows it."""
    # After 64 items the four quarters of 16 differ by the swing. Half a per cent is less than the 0.7 of the launch
    # that cycles may be off; one per cent is more for all of the rest, and for half of it more than half of 0.7.
    # After 128 items, quarters of 32 agree.
    run = Swinging(swing)
    skipped = extrapolate_steady_state(run, False)  # type: ignore[arg-type]
    end = ITEMS - 2 * SLOTS
    assert run.skips == [(begin, end)]
    assert skipped[links.STEPS] == end - begin
    assert skipped[-1] == pytest.approx(100 * (end - begin))
