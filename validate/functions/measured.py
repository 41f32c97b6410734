"""What a GPU did with the launches of a user's function: a frozen value, its results file, and how it is obtained."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...kernels.capture.file import CannotCapture, UserCodeFailed
from ...kernels.compile.cache import triton_cache
from ...simulator.device.device import Device
from ...simulator.jobs.processes import Answerer, Died
from ..counters.ncu import Ncu, NcuFailed, copy_bytes, copy_doubt, count, find_ncu
from ..counters.ncu_output import UnreadableCounters
from ..counters.table import fields_of
from ..measurement import MEASURED, LaunchMeasurement, Machine, Timing

SCHEMA = "tilesight.validate.function/1"
WORKER = f"{__package__}.worker"
START_S, LAUNCH_S = 240.0, 20.0
"""Time that the GPU's process gets beside the function itself: to start and compile, and for each launch [s]."""
NCU_PASSES = 10
"""Times that ncu may run the whole program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLaunch:
    """One launch, made by itself. Args: launch: as it ran, with what was counted; timing: of replays."""

    launch: LaunchMeasurement
    timing: Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFunction:
    """All launches that were measured.

    Args:
        target: `file.py:function`; machine; device: that was predicted; l2: `cold` or `warm`.
        counters: `measured`, or why there are none; launches: in the order of their calls.
    """

    target: str
    machine: Machine
    device: str
    l2: str
    counters: str
    launches: tuple[MeasuredLaunch, ...]

    def to_dict(self) -> dict[str, Any]:
        """The object of a results file."""
        return {
            "schema": SCHEMA,
            "target": self.target,
            "machine": self.machine.to_dict(),
            "device": self.device,
            "l2": self.l2,
            "counters": self.counters,
            "launches": [
                {"launch": launch.launch.to_dict(), "timing": launch.timing.to_dict()} for launch in self.launches
            ],
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> "MeasuredFunction":
        """The object of a results file. Raises: KeyError, TypeError, ValueError: it is none."""
        if entry["schema"] != SCHEMA:
            raise ValueError(f"schema = {entry['schema']!r}: must be {SCHEMA!r}")
        values = {name: entry[name] for name in ("target", "device", "l2", "counters")}
        return cls(
            machine=Machine.from_dict(entry["machine"]),
            launches=tuple(_launch(launch) for launch in entry["launches"]),
            **values,
        )


def read_measured(path: Path) -> MeasuredFunction:
    """What a results file holds. Raises: OSError: it cannot be read; ValueError: it is none; one line."""
    try:
        return MeasuredFunction.from_dict(json.loads(path.read_text("utf-8")))
    except (KeyError, TypeError, ValueError) as error:
        what = f"has no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path}: holds no results of `tilesight validate FILE.py:FUNCTION`: {what}") from None


def job_of(target: str, names: Sequence[str], numbers: Sequence[int], l2: str) -> dict[str, Any]:
    """What the GPU's process needs to know. Args: as in `worker`."""
    file, _, function = target.rpartition(":")
    return {"file": file, "function": function, "l2": l2, "names": list(names), "numbers": list(numbers)}


def measure_function(
    target: str,
    job: Mapping[str, Any],
    *,
    gpu: str,
    device: Device,
    name: str,
    counted: bool,
    time_limit_s: float,
) -> MeasuredFunction:
    """Measure the launches of a job on one GPU.

    Args:
        job: as `job_of` makes it; gpu: its number; device, name: that was predicted; counted: whether ncu is asked;
        time_limit_s: what the function itself may take [s].

    Raises:
        CannotCapture: it launches something else there; UserCodeFailed: it raised, or the process died.
    """
    timeout_s = time_limit_s + START_S + LAUNCH_S * len(job["numbers"])
    process = Answerer(WORKER, "GPU's process", ("--gpu", gpu), triton_cache())
    try:
        machine = Machine.from_dict(process.ask({"machine": True}, START_S))
        answer = process.ask(job, timeout_s)
    except Died as death:
        raise UserCodeFailed(f"{target}: {death}") from None
    finally:
        process.stop()
    if "unusable" in answer:
        raise CannotCapture(answer["unusable"])
    if "raised" in answer:
        raise UserCodeFailed(answer["raised"])
    launches = tuple(_launch(launch) for launch in answer["launches"])
    counters, version = "not asked for (--no-counters)", ""
    if counted:
        try:
            ncu = find_ncu()
            version = ncu.version
            job = {**job, "copy_bytes": copy_bytes(device.l2_bytes)}
            launches = _counted(ncu, launches, job, gpu, timeout_s * NCU_PASSES)
            counters = MEASURED
        except NcuFailed as error:
            counters = str(error)
    return MeasuredFunction(
        target=target,
        machine=replace(machine, ncu=version),
        device=name,
        l2=job["l2"],
        counters=counters,
        launches=launches,
    )


def _counted(
    ncu: Ncu, launches: tuple[MeasuredLaunch, ...], job: Mapping[str, Any], gpu: str, timeout_s: float
) -> tuple[MeasuredLaunch, ...]:
    """The launches with their counters. Raises: NcuFailed: there are none, or of other launches."""
    with TemporaryDirectory(prefix="tilesight-count-") as folder:
        file = Path(folder) / "job.json"
        file.write_text(json.dumps(dict(job)), "utf-8")
        program = [sys.executable, "-P", "-m", WORKER, "--gpu", gpu, "--count", str(file)]
        # Each launch is measured by itself, so on a cold L2 it can also be repeated by itself.
        kernels = count(ncu, program, timeout_s=timeout_s, repeated="launch" if job["l2"] == "cold" else "program")
    copies = len(kernels) - len(launches)
    if copies < 0:
        raise NcuFailed(f"{len(launches)} launches ran under ncu, {len(kernels)} were counted")
    for launch, counted in zip(launches, kernels[copies:], strict=True):
        if counted.grid != launch.launch.grid:
            raise NcuFailed(
                f"kernel {launch.launch.name}: ncu counted a grid of {counted.grid}, not {launch.launch.grid}"
            )
    try:
        values = [fields_of(counted, ncu.metrics) for counted in kernels]
    except UnreadableCounters as error:
        raise NcuFailed(str(error)) from None
    if why := copy_doubt(values[:copies], job["copy_bytes"]):
        raise NcuFailed(why)
    return tuple(
        replace(launch, launch=replace(launch.launch, counters=fields))
        for launch, fields in zip(launches, values[copies:], strict=True)
    )


def _launch(entry: Mapping[str, Any]) -> MeasuredLaunch:
    return MeasuredLaunch(launch=LaunchMeasurement.from_dict(entry["launch"]), timing=Timing.from_dict(entry["timing"]))
