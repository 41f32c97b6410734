"""The time of launches as people measure it.

single      one run on a GPU that has rested: the clock of a burst; what a profiler shows
do_bench    as `triton.testing.do_bench` shows it: L2 full of zeros that are yet to be written back, events around
            the launches, and a clock on its way down to where the power limit keeps this rhythm
sustained   again and again without a pause: the clock under the power limit
graph       between two launches of a replayed CUDA graph: `graph_gap_s` of the device in place of the ramp
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .. import units
from ..arguments import shown
from ..device.device import Device
from ..engine.clock import Activity, sustained_clock_hz
from .prediction import LaunchPrediction

TIMINGS = {
    "single": "as a single run",
    "do_bench": "as do_bench shows it",
    "sustained": "repeated without a pause",
    "graph": "in a CUDA graph",
}
"""How time is measured, and in words."""
APART = 0.03
"""Share of the time from which on the ways differ so much that all are named."""
EVENTS_S = 1.7e-6
"""What a pair of CUDA events shows more than the launch between them takes [s].

Source: 12 kernels that wait for 0 to 400,000 cycles on one SM and on all, between events and counted by ncu: 0.8 to
2.1 us, 1.7 in the median, whatever they take (one H100, 2026-11-26, validate/lab/do_bench.py)."""
ZEROED_BYTES = 256 << 20
"""What do_bench zeroes before each call (triton 3.6, `triton.testing`) [B]."""
SETTLED_SHARE = 0.45
"""How far the clock has come down to the sustained one in the median of do_bench's calls.

do_bench warms up for 25 ms and measures for 100 ms. Source: products of 8192 x 8192 x 8192 and x 2048, 4096 x 4096 x
4096 and 1024 x 8192 x 8192 in its rhythm: 0.43, 0.31, 0.95 and 0.5 of the slowdown that they reach after 200 ms (one
H100, 2026-11-26, validate/lab/do_bench.py)."""


def one_of_timings(timing: object) -> None:
    """Raises: ValueError: it is none of `TIMINGS` (one line)."""
    if timing not in TIMINGS:
        raise ValueError(f"timing = {shown(timing)}: must be one of {', '.join(TIMINGS)}")


def at_clock(launch: LaunchPrediction, clock_hz: float) -> LaunchPrediction:
    """The same launch in the same cycles at another clock [Hz]."""
    time_s = launch.overhead_s + launch.traffic.cycles / clock_hz
    return replace(launch, clock_hz=clock_hz, traffic=replace(launch.traffic, time_s=time_s))


def in_graph(launch: LaunchPrediction) -> LaunchPrediction | None:
    """The same launch between two others of a replayed CUDA graph, at the same clock; None: it is not known."""
    if not (cycles := launch.graph_cycles):
        return None
    traffic = replace(launch.traffic, cycles=cycles, time_s=cycles / launch.clock_hz)
    return replace(launch, overhead_s=0.0, traffic=traffic)


def at_do_bench_clock(
    launches: Sequence[LaunchPrediction], activities: Sequence[Activity], device: Device
) -> list[LaunchPrediction]:
    """Launches of one function in the rhythm of do_bench, which zeroes memory before each call.

    Power goes with the mean over that rhythm: of the launches, and of the writes between them.

    Args:
        launches: at the clock of a burst; activities: of each.
    """
    zeroing_s = ZEROED_BYTES / device.hbm_write_bytes_per_s
    times_s = [launch.traffic.time_s for launch in launches]
    rhythm_s = zeroing_s + sum(times_s)
    shares = [time_s / rhythm_s for time_s in times_s]
    tensor, fill, hbm = (
        sum(share * activity[number] for share, activity in zip(shares, activities, strict=True)) for number in range(3)
    )
    hbm += zeroing_s / rhythm_s * device.hbm_write_bytes_per_s / device.hbm_peak_bytes_per_s
    slower = 1.0 - SETTLED_SHARE * (1.0 - sustained_clock_hz(1.0, Activity(tensor, fill, hbm), device))
    return [at_clock(launch, launch.clock_hz * slower) for launch in launches]


def timing_text(times: Mapping[str, tuple[float, float]], timing: str) -> str:
    """The time of the table and the ways to measure that differ from it, in one line; empty where none does.

    Args:
        times: one of `TIMINGS` -> time [s] and clock [Hz]; timing: that of the table.
    """
    if timing not in times:
        return ""
    time_s, clock_hz = times[timing]
    others = {way: other for way, other in times.items() if abs(other[0] / time_s - 1.0) > APART}
    if not others:
        return ""
    clocks = any(units.clock(hz) != units.clock(clock_hz) for _, hz in others.values())

    def text(way: str, seconds: float, hz: float) -> str:
        return f"{units.duration(seconds)} {TIMINGS[way]}{f' at {units.clock(hz)}' if clocks else ''}"

    first = f"{text(timing, time_s, clock_hz)} (this table)"
    return ", ".join([first, *(text(way, *other) for way, other in others.items())])
