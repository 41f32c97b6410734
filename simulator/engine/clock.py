"""How fast the SMs of a launch tick: by what it executes at once, and by power after a while."""

from collections.abc import Mapping
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..device.device import Device
from ..launch.program import Launch
from ..sm.step_cost import StepCost

FEW_CTAS = 12
"""Up to so many CTAs leave a cluster of SMs without work, which keeps the boost clock, and elapsed cycles are those of
the fastest SM: all 23 launches with products of 1 to 12 CTAs were above 1.93 GHz (H200), of 701 with 16 or more 5 above
1.9; the SMs that ran 22 of 1 to 8 CTAs at 1.61 to 1.81 (docs/lab/data/sm-clocks-h200-2026-11-22.json.xz)."""
LONE_CTAS = 4
"""Up to so many have a cluster each: 1, 2 and 4 CTAs slow 9, 22 and 33 to 36 % of the SMs down, 8 no more than 4."""

POWER_EXPONENT = 3.75
"""Power goes with this power of the clock, since the voltage rises with it. Fitted, as the next, on the 60 points of
seeds 0 and 1 that were measured for longer than 0.15 s; no static power fits best, exponents of 3.4 to 3.9 as well."""
FILL_SHARE = 0.88
"""Power of what all SMs take in from L2 at full rate, of that of all tensor cores."""
MIXED_TENSOR, MIXED_HBM = 0.93, 0.93
"""Shares of tensor cores and HBM in the mixed load of `tilesight calibrate` (93 %, 4.46 of 4.8 TB/s on an H200)."""
ROUNDS = 8
"""Until the clock and the traffic of HBM agree."""

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
    if not any(cost.executed_flop for cost in costs.values()):
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


class Activity(NamedTuple):
    """What a launch asks of the GPU, as shares of what it can do.

    Args:
        tensor: products, per cycle; fill: what goes from L2 to the SMs, per cycle;
        hbm: traffic, per second at the clock of a burst.
    """

    tensor: float
    fill: float
    hbm: float


def sustained_clock_hz(clock_hz: float, activity: Activity, device: Device) -> float:
    """What power leaves of the clock of a launch that is repeated: all of it up to a limit, and then less and less.

    Power goes with activity and with a power of the clock. What the tensor cores and HBM take follows from the two
    clocks under load that `tilesight calibrate` measures. What has no products keeps its clock.

    Source: 60 points of seeds 0 and 1 of `docs/validation/` that ran longer than 0.15 s (docs/decisions/0009).
    """
    if not activity.tensor:
        return clock_hz
    boost = device.tensor_boost_clock_hz
    tensor_load = (boost / device.tensor_clock_hz) ** POWER_EXPONENT
    # In the mixed load, what comes from HBM goes to the SMs.
    mixed_fill = MIXED_HBM * device.hbm_peak_bytes_per_s / device.mixed_clock_hz / device.sms
    mixed_cores = MIXED_TENSOR + FILL_SHARE * mixed_fill / device.sm_fill_bytes_per_cycle
    mixed_load = (boost / device.mixed_clock_hz) ** POWER_EXPONENT
    # A device file with one clock for both knows one load: nothing of HBM, and nothing beyond that clock.
    one_load = device.mixed_clock_hz == device.tensor_clock_hz
    hbm_load = 0.0 if one_load else max(0.0, mixed_load - tensor_load * mixed_cores) / MIXED_HBM
    least = device.tensor_clock_hz / boost if one_load else 0.0
    slower = 1.0
    for _ in range(ROUNDS):
        load = tensor_load * (activity.tensor + FILL_SHARE * activity.fill) + hbm_load * activity.hbm * slower
        slower = min(1.0, max(least, load ** (-1.0 / POWER_EXPONENT)))
    return clock_hz * slower


def slowness_of_sms(clocks: Clocks, device: Device) -> np.ndarray:
    """How many cycles are counted for one of each SM that runs a launch; float64 (SMs,).

    Every cluster of SMs has a clock of its own. At the boost clock all are equal; below it they part.
    """
    spread = device.gpc_clock_spread if clocks.busy_hz < device.boost_clock_hz else 0.0
    ticks = np.array([1.0 + spread * NormalDist().inv_cdf((rank + 0.5) / len(CLUSTERS)) for rank in CLUSTERS])
    slowness: np.ndarray = ticks.max() / ticks[np.arange(device.sms) * len(CLUSTERS) // device.sms]
    return clocks.counted_hz / clocks.busy_hz * slowness
