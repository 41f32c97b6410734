"""Sets of L2 that are full before L2 is: how much of what lies scattered they write back before it is written again.

Lines of a long array fall evenly on the sets; those of many short ones, far apart, as if at random (Poisson).
"""

from functools import cache
from math import ceil

import numpy as np

from ..device.device import Device

STEPS = 32


def written_early(device: Device) -> np.ndarray:
    """Share of dirty lines beyond what their sets may hold dirty; nothing where data fall evenly on the sets.

    Returns:
        float64 (STEPS + 1,), for equal steps of the dirty bytes of L2, from none to the most.
    """
    return _beyond(device.sm.l2_set_lines * device.l2_dirty_fraction if device.l2_set_spread else np.inf)


@cache
def _beyond(most: float) -> np.ndarray:
    """E[max(0, N - most)] / E[N] of a Poisson distribution, at means of 0 to `most`. Args: most: lines of a set."""
    shares = np.zeros(STEPS + 1)
    if np.isinf(most):
        return shares
    counts = np.arange(1, 4 * ceil(most) + 32)
    for step in range(1, STEPS + 1):
        mean = most * step / STEPS
        odds = np.exp(counts * np.log(mean) - mean - np.cumsum(np.log(counts)))
        shares[step] = float(odds @ np.maximum(0.0, counts - most)) / mean
    return shares
