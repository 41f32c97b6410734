"""Many predictions: kept as they come, done again where a worker is lost, the same whoever answers and whoever dies."""

import os
import signal
import sqlite3
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.made_rows import prediction_of, row_of
from tilesight.kernels.compile.call import KernelCall
from tilesight.simulator.device.device import load_device

from tilesight.store import store as store_module
from tilesight.store.store import Store
from tilesight.tuning import answers
from tilesight.tuning.answers import Job, LostWorkers, TargetDevice, predict_all

TARGET = TargetDevice(device=load_device("h100"), name="h100-sxm")
MOMENTS = 200


def call_of(number: int) -> KernelCall:
    """A launch that differs from others by its grid."""
    return KernelCall(
        name="k", file="k.py", line=1, grid=(number + 1, 1, 1), num_warps=4, num_stages=3, num_ctas=1,
        job={"ttir": "", "capability": 90}, arguments={}, storages=(), configuration={"BLOCK": number},
    )  # fmt: skip


CALLS = [call_of(number) for number in range(12)]


def made_answer(job: Job) -> tuple[Any, ...]:
    """A time that depends on the launch alone."""
    return tuple(prediction_of(row_of(call.grid[0] * 1e-6)) for call in job.calls)


@pytest.fixture(autouse=True)
def _made_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "answer", made_answer)


def test_each_launch_has_its_answer_with_its_own_label() -> None:
    """In the order of the calls; equal questions are asked once."""
    rows = predict_all([*CALLS, CALLS[0]], TARGET, store=None, workers=1)
    assert [row.traffic.time_s for row in rows] == [pytest.approx((number + 1) * 1e-6) for number in [*range(12), 0]]
    assert [row.label for row in rows] == [f"BLOCK: {number}" for number in [*range(12), 0]]


@pytest.mark.parametrize("threads, together", [(1, 1), (3, 2), (8, 5)])
def test_the_answer_does_not_depend_on_who_works(threads: int, together: int) -> None:
    """Any number of workers, any size of a job."""
    alone = predict_all(CALLS, TARGET, store=None, workers=1)
    with ThreadPoolExecutor(threads) as executor:
        assert predict_all(CALLS, TARGET, store=None, executor=executor, together=together) == alone


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


def test_what_is_known_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress counts it as done."""
    store, told = Store(tmp_path / "kept"), []
    first = predict_all(CALLS[:8], TARGET, store=store, workers=1, together=3)
    asked = []

    def remembered(job: Job) -> tuple[Any, ...]:
        asked.extend(call.grid[0] - 1 for call in job.calls)
        return made_answer(job)

    monkeypatch.setattr(answers, "answer", remembered)
    rows = predict_all(CALLS, TARGET, store=store, workers=1, progress=lambda done, total: told.append((done, total)))
    assert rows[:8] == first and asked == [8, 9, 10, 11]
    assert told == [(8, 12), (12, 12)]


def test_another_device_is_another_question(tmp_path: Path) -> None:
    """So are another argument and another value, by the key."""
    store = Store(tmp_path / "kept")
    predict_all(CALLS[:1], TARGET, store=store, workers=1)
    predict_all(CALLS[:1], TargetDevice(device=load_device("h200"), name="h200"), store=store, workers=1)
    assert len(rows_of(store.path)) == 2


def rows_of(path: Path) -> list[Any]:
    """All that a store holds, by key."""
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT * FROM predictions ORDER BY key").fetchall()
    database.close()
    return rows


def killed_at(path: Path, moment: int) -> bool:
    """Fill a store in a process that SIGKILL ends at a step of SQLite's machine. Returns: whether it came so far."""
    child = os.fork()
    if child == 0:
        steps, connected = 0, store_module._connected

        def step() -> int:
            nonlocal steps
            steps += 1
            if steps == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return 0

        def watched(file: Path) -> sqlite3.Connection:
            database = connected(file)
            database.set_progress_handler(step, 1)
            return database

        store_module._connected = watched
        predict_all(CALLS, TARGET, store=Store(path), workers=1, together=2)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_sweep_that_is_killed_at_any_moment_ends_in_the_same_file(tmp_path: Path) -> None:
    """Two hundred moments, each a step of the database's machine; some of them come after the end."""
    whole = Store(tmp_path / "whole")
    predict_all(CALLS, TARGET, store=whole, workers=1, together=2)
    killed = 0
    for moment in range(1, MOMENTS + 1):
        path = tmp_path / f"{moment}"
        killed += killed_at(path, 3 * moment)
        predict_all(CALLS, TARGET, store=Store(path), workers=1, together=2)
        assert rows_of(path) == rows_of(whole.path), moment
    assert killed > MOMENTS // 2
