"""The side that asks: a session on each GPU, whose process can be killed, and ncu where there is one.

A session takes tasks in chunks: it has its process measure each, then has all that came back counted in one run of ncu,
since ncu starts its program several times. What a process dies of costs that task; the next finds a new one.
"""

import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...kernels.compile.cache import triton_cache
from ...simulator.device.device import Device
from ...simulator.jobs.processes import WorkerDied, WorkerProcess
from ...simulator.launch.program import Launch, Resources
from ..counters.ncu import Ncu, Repeated, count
from ..counters.ncu_output import CountedLaunch, NcuFailed
from ..counters.table import fields_of
from ..measurement import MEASURED, Lost, Machine, Measurement
from ..points.point import Point
from .doubts import clock_doubts, counted_doubts, counter_doubts
from .results_file import Row
from .run_point import job_of

WORKER = f"{__package__.rpartition('.')[0]}.worker"
TIMEOUT_S = 120.0
"""No point takes a process longer, its first kernel's compilation included; then it hangs [s]."""
COUNT_START_S, COUNT_POINT_S = 240.0, 20.0
"""Time that ncu gets: for its repetitions of a program, and for each point in it [s]."""
CHUNK = 32
"""Points that are compiled together, and measured, then counted together, then written: what a killed run has to do
again at most."""
MOST_FAILED_COUNTS = 3
"""Points that ncu may fail on alone before a session stops asking it."""

Counts = tuple[list[CountedLaunch], list[dict[str, float]]]
"""What was counted of launches, in order: as ncu says it, and in our fields."""
Counting = Callable[[Sequence[Mapping[str, Any]]], Counts]
"""Jobs -> what was counted of all their launches. Raises NcuFailed where there are no counters."""


def count_jobs(
    ncu: Ncu, gpu: str, jobs: Sequence[Mapping[str, Any]], timeout_s: float, repeated: Repeated = "program"
) -> Counts:
    """Run jobs under ncu on one GPU. Raises: NcuFailed: there are no counters."""
    with TemporaryDirectory(prefix="tilesight-count-") as folder:
        file = Path(folder) / "jobs.json"
        file.write_text(json.dumps(list(jobs)), "utf-8")
        program = [sys.executable, "-P", "-m", WORKER, "--gpu", gpu, "--count", str(file)]
        launches = list(count(ncu, program, timeout_s=timeout_s, repeated=repeated))
    return launches, [fields_of(launch, ncu.metrics) for launch in launches]


def count_points(ncu: Ncu, gpu: str, jobs: Sequence[Mapping[str, Any]]) -> Counts:
    """Run the jobs of points under ncu. Raises: NcuFailed: there are no counters."""
    return count_jobs(ncu, gpu, jobs, COUNT_START_S + COUNT_POINT_S * len(jobs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A point that is to be measured.

    Args:
        point: what to measure.
        launches: with the resources that the compiler promised.
    """

    point: Point
    launches: tuple[Launch, ...]

    @property
    def resources(self) -> tuple[Resources, ...]:
        """Of each launch."""
        return tuple(launch.resources for launch in self.launches)


@dataclass(frozen=True, slots=True)
class _Measured:
    """What a process said of a task, before it is counted.

    Args:
        task: what was asked for.
        measurement: without counters.
        kernels: names of the functions that ran.
    """

    task: Task
    measurement: Measurement
    kernels: tuple[str, ...]


class GpuSession:
    """A process on one GPU, started when first asked, and again after each death.

    Args:
        gpu: its number, as CUDA counts.
        module: that the process runs; the worker, where empty.
        timeout_s: for each of its answers [s].
    """

    def __init__(self, gpu: str, *, module: str = "", timeout_s: float = TIMEOUT_S) -> None:
        self._answerer, self._timeout_s = (
            WorkerProcess(module or WORKER, "worker", ["--gpu", gpu], triton_cache()),
            timeout_s,
        )

    def ask(self, job: Mapping[str, Any], timeout_s: float | None = None) -> dict[str, Any]:
        """Have the process answer a job. Raises: Died: it did not."""
        return self._answerer.ask(job, timeout_s or self._timeout_s)

    def answer(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Have the process answer a job; the answer to one that it dies of is `lost`."""
        try:
            answer = self.ask(job)
        except WorkerDied as death:
            return {"lost": str(death)}
        if "lost" in answer and not answer.get("healthy"):
            # Whatever it was may have broken the process's GPU context.
            self._answerer.stop()
        return answer

    def machine(self, timeout_s: float | None = None) -> Machine:
        """The GPU, and what drives it. Raises: Died: no process can start there."""
        answer = self.ask({"do": "machine"}, timeout_s)
        if "lost" in answer:
            raise WorkerDied(answer["lost"])
        return Machine.from_dict(answer)

    def kill(self) -> None:
        """Let the process not finish what it is at."""
        self._answerer.kill()

    def close(self) -> None:
        """End the process, and let go of its pipes."""
        self._answerer.stop()


class PointSession(GpuSession):
    """A session that measures points.

    Args:
        device: as predicted.
        named_device: the same for jobs (`name` and `set`).
        counting: how launches are counted; or why they are not, in one line.
        gpu, module, timeout_s: as of `GpuSession`.
    """

    def __init__(
        self,
        gpu: str,
        device: Device,
        named_device: Mapping[str, Any],
        counting: Counting | str,
        *,
        module: str = "",
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        super().__init__(gpu, module=module, timeout_s=timeout_s)
        self._device, self._named_device, self._counting = device, named_device, counting
        self._failed_counts = 0
        self._stopped = False

    @property
    def chunk(self) -> int:
        """Tasks to take at a time."""
        return 1 if isinstance(self._counting, str) else CHUNK

    def rows(self, tasks: Sequence[Task]) -> list[Row]:
        """Measure tasks, then count those that came back. Returns: one row each, in order; none once it was stopped."""
        measured: list[_Measured | Lost] = []
        for task in tasks:
            measured.append(self._measured(task))
            if self._stopped:
                return []
        counted = iter(self._counted([outcome for outcome in measured if isinstance(outcome, _Measured)]))
        outcomes = [next(counted) if isinstance(outcome, _Measured) else outcome for outcome in measured]
        return [
            Row(point=task.point, resources=task.resources, outcome=outcome)
            for task, outcome in zip(tasks, outcomes, strict=True)
        ]

    def stop(self) -> None:
        """End the process, whatever it is at, and take no further task."""
        self._stopped = True
        self.kill()

    def _measured(self, task: Task) -> _Measured | Lost:
        answer = self.answer(self._job(task))
        if "lost" in answer:
            return Lost(key=task.point.key, reason=answer["lost"])
        return _Measured(task, Measurement.from_dict(answer["measurement"]), tuple(answer["kernels"]))

    def _job(self, task: Task) -> dict[str, Any]:
        return job_of(task.point, self._named_device, task.resources)

    def _counted(self, measured: Sequence[_Measured]) -> list[Measurement]:
        """The measurements with counters, or with the reason why they have none."""
        if not measured:
            return []
        if isinstance(self._counting, str):
            return [replace(ran.measurement, counters=self._counting) for ran in measured]
        try:
            launches, values = self._counting([self._job(ran.task) for ran in measured])
            wanted = sum(len(ran.task.launches) for ran in measured)
            if len(launches) != wanted:
                raise NcuFailed(f"{wanted} launches ran under ncu, {len(launches)} were counted")
        except NcuFailed as error:
            if len(measured) > 1:
                middle = len(measured) // 2
                return self._counted(measured[:middle]) + self._counted(measured[middle:])
            self._failed_counts += 1
            if self._failed_counts >= MOST_FAILED_COUNTS:
                self._counting = str(error)
            return [replace(measured[0].measurement, counters=str(error))]
        counted, first = [], 0
        for ran in measured:
            last = first + len(ran.task.launches)
            counted.append(self._with_counters(ran, launches[first:last], values[first:last]))
            first = last
        return counted

    def _with_counters(
        self, measured: _Measured, launches: Sequence[CountedLaunch], values: Sequence[dict[str, float]]
    ) -> Measurement:
        measurement, task = measured.measurement, measured.task
        ran = tuple(
            replace(launch, counters=fields) for launch, fields in zip(measurement.launches, values, strict=True)
        )
        objections = counted_doubts(measurement.launches, measured.kernels, launches)
        for launch, measured_launch in zip(task.launches, ran, strict=True):
            objections += counter_doubts(launch, measured_launch, self._device)
        if measurement.timing:
            objections += clock_doubts(ran, self._device, measurement.timing)
        doubts = tuple(dict.fromkeys((*measurement.doubts, *objections)))
        return replace(measurement, launches=ran, counters=MEASURED, doubts=doubts)


def run_tasks(
    tasks: Sequence[Task],
    sessions: Sequence[PointSession],
    keep: Callable[[Row], None],
    progress: Callable[[int], None],
) -> None:
    """Spread tasks over sessions.

    Args:
        tasks: points to measure.
        sessions: one per GPU.
        keep: called with every row, one at a time; rows come in the order in which they are done.
        progress: called with the number of rows done.
    """
    size = max(1, min(max(session.chunk for session in sessions), -(-len(tasks) // len(sessions))))
    chunks = iter([tasks[first : first + size] for first in range(0, len(tasks), size)])
    lock, stopped = threading.Lock(), threading.Event()
    done = 0

    def work(session: PointSession) -> None:
        nonlocal done
        while not stopped.is_set():
            with lock:
                chunk = next(chunks, None)
            if chunk is None:
                return
            for row in session.rows(chunk):
                with lock:
                    keep(row)
                    done += 1
                    progress(done)

    with ThreadPoolExecutor(len(sessions)) as threads:
        futures = [threads.submit(work, session) for session in sessions]
        try:
            for future in futures:
                future.result()
        except BaseException:
            stopped.set()
            for session in sessions:
                session.stop()
            raise
