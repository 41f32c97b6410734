"""The SM clock of a launch: lowered at once by its instruction mix, and later by the power limit."""

from collections.abc import Mapping
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..device.device import Device
from ..launch.program import Launch
from ..sm.step_cost import StepCost

ROUNDS = 8
"""Rounds of the iteration in which clock and HBM traffic settle; each follows from the other."""


class Clocks(NamedTuple):
    """SM clocks while a launch runs.

    Args:
        counted_hz: of the fastest SM, by which elapsed cycles count [Hz].
        busy_hz: of those that run the launch [Hz].
    """

    counted_hz: float
    busy_hz: float


def clocks_of(launch: Launch, costs: Mapping[str, StepCost], executions: Mapping[str, int], device: Device) -> Clocks:
    """Clocks of a launch: matrix products lower that of their cluster of SMs at once, whatever their share of the time.

    A cluster whose tensor cores idle for long enough raises its clock, and its next products begin slowly.
    The pauses of one CTA are filled by the other CTAs of its cluster.

    Args:
        costs: step name -> cost.
        executions: step name -> how often it runs in the launch.

    Source: 1,021 launches counted on H200s, 2026-11-21, and bursts of matmuls (docs/decisions/0009).
    """
    boost, lowered = float(device.boost_clock_hz), tensor_clock_hz(launch, device)
    if not any(cost.executed_flop for cost in costs.values()):
        return Clocks(boost, boost)
    busy = lowered
    if launch.cta_count <= device.sm.clock_lone_ctas:
        cycles = sum(costs[name].critical_path_cycles * times for name, times in executions.items())
        rested = sum(costs[name].rested_cycles * times for name, times in executions.items())
        restarts = sum(costs[name].restarts * times for name, times in executions.items())
        if restarts and cycles:
            time_s = (cycles - rested) / lowered + rested / boost + restarts * device.tensor_restart_s
            busy = cycles / time_s
    # A cluster of SMs without work keeps the boost clock, and elapsed cycles are those of the fastest SM.
    return Clocks(boost if launch.cta_count <= device.sm.clock_free_clusters_ctas else busy, busy)


def tensor_clock_hz(launch: Launch, device: Device) -> float:
    """Fastest clock of SMs whose tensor cores are at work on a launch: those of FP64 leave it as it is.

    Source: 1.798 GHz under HMMA and IMMA, 1.980 under DMMA, DFMA and FFMA for 0.2 to 3 ms (one H200, 2026-11-28,
    validate/data/matmul-clocks-h200-2026-11-28.ndjson.xz); NVIDIA computes FP64 peaks of Hopper with the boost clock.
    """
    return float(device.boost_clock_hz if launch.dtype == "fp64" else device.tensor_boost_clock_hz)


class Activity(NamedTuple):
    """What a launch asks of the GPU, as shares of what it can do.

    Args:
        tensor: matmuls, per cycle.
        fill: what goes from L2 to the SMs, per cycle.
        hbm: traffic, per second at the clock of a burst.
    """

    tensor: float
    fill: float
    hbm: float


def sustained_clock_hz(clock_hz: float, activity: Activity, device: Device) -> float:
    """The clock of a launch that repeats until the power limit acts: unchanged below the limit, ever lower above it.

    Power goes with activity and with a power of the clock. What the tensor cores and HBM take follows from the two
    clocks under load that `tilesight calibrate` measures. What has no matmuls keeps its clock.

    Source: 60 points of seeds 0 and 1 of `validate/data/` that ran longer than 0.15 s (docs/decisions/0009).
    """
    if not activity.tensor:
        return clock_hz
    boost, sm = device.tensor_boost_clock_hz, device.sm
    exponent, fill_power = sm.clock_power_exponent, sm.clock_fill_power_fraction
    tensor_load = (boost / device.tensor_clock_hz) ** exponent
    # In the mixed load, what comes from HBM goes to the SMs.
    mixed_fill = sm.clock_mixed_hbm_fraction * device.hbm_peak_bytes_per_s / device.mixed_clock_hz / device.sms
    mixed_cores = sm.clock_mixed_tensor_fraction + fill_power * mixed_fill / device.sm_fill_bytes_per_cycle
    mixed_load = (boost / device.mixed_clock_hz) ** exponent
    # A device file with one clock for both knows one load: nothing of HBM, and nothing beyond that clock.
    one_load = device.mixed_clock_hz == device.tensor_clock_hz
    hbm_load = 0.0 if one_load else max(0.0, mixed_load - tensor_load * mixed_cores) / sm.clock_mixed_hbm_fraction
    least = device.tensor_clock_hz / boost if one_load else 0.0
    slower = 1.0
    for _ in range(ROUNDS):
        load = tensor_load * (activity.tensor + fill_power * activity.fill) + hbm_load * activity.hbm * slower
        slower = min(1.0, max(least, load ** (-1.0 / exponent)))
    return clock_hz * slower


def clock_ratio_per_sm(clocks: Clocks, device: Device) -> np.ndarray:
    """Cycles that are counted for one of each SM that runs a launch; float64 (SMs,).

    Every cluster of SMs has its own clock. At the boost clock all are equal; below it they differ.
    """
    spread = device.gpc_clock_spread if clocks.busy_hz < device.boost_clock_hz else 0.0
    ranks = device.sm.clock_cluster_ranks
    ticks = np.array([1.0 + spread * NormalDist().inv_cdf((rank + 0.5) / len(ranks)) for rank in ranks])
    ratio: np.ndarray = ticks.max() / ticks[np.arange(device.sms) * len(ranks) // device.sms]
    return clocks.counted_hz / clocks.busy_hz * ratio
