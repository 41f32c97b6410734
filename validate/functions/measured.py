"""What a GPU did with the launches of a user's function: a frozen value, its results file, and how it is obtained."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...kernels.capture.file import UserCodeFailed
from ...simulator.device.device import Device
from ...simulator.jobs.processes import WorkerDied
from ...simulator.refusal import UserError
from ..counters.ncu import Ncu, copy_bytes, copy_doubt, find_ncu
from ..counters.ncu_output import NcuFailed
from ..measure.session import GpuSession, count_jobs
from ..measurement import MEASURED, LaunchMeasurement, Machine, Timing

SCHEMA = "tilesight.validate.function/1"
START_S, LAUNCH_S = 240.0, 20.0
"""Time that the worker gets apart from the function itself: to start and compile, and for each launch [s]."""
NCU_PASSES = 10
"""Times that ncu may run the whole program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLaunch:
    """One launch, made by itself.

    Args:
        launch: as it ran, with what was counted.
        timing: of replays.
    """

    launch: LaunchMeasurement
    timing: Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFunction:
    """All launches that were measured.

    Args:
        target: `file.py:function`.
        machine: where it was measured.
        device: that was predicted.
        l2: `cold` or `warm`.
        counters: `measured`, or why there are none.
        launches: in the order of their calls.
    """

    target: str
    machine: Machine
    device: str
    l2: str
    counters: str
    launches: tuple[MeasuredLaunch, ...]

    def to_dict(self) -> dict[str, Any]:
        """The object of a results file."""
        return {"schema": SCHEMA} | asdict(self)

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
    """What the worker needs to know. Args: as in `run_function`."""
    file, _, function = target.rpartition(":")
    names, numbers = list(names), list(numbers)
    return {"do": "function", "file": file, "function": function, "l2": l2, "names": names, "numbers": numbers}


def measure_function(
    target: str, job: Mapping[str, Any], *, gpu: str, device: Device, name: str, counted: bool, time_limit_s: float
) -> MeasuredFunction:
    """Measure the launches of a job on one GPU.

    Args:
        target: `file.py:function`.
        job: as `job_of` makes it.
        gpu: its number.
        device: that was predicted.
        name: of that device.
        counted: whether ncu is asked.
        time_limit_s: what the function itself may take [s].

    Raises:
        UserError: it launches something else there.
        UserCodeFailed: it raised, or the process died.
    """
    timeout_s = time_limit_s + START_S + LAUNCH_S * len(job["numbers"])
    session = GpuSession(gpu)
    try:
        machine = session.machine(START_S)
        answer = session.ask(job, timeout_s)
    except WorkerDied as death:
        raise UserCodeFailed(f"{target}: {death}") from None
    finally:
        session.close()
    if "unusable" in answer:
        raise UserError(answer["unusable"])
    if reason := answer.get("raised", answer.get("lost")):
        raise UserCodeFailed(reason)
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
    # Each launch is measured by itself, so on a cold L2 it can also be repeated by itself.
    kernels, values = count_jobs(ncu, gpu, [job], timeout_s, "launch" if job["l2"] == "cold" else "program")
    copies = len(kernels) - len(launches)
    if copies < 0:
        raise NcuFailed(f"{len(launches)} launches ran under ncu, {len(kernels)} were counted")
    for launch, counted in zip(launches, kernels[copies:], strict=True):
        if counted.grid != launch.launch.grid:
            raise NcuFailed(
                f"kernel {launch.launch.name}: ncu counted a grid of {counted.grid}, not {launch.launch.grid}"
            )
    if why := copy_doubt(values[:copies], job["copy_bytes"]):
        raise NcuFailed(why)
    return tuple(
        replace(launch, launch=replace(launch.launch, counters=fields))
        for launch, fields in zip(launches, values[copies:], strict=True)
    )


def _launch(entry: Mapping[str, Any]) -> MeasuredLaunch:
    return MeasuredLaunch(launch=LaunchMeasurement.from_dict(entry["launch"]), timing=Timing.from_dict(entry["timing"]))
