"""One process that measures: jobs in, measurements out, and it may die of one without harm.

    python -m tilesight.validate.measure.worker --gpu 0       answers jobs on stdin, a line of JSON each
    ... --gpu 0 --count FILE                                  runs the jobs of a file once each, to be run under ncu

`lanes` starts and feeds it. A job names a point, the device that its launches are built for,
and the resources that the compiler promised.
"""

import argparse
import json
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...simulator.device.device import Device, load_device
from ...simulator.device.what_if import override
from ...simulator.jobs.processes import serve
from ...simulator.launch.program import Launch, Resources
from ..measurement import Lost, Machine, Measurement
from ..points.point import Point
from .driver import driver_version

if TYPE_CHECKING:
    from ..timing.track import Track

NO_COUNTERS = "not counted yet"
PHRASES = (
    ("out of memory", "out of memory"),
    ("illegal memory access", "illegal address"),
    ("misaligned address", "misaligned address"),
    ("unspecified launch failure", "launch failure"),
    ("out of resource", "out of resources"),
)
"""Words of an error -> kind of failure."""


def job_of(point: Point, device: Mapping[str, Any], resources: tuple[Resources, ...]) -> dict[str, Any]:
    """What a worker needs to know. Args: device: `name`, and `set` (a list of `key=value`)."""
    promised = [taken.to_dict() for taken in resources]
    return {"key": point.key, "point": point.to_dict(), "device": dict(device), "resources": promised}


def read_job(job: Mapping[str, Any]) -> tuple[Point, Device, tuple[Launch, ...]]:
    """Point, device and launches of a job; the launches have the resources that the compiler promised."""
    point = Point.from_dict(job["point"])
    device = override(load_device(job["device"]["name"]), job["device"]["set"])
    launches = point.launches(device)
    if job["resources"]:
        promised = [Resources(**taken) for taken in job["resources"]]
        launches = tuple(replace(launch, resources=taken) for launch, taken in zip(launches, promised, strict=True))
    return point, device, launches


def measure(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run a point and say all that can be said without counters.

    Returns:
        `measurement`, and `kernels`: the names of the functions that ran, in order.
    """
    import torch

    from ..timing.timing import time_run
    from .doubts import Facts, doubts
    from .oracle import oracle_error
    from .output_checks import is_stale, poison, ran, untouched_fraction, watch_streams
    from .pipeline import prepare

    begin = time.monotonic()
    point, device, launches = read_job(job)
    track, tare = track_and_tare()
    pipeline, peak_bytes = prepare(launches, point.problem, torch.device("cuda"))
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
    """Run a point between the profiler's marks, with L2 as the point asks, after it ran once to be compiled."""
    import torch

    from ..timing.timing import WARM_UP_S
    from .pipeline import prepare

    point, _, launches = read_job(job)
    track, _ = track_and_tare()
    # Bytes and cycles do not depend on values, and under ncu every launch of a forward pass takes long.
    pipeline, _ = prepare(launches, point.problem, torch.device("cuda"), forward=False)
    begin = time.monotonic()
    while time.monotonic() - begin < WARM_UP_S:  # an idle clock would make memory look fast in cycles
        pipeline.run()
        torch.cuda.synchronize()
    if point.l2 == "cold":
        track.flush()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    pipeline.run()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def machine() -> Machine:
    """The GPU of this process, and what drives it; `ncu` is left to the one who asks."""
    import torch
    import triton

    properties, folder = torch.cuda.get_device_properties("cuda"), Path(__file__).parent
    return Machine(
        gpu=properties.name,
        capability=f"{properties.major}.{properties.minor}",
        sm_count=properties.multi_processor_count,
        driver=driver_version(),
        torch=str(torch.__version__),
        triton=triton.__version__,
        ncu="",
        date=date.today().isoformat(),
        commit=_said(["git", "-C", str(folder), "log", "-1", "--format=%h", "--", "../../kernels"]),
    )


def answer(job: Mapping[str, Any]) -> dict[str, Any]:
    """The measurement of a job; or that it is lost, and why, in one line. After that the process is to be ended."""
    if "machine" in job:
        return machine().to_dict()
    try:
        return measure(job)
    except Exception as error:
        return Lost(key=job["key"], reason=reason_of(error)).to_dict()
    finally:
        forget()


def reason_of(error: Exception) -> str:
    """What went wrong, in one line that begins with the kind of failure."""
    text = str(error)
    first = " ".join(next((line for line in text.splitlines() if line.strip()), "").split())[:200]
    for words, kind in PHRASES:
        if words in text or words in type(error).__name__:
            return first if first.lower().startswith(kind) else f"{kind}: {first}"
    return f"{type(error).__name__}: {first}" if not isinstance(error, ValueError) else f"wrong launch: {first}"


@cache
def track_and_tare() -> tuple["Track", float]:
    """The track of this process, and its tare [s]."""
    import torch

    from ..timing.timing import tare_s
    from ..timing.track import Track

    track = Track("cuda")
    # cuBLAS keeps a workspace for good. Now it gets a segment of its own; in the middle of a job it may share that of
    # the job's tensors, and leaves a part of it to later jobs, which then hold less than they would by themselves.
    ones = torch.ones((1, 1), device="cuda")
    torch.mm(ones, ones)
    return track, tare_s(track)


def forget() -> None:
    """Give back the device memory of the last job."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_initialized():
        try:
            torch.cuda.empty_cache()
        except RuntimeError:  # the context is broken: the process will be ended
            return


def _said(command: list[str]) -> str:
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return finished.stdout.strip().splitlines()[0] if finished.returncode == 0 and finished.stdout.strip() else ""


def main() -> None:
    """Answer jobs, or run those of a file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", required=True)
    parser.add_argument("--count", type=Path)
    options = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = options.gpu  # before torch is imported
    if options.count:
        for job in json.loads(options.count.read_text("utf-8")):
            run_under_ncu(job)
            forget()
    else:
        serve(answer)


if __name__ == "__main__":
    main()
