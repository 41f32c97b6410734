"""Many predictions: kept as they come, done again where a worker is lost, the same whoever answers and whoever dies."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import KilledWorker
from support import killed_sweeps
from support.killed_sweeps import CALLS, TARGET, made_answer, process_of
from support.made_rows import prediction_of, row_of
from tilesight.kernels.compile.call import KernelLaunch
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.prediction.kernels import Request
from tilesight.simulator.store.store import Store

from tilesight.tuning import answers
from tilesight.tuning.answers import predict_all
from tilesight.tuning.workers import Job, LostWorkers, Processes, worked

MOMENTS = 200
KILLED = KilledWorker("j", SimpleNamespace(address="tcp://a"), 3)


@pytest.fixture(autouse=True)
def _made_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "answer", made_answer)


def test_each_launch_has_its_answer_with_its_own_label() -> None:
    """In the order of the calls; equal questions are asked once."""
    rows = predict_all([*CALLS, CALLS[0]], TARGET, store=None, workers=1)
    assert [row.traffic.time_s for row in rows] == [pytest.approx((number + 1) * 1e-6) for number in [*range(12), 0]]
    assert [row.label for row in rows] == [f"BLOCK: {number}" for number in [*range(12), 0]]


def test_few_launches_are_predicted_by_this_process() -> None:
    """Others, which would not know the answers that are made here, take longer to start."""
    few = CALLS[: answers.FEW]
    assert predict_all(few, TARGET, store=None, workers=8) == predict_all(few, TARGET, store=None, workers=1)


@pytest.mark.parametrize("threads, together", [(1, 1), (3, 2), (8, 5)])
def test_the_answer_does_not_depend_on_who_works(threads: int, together: int) -> None:
    """Any number of workers, any size of a job."""
    alone = predict_all(CALLS, TARGET, store=None, workers=1)
    with ThreadPoolExecutor(threads) as executor:
        assert predict_all(CALLS, TARGET, store=None, executor=executor, together=together) == alone


def test_processes_stay_until_one_is_lost() -> None:
    """The next call finds the process of the one before; after a loss there is another, and all is answered."""
    processes, jobs = (
        Processes(1),
        [Job(keys=(str(number),), calls=(CALLS[number],), target=TARGET) for number in (0, 1)],
    )

    def answering() -> set[int]:
        answered = [pid for _, pid in worked(jobs, process_of, lambda job, why: 0, processes, 2)]
        assert len(answered) == len(jobs)
        return set(answered)

    try:
        (first,) = answering()
        assert answering() == {first} != {os.getpid()}
        os.kill(first, signal.SIGKILL)
        (second,) = answering()
        assert second not in (0, first)
    finally:
        processes.end()


class Losing(Executor):
    """Runs jobs, and loses the worker of some. Args: lost: numbers of the submissions that are lost."""

    def __init__(self, lost: set[int]) -> None:
        self.lost, self.count = lost, 0

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As of an executor."""
        future: Future[Any] = Future()
        if self.count in self.lost:
            future.set_exception(BrokenExecutor("a worker died"))
        else:
            future.set_result(function(*args, **kwargs))
        self.count += 1
        return future


def test_the_work_of_a_lost_worker_is_done_again() -> None:
    """And of one that is lost each time there is no answer, which is said with the kernel."""
    alone = predict_all(CALLS, TARGET, store=None, workers=1)
    assert predict_all(CALLS, TARGET, store=None, executor=Losing({0, 2, 6, 7}), together=2) == alone
    with pytest.raises(LostWorkers, match=r"^kernel k: its worker was lost 3 times \(BrokenExecutor: a worker died\)$"):
        predict_all(CALLS, TARGET, store=None, executor=Losing(set(range(100))), together=2)


class Raising(ThreadPoolExecutor):
    """Each job raises as it is told. Args: error: what; times: of each job."""

    def __init__(self, error: Exception, times: int) -> None:
        super().__init__(2)
        self.error, self.times, self.tries = error, times, Counter[str]()

    def submit(self, function: Any, /, job: Job, *args: Any) -> Future[Any]:  # type: ignore[override]
        """As of an executor."""
        self.tries[job.keys[0]] += 1
        if self.tries[job.keys[0]] > self.times:
            return super().submit(function, job)
        future: Future[Any] = Future()
        future.set_exception(self.error)
        return future


@pytest.mark.parametrize("error", [BrokenExecutor(), CancelledError(), ConnectionResetError(), KILLED])
def test_a_worker_is_lost_where_the_executor_or_the_connection_says_so(error: Exception) -> None:
    """Its job is done again, twice at most."""
    alone = predict_all(CALLS, TARGET, store=None, workers=1)
    with Raising(error, 2) as executor:
        assert predict_all(CALLS, TARGET, store=None, executor=executor, together=5) == alone
    with Raising(error, 3) as executor, pytest.raises(LostWorkers, match=f"3 times .{type(error).__name__}"):
        predict_all(CALLS, TARGET, store=None, executor=executor, together=5)


def test_a_job_that_raises_three_times_is_refused(tmp_path: Path) -> None:
    """Twice is no matter. The others are predicted and kept, and the next sweep asks for what is missing."""
    store, error = Store(tmp_path / "kept"), ModuleNotFoundError("No module named 'tilesight'")
    with Raising(error, 2) as executor:
        rows = predict_all(CALLS, TARGET, store=None, executor=executor, together=5)
    assert rows == predict_all(CALLS, TARGET, store=None, workers=1)
    with Raising(error, 3) as executor:
        rows = predict_all(CALLS, TARGET, store=store, executor=executor, together=5)
        assert executor.tries.total() == 9
    assert {row.refused for row in rows} == {
        "kernel k: its worker cannot predict (ModuleNotFoundError: No module named 'tilesight')"
    }
    assert all(row.failed and row.label == f"BLOCK: {number}" for number, row in enumerate(rows))
    assert all(row.prediction for row in predict_all(CALLS, TARGET, store=store, workers=1))


def test_an_error_in_one_configuration_of_a_job_leaves_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is raised for all that are compiled together, or for itself."""
    monkeypatch.undo()

    def compiled(calls: Sequence[KernelLaunch], device: Device, **how: Any) -> list[Any]:
        if any(call.grid[0] == 3 for call in calls):
            raise IndexError("no\nregister")
        return list(calls)

    def predicted(launches: Sequence[KernelLaunch], *names: Any, **how: Any) -> Any:
        if launches[0].grid[0] == 6:
            raise ValueError
        return SimpleNamespace(prediction=prediction_of(row_of(launches[0].grid[0] * 1e-6)))

    monkeypatch.setattr(answers, "compiled_launches", compiled)
    monkeypatch.setattr("tilesight.simulator.predict_kernels.predict_kernels", predicted)
    rows = predict_all(CALLS, TARGET, store=None, workers=1)
    assert [number for number, row in enumerate(rows) if row.failed] == [2, 5]
    assert rows[2].refused == (
        "kernel k: internal: IndexError (phase: predict): no register; please report this line and the kernel"
    )


def test_what_is_known_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress counts it as done."""
    store, progress = Store(tmp_path / "kept"), []
    first = predict_all(CALLS[:8], TARGET, store=store, workers=1, together=3)
    asked = []

    def remembered(job: Job) -> tuple[Any, ...]:
        asked.extend(call.grid[0] - 1 for call in job.calls)
        return made_answer(job)

    monkeypatch.setattr(answers, "answer", remembered)
    rows = predict_all(
        CALLS, TARGET, store=store, workers=1, progress=lambda done, total: progress.append((done, total))
    )
    assert rows[:8] == first and asked == [8, 9, 10, 11]
    assert progress == [(8, 12), (12, 12)]


def test_jobs_get_smaller_towards_the_end() -> None:
    """Of several workers; one does as many together as it may."""
    keys = tuple(map(str, range(60)))
    sizes = [len(part) for part in answers.in_jobs(keys, 8, 2)]
    assert sizes == sorted(sizes, reverse=True) and sizes[:4] == [8, 8, 8, 8] and sizes[-4:] == [1, 1, 1, 1]
    assert [key for part in answers.in_jobs(keys, 8, 2) for key in part] == list(keys)
    assert [len(part) for part in answers.in_jobs(keys, 8, 1)] == [8] * 7 + [4]


def test_another_device_is_another_question(tmp_path: Path) -> None:
    """So are another argument and another value, by the key."""
    store = Store(tmp_path / "kept")
    predict_all(CALLS[:1], TARGET, store=store, workers=1)
    predict_all(CALLS[:1], Request(device=load_device("h200"), name="h200"), store=store, workers=1)
    assert len(killed_sweeps.rows_of(store.path)) == 2


def test_a_sweep_that_is_killed_at_any_moment_ends_in_the_same_file(tmp_path: Path) -> None:
    """Two hundred moments, each a step of the database's machine, in a process without threads, which may be forked."""
    program = Path(killed_sweeps.__file__)
    ran = subprocess.run(
        [sys.executable, str(program), str(tmp_path), str(MOMENTS)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    outcome = json.loads(ran.stdout)
    assert outcome["differ"] == [] and outcome["rows"] == len(CALLS)
    assert outcome["killed"] > MOMENTS // 2
