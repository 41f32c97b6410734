"""How far off an extrapolated rest may be: what the windows seen so far leave open."""

import numpy as np
from tilesight.simulator.core.engine import links
from tilesight.simulator.core.engine.links import COUNTERS
from tilesight.simulator.engine.extrapolate import Past, Work, errors_of

WORK = Work(items=8, executions={"step": 80}, loaded_bytes=8000, stored_bytes=800)


def window(**counted: float) -> np.ndarray:
    """Counters of a window of 10 steps, cycles and dirty bytes; all that is not named is 0."""
    delta = np.zeros(COUNTERS + 2)
    delta[links.STEPS] = 10.0
    for name, value in counted.items():
        delta[getattr(links, name)] = value
    return delta


def past(*windows: np.ndarray) -> Past:
    """Windows in a row, of an L2 without dirty bytes."""
    return Past(deltas=windows, dirty=(0.0,) * len(windows))


def test_windows_that_are_alike_leave_nothing_open() -> None:
    """Each quarter of them extrapolates the same rest."""
    alike = window(HBM_READ=1000.0, L2_READ=2000.0, FABRIC=500.0)
    assert errors_of(past(*[alike] * 4), WORK, 0.0, False, 8.0).max() == 0


def test_first_reads_of_device_memory_are_judged_as_part_of_all_its_reads() -> None:
    """Half of what is touched first comes from HBM in the older windows, all in the newer: reads are as far off."""
    # Of 1000 B that the rest touches, quarters say 500 or 1000, so do the halves: half their range, 250, and half of
    # what the halves differ by, 250, as often as the rest is longer than the past, and once more: 3 times.
    older, newer = (window(TOUCHED=100.0, FIRST=first, HBM_READ=first) for first in (50.0, 100.0))
    error = errors_of(past(older, older, newer, newer), WORK, 1000.0, False, 8.0)
    assert error[links.HBM_READ] == 250 + 3 * 250
    assert error[links.FIRST] == error[links.TOUCHED] == 0
