"""A launch looks at its deadline on the way, however few its CTAs are, and looking changes nothing."""

from contextlib import contextmanager
from dataclasses import astuple, replace
from itertools import count

import numpy as np
import pytest
from machine.toys import GPU, cost, costed_as, launch, run, sweeps, tensor, tile
from tilesight.simulator.engine import launch_state
from tilesight.simulator.engine.engine import run_launches
from tilesight.simulator.jobs.stopping import OutOfTime, limited
from tilesight.simulator.launch.program import Loop, Step


def long_cta(trips: int):
    """One CTA that loads a tile again and again."""
    body = Step(name="load", loads=(tile("X"),))
    return launch((Loop(counter="i", trips=trips, body=(body,)),), (tensor("X", 1),), [(0,)])


def test_one_cta_of_many_steps_is_ended_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the look that finds the deadline passed, not at its end."""
    monkeypatch.setattr(launch_state, "STEPS_AT_ONCE", 100)
    looks = count(1)
    with pytest.raises(OutOfTime), limited(5, lambda: next(looks)):
        run(long_cta(10_000))
    assert next(looks) == 7


def test_looking_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles and bytes of a launch with many stops and with none."""
    seen = []
    for steps in (1 << 20, 7):
        monkeypatch.setattr(launch_state, "STEPS_AT_ONCE", steps)
        seen.append(run(sweeps(tiles=64, times=9, slabs=(0, 0, 0, 0)), costs={"load": cost(50)}))
    first, second = (astuple(replace(outcome, marks=None)) for outcome in seen)
    assert all(np.array_equal(*both) for both in zip(first, second, strict=True))


def test_a_launch_that_fails_leaves_l2_to_the_next_as_it_was_then() -> None:
    """The others run, and the place of the one that failed stays empty."""
    kernels = [sweeps(tiles=4, times=1, slabs=(0,), name=name) for name in "XYX"]
    failed = []

    @contextmanager
    def attempt(number: int):
        try:
            yield
            if number == 1:
                raise ValueError
        except ValueError:
            failed.append(number)

    runs = run_launches([costed_as(kernel, GPU, {}) for kernel in kernels], GPU, attempt=attempt)
    assert failed == [1] and runs[2].hbm_read_bytes == 0 < runs[0].hbm_read_bytes
