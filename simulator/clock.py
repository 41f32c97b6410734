"""How fast the SMs of a launch tick: by what it executes at once, and by power after a while."""

from collections.abc import Mapping
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from .cost import StepCost
from .device import Device
from .program import Launch

FEW_CTAS = 12
"""Up to so many CTAs leave a cluster of SMs without work, which keeps the boost clock, and elapsed cycles are those of
the fastest SM: all 23 launches with products of 1 to 12 CTAs were above 1.93 GHz (H200), of 701 with 16 or more 5 above
1.9; the SMs that ran 22 of 1 to 8 CTAs at 1.61 to 1.81 (docs/validation/sm-clocks-h200-2026-11-22.json)."""
LONE_CTAS = 4
"""Up to so many have a cluster each: 1, 2 and 4 CTAs slow 9, 22 and 33 to 36 % of the SMs down, 8 no more than 4."""

CLUSTERS = (0, 4, 2, 6, 1, 5, 3, 7)
"""Rank of each of the 8 clusters of SMs (GPCs) by its clock: slow and fast ones on either side of L2."""


class Clocks(NamedTuple):
    """SM clocks while a launch runs. Args: counted_hz: of the fastest SM; busy_hz: of those that run it [Hz]."""

    counted_hz: float
    busy_hz: float


def clocks_of(launch: Launch, costs: Mapping[str, StepCost], executions: Mapping[str, int], device: Device) -> Clocks:
    """Clocks of a launch: products lower that of their cluster of SMs at once, whatever their share of the time.

    Where its tensor cores rest for long enough, a cluster's clock rises, and the next products begin slowly;
    CTAs of one cluster fill each other's pauses.

    Args:
        executions: step name -> how often it runs in the launch.

    Source: 1,021 launches counted on H200s, 2026-11-21, and bursts of products (docs/decisions/0009).
    """
    boost, lowered = float(device.boost_clock_hz), float(device.tensor_boost_clock_hz)
    if not any(cost.matmul_flop for cost in costs.values()):
        return Clocks(boost, boost)
    busy = lowered
    if launch.cta_count <= LONE_CTAS:
        cycles = sum(costs[name].critical_path_cycles * times for name, times in executions.items())
        rested = sum(costs[name].rested_cycles * times for name, times in executions.items())
        restarts = sum(costs[name].restarts * times for name, times in executions.items())
        if restarts and cycles:
            time_s = (cycles - rested) / lowered + rested / boost + restarts * device.tensor_restart_s
            busy = cycles / time_s
    return Clocks(boost if launch.cta_count <= FEW_CTAS else busy, busy)


def sustained_clock_hz(clock_hz: float, utilisation: Mapping[str, float], device: Device) -> float:
    """What power leaves of the clock of a launch that is repeated: two slopes, over the shares of tensor cores and HBM.

    Without products the clock stays.

    Source: `tilesight calibrate`, at 0 and 100 % of each; 73 points of `docs/validation/` that ran longer than 0.1 s
    are off by 4 % in the mean (6 % at the clock of a burst): other pipes take power too.
    """
    if not utilisation["tensor"]:
        return clock_hz
    tensor = (device.tensor_boost_clock_hz - device.tensor_clock_hz) * utilisation["tensor"]
    memory = (device.tensor_clock_hz - device.mixed_clock_hz) * utilisation["hbm"]
    return clock_hz - tensor - memory


def slowness_of_sms(clocks: Clocks, device: Device) -> np.ndarray:
    """How many cycles are counted for one of each SM that runs a launch; float64 (SMs,).

    Every cluster of SMs has a clock of its own. At the boost clock all are equal; below it they part.
    """
    spread = device.gpc_clock_spread if clocks.busy_hz < device.boost_clock_hz else 0.0
    ticks = np.array([1.0 + spread * NormalDist().inv_cdf((rank + 0.5) / len(CLUSTERS)) for rank in CLUSTERS])
    slowness: np.ndarray = ticks.max() / ticks[np.arange(device.sms) * len(CLUSTERS) // device.sms]
    return clocks.counted_hz / clocks.busy_hz * slowness
