"""How fast the SMs of a launch tick: by what it executes at once, and by power after a while."""

from collections.abc import Mapping
from statistics import NormalDist

import numpy as np

from .cost import StepCost
from .device import Device
from .program import Launch

FEW_CTAS = 12
"""Up to so many CTAs keep the boost clock: all 23 launches with products of 1 to 12 CTAs ran above 1.93 GHz (H200),
of 701 with 16 or more 5 above 1.9. Why is not known: a loop of products alone lowers the clock with one CTA already."""

CLUSTERS = (0, 4, 2, 6, 1, 5, 3, 7)
"""Rank of each of the 8 clusters of SMs (GPCs) by its clock: slow and fast ones on either side of L2."""


def clock_hz_of(launch: Launch, costs: Mapping[str, StepCost], device: Device) -> float:
    """SM clock of a launch: products lower it at once, whatever their share of the time.

    Source: 1,021 launches counted on H200s, 2026-11-21 (docs/decisions/0009-clock-of-a-launch.md).
    """
    lowered = launch.cta_count > FEW_CTAS and any(cost.matmul_flop for cost in costs.values())
    return float(device.tensor_boost_clock_hz if lowered else device.boost_clock_hz)


def fastest_tensor_clock_hz(device: Device) -> float:
    """SM clock at which all SMs of a device can multiply tiles at once."""
    return float(device.tensor_boost_clock_hz if device.sms > FEW_CTAS else device.boost_clock_hz)


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


def slowness_of_sms(clock_hz: float, device: Device) -> np.ndarray:
    """How many cycles the fastest SM runs for one of each; float64 (SMs,).

    Every cluster of SMs has a clock of its own. At the boost clock all are equal; below it they part.
    """
    spread = device.gpc_clock_spread if clock_hz < device.boost_clock_hz else 0.0
    clocks = np.array([1.0 + spread * NormalDist().inv_cdf((rank + 0.5) / len(CLUSTERS)) for rank in CLUSTERS])
    slowness: np.ndarray = clocks.max() / clocks[np.arange(device.sms) * len(CLUSTERS) // device.sms]
    return slowness
