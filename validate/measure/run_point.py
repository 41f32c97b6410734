"""Points on the GPU of this process: measured, or run under ncu; jobs of `worker`.

A job names a point, the device that its launches are built for, and the resources that the compiler promised.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...simulator.device.device import Device, load_device
from ...simulator.device.what_if import override
from ...simulator.launch.program import Launch, Resources
from ..measurement import Measurement
from ..points.point import Point
from .process import track_and_tare

NO_COUNTERS = "not counted yet"


def job_of(point: Point, device: Mapping[str, Any], resources: tuple[Resources, ...] = ()) -> dict[str, Any]:
    """What a worker needs to know.

    Args:
        device: `name`, and `set` (a list of `key=value`).
        resources: of each launch, where a compiler has promised any.
    """
    promised = [taken.to_dict() for taken in resources]
    return {"do": "point", "key": point.key, "point": point.to_dict(), "device": dict(device), "resources": promised}


def read_job(job: Mapping[str, Any]) -> tuple[Point, Device, tuple[Launch, ...]]:
    """Point, device and launches of a job; the launches have the resources that the compiler promised."""
    point, device = Point.from_dict(job["point"]), device_told(job["device"])
    launches = point.launches(device)
    if job["resources"]:
        promised = [Resources(**taken) for taken in job["resources"]]
        launches = tuple(replace(launch, resources=taken) for launch, taken in zip(launches, promised, strict=True))
    return point, device, launches


def device_told(device: Mapping[str, Any]) -> Device:
    """The device of a job."""
    return override(load_device(device["name"]), device["set"])


def measure(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run a point and say all that can be said without counters.

    Returns:
        `measurement`, and `kernels`: the names of the functions that ran, in order.
    """
    from ..timing.timing import time_run
    from .doubts import Facts, doubts
    from .oracle import oracle_error
    from .output_checks import is_stale, poison, ran, untouched_fraction, watch_streams
    from .pipeline import prepare

    begin = time.monotonic()
    point, device, launches = read_job(job)
    track, tare = track_and_tare()
    pipeline, peak_bytes = prepare(launches, point.problem)
    poison(pipeline.outputs)
    kernels = pipeline.run()
    untouched = untouched_fraction(pipeline.outputs)
    error = oracle_error(point.schedule, point.problem, launches[-1], pipeline.tensors)
    stale = is_stale(pipeline.run, pipeline.outputs, pipeline.last_input)
    waited_s, lingered_s = watch_streams(pipeline.run)
    facts = Facts(
        untouched_fraction=untouched, stale=stale, waited_s=waited_s, lingered_s=lingered_s, oracle_error=error
    )
    timing = time_run(
        track, pipeline.run, l2="cold" if point.l2 == "cold" else "warm", launches=len(launches), tare=tare
    )
    seen = tuple(ran(launch.name, launch.grid, kernel) for launch, kernel in zip(launches, kernels, strict=True))
    measurement = Measurement(
        key=point.key,
        timing=timing,
        launches=seen,
        peak_memory_bytes=peak_bytes,
        oracle_error=error,
        doubts=doubts(launches, point.problem, device, ran=seen, facts=facts, timing=timing),
        counters=NO_COUNTERS,
        spent_s=time.monotonic() - begin,
    )
    return {"measurement": measurement.to_dict(), "kernels": [kernel.metadata.name for kernel in kernels]}


def run_under_ncu(job: Mapping[str, Any]) -> None:
    """Run a point between the profiler's marks, with L2 as the point asks."""
    from ..timing.profiler import between_marks
    from .pipeline import prepare

    point, _, launches = read_job(job)
    track, _ = track_and_tare()
    # Bytes and cycles do not depend on values, and under ncu every launch of a forward pass takes long.
    pipeline, _ = prepare(launches, point.problem, forward=False)
    between_marks(pipeline.run, track.flush if point.l2 == "cold" else None)
