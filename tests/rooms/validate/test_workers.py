"""Sessions: what a worker dies of costs its point and no other; several GPUs share the points; counters find theirs."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.made_up_measurements import H200, PROBLEM, a_point, some_points
from support.waiting import HANG_S, ended, patient_timer
from tilesight.simulator.jobs import processes
from tilesight.simulator.jobs.processes import WorkerDied
from tilesight.simulator.launch.program import Resources
from tilesight.simulator.refusal import Refusal
from tilesight.validate.compare.campaign import measure_points, plan
from tilesight.validate.counters.ncu_output import CountedLaunch, NcuFailed
from tilesight.validate.measure.process import reason_of
from tilesight.validate.measure.results_file import Row
from tilesight.validate.measure.run_point import job_of, read_job
from tilesight.validate.measure.session import CHUNK, MOST_FAILED_COUNTS, Counting, PointSession, Task, run_tasks
from tilesight.validate.measurement import Lost, Measurement
from tilesight.validate.points.point import Point

RESOURCES = Resources(registers_per_thread=168, smem_bytes_per_cta=49152, origin="compiled")
DEVICE = {"name": "h200", "set": []}
NO_COUNTERS = "ncu is not installed"
Make = Callable[..., PointSession]


@pytest.fixture
def hanging(tmp_path: Path) -> Path:
    """What a worker leaves before it hangs; without it none is given up, however slow the machine."""
    return tmp_path / "hanging"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, hanging: Path) -> Iterator[Make]:
    """Makes sessions whose workers fail as told."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("FAKE_HANGING", str(hanging))
    timers = SimpleNamespace(Timer=patient_timer(hanging), Event=threading.Event)
    monkeypatch.setattr(processes, "threading", timers)
    monkeypatch.setattr(processes, "cpu_s", lambda group: 0.0)
    made: list[PointSession] = []

    def make(
        faults: Mapping[str, str] | None = None,
        counting: Counting | str = NO_COUNTERS,
        gpu: str = "0",
    ) -> PointSession:
        monkeypatch.setenv("FAKE_FAULTS", json.dumps(faults or {}))
        made.append(PointSession(gpu, H200, DEVICE, counting, module="support.fake.worker", timeout_s=0.2))
        return made[-1]

    yield make
    for started in made:
        started.close()


def tasks_of(points: Sequence[Point]) -> list[Task]:
    tasks, rows = plan(points, H200, lambda wanted: [RESOURCES for _ in wanted])
    assert rows == []
    return tasks


def process_of(row: Row) -> int:
    """Number of the process that answered."""
    assert isinstance(row.outcome, Measurement)
    return row.outcome.peak_memory_bytes


FAULTS = {
    "hang": r"hang: the worker gave no answer in 0.2 s",
    "abort": r"the worker died \(signal 6, SIGABRT\): Assertion `layout == expected' failed\.",
    "segfault": r"the worker died \(signal 11, SIGSEGV\)",
    "killed": r"the worker died \(signal 9, SIGKILL\)",
    "exit": r"the worker died \(status 1\): no more",
    "out of memory: tried to allocate 160 GiB": r"out of memory: tried to allocate 160 GiB",
    "illegal address: CUDA error": r"illegal address: CUDA error",
}


@pytest.mark.parametrize(("fault", "reason"), FAULTS.items())
def test_a_failure_costs_its_point_only(session: Make, fault: str, reason: str) -> None:
    """Its row says why, in one line; the points before and after it are measured, these by a new process."""
    points = some_points(3)
    rows = session({points[1].key: fault}).rows(tasks_of(points))
    assert [row.point for row in rows] == points
    before, hit, after = rows
    assert isinstance(hit.outcome, Lost)
    assert hit.outcome.key == points[1].key
    assert re.fullmatch(reason, hit.outcome.reason)
    assert process_of(before) != process_of(after)


def test_failures_in_a_row_are_survived(session: Make) -> None:
    """Every kind one after the other, then a good one."""
    points = some_points(len(FAULTS) + 1)
    quick = [fault for fault in FAULTS if fault != "hang"]
    rows = session(dict(zip((point.key for point in points), quick, strict=False))).rows(tasks_of(points))
    assert [isinstance(row.outcome, Lost) for row in rows] == [True] * len(quick) + [False, False]


def test_points_without_a_failure_share_a_process(session: Make) -> None:
    """Starting one takes seconds on a GPU."""
    rows = session().rows(tasks_of(some_points(5)))
    assert len({process_of(row) for row in rows}) == 1


def test_rows_hold_what_the_compiler_promised(session: Make) -> None:
    """So that predictions can be made again without a compiler."""
    (row,) = session().rows(tasks_of([a_point("naive")]))
    assert row.resources == (RESOURCES,) * 3


def test_a_worker_that_cannot_start_is_no_row(session: Make) -> None:
    """Whoever asks for the machine learns why."""
    broken = PointSession("0", H200, DEVICE, NO_COUNTERS, module="no_such_module", timeout_s=HANG_S)
    with pytest.raises(WorkerDied, match=r"the worker died \(status 1\): .*No module named no_such_module"):
        broken.ask({"do": "machine"})


def gpu_of(row: Row) -> int:
    assert isinstance(row.outcome, Measurement)
    assert row.outcome.timing
    return round(row.outcome.timing.fastest_s)


@pytest.mark.parametrize(("fault", "busy"), [("exit", 3), ("hang", 2)])
def test_several_gpus_share_the_points(
    session: Make, fault: str, busy: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hanging: Path
) -> None:
    """Each point once, every GPU at work; while one hangs, the others do the rest."""
    points = some_points(30)
    met = tmp_path / "met"
    met.mkdir()
    monkeypatch.setenv("FAKE_MEET", f"{met}:{busy}")
    monkeypatch.setenv("FAKE_HANGING", str(tmp_path / "not yet"))
    sessions = [session({points[0].key: fault}, gpu=str(number)) for number in range(3)]
    rows: list[Row] = []
    seen: list[int] = []

    def keep(row: Row) -> None:
        rows.append(row)
        if fault == "hang" and len(rows) == len(points) - 1:
            hanging.touch()  # the watchdog may end the hang now that the others have done the rest

    run_tasks(tasks_of(points), sessions, keep, seen.append)
    assert sorted(row.point.key for row in rows) == sorted(point.key for point in points)
    assert seen == list(range(1, 31))
    lost = [row for row in rows if isinstance(row.outcome, Lost)]
    assert [row.point for row in lost] == points[:1]
    assert len({gpu_of(row) for row in rows if row not in lost}) == busy


def test_an_interrupt_leaves_no_worker_and_keeps_what_is_done(session: Make) -> None:
    """What was kept before stays; the worker that was busy is gone."""
    points = some_points(20)
    busy = session()
    kept: list[Row] = []

    def keep(row: Row) -> None:
        kept.append(row)
        if len(kept) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tasks(tasks_of(points), [busy], keep, lambda done: None)
    assert [row.point for row in kept] == points[:3]
    busy.close()
    assert ended(process_of(kept[0]), 0)


def counted(jobs: Sequence[Mapping[str, Any]]) -> tuple[list[CountedLaunch], list[dict[str, float]]]:
    """Counts for every launch of the jobs: as many bytes as the sequences of the problem, times a billion."""
    launches, values = [], []
    for job in jobs:
        for number in range(len(Point.from_dict(job["point"]).launches(H200))):
            launches.append(CountedLaunch(kernel=f"kernel_{number}", grid=(1, 1, 1), block=(128, 1, 1), metrics={}))
            values.append({"hbm_read_bytes": 1e9 * job["point"]["problem"]["batch"] + number})
    return launches, values


def counts_of(rows: Sequence[Row]) -> list[list[float]]:
    counts = []
    for row in rows:
        assert isinstance(row.outcome, Measurement)
        counts.append([launch.counters.get("hbm_read_bytes", -1) for launch in row.outcome.launches])
    return counts


def test_counters_reach_the_launches_that_they_belong_to(session: Make) -> None:
    """Also past a point that is lost, and over pipelines of several launches."""
    points = [*some_points(3), a_point("naive", replace(PROBLEM, batch=9))]
    rows = session({points[1].key: "exit"}, counted).rows(tasks_of(points))
    assert isinstance(rows[1].outcome, Lost)
    kept = [row for row in rows if isinstance(row.outcome, Measurement)]
    assert counts_of(kept) == [[1e9], [3e9], [9e9, 9e9 + 1, 9e9 + 2]]
    assert all(isinstance(row.outcome, Measurement) and row.outcome.has_counters for row in kept)


def test_a_point_that_ncu_fails_on_is_found(session: Make) -> None:
    """The others keep their counters; it says why it has none, and keeps its time."""
    points = some_points(7)

    def failing(jobs: Sequence[Mapping[str, Any]]) -> tuple[list[CountedLaunch], list[dict[str, float]]]:
        if any(job["key"] == points[4].key for job in jobs):
            raise NcuFailed("ncu ended with status 1")
        return counted(jobs)

    rows = session(None, failing).rows(tasks_of(points))
    assert counts_of(rows) == [[-1.0] if number == 4 else [1e9 * (number + 1)] for number in range(7)]
    hit = rows[4].outcome
    assert isinstance(hit, Measurement)
    assert (hit.counters, bool(hit.timing)) == ("ncu ended with status 1", True)


def test_launches_that_ncu_missed_are_seen(session: Make) -> None:
    """One counted launch too few cannot be told apart, so none of these counters is believed."""

    def short(jobs: Sequence[Mapping[str, Any]]) -> tuple[list[CountedLaunch], list[dict[str, float]]]:
        launches, values = counted(jobs)
        return launches[:-1], values[:-1]

    (row,) = session(None, short).rows(tasks_of([a_point("naive")]))
    assert isinstance(row.outcome, Measurement)
    assert row.outcome.counters == "3 launches ran under ncu, 2 were counted"
    assert counts_of([row]) == [[-1, -1, -1]]


def test_an_ncu_that_always_fails_is_left_alone(session: Make) -> None:
    """After a few points alone it is not asked again."""
    asked: list[int] = []

    def broken(jobs: Sequence[Mapping[str, Any]]) -> tuple[list[CountedLaunch], list[dict[str, float]]]:
        asked.append(len(jobs))
        raise NcuFailed("no permission")

    rows = session(None, broken).rows(tasks_of(some_points(8)))
    assert {row.outcome.counters for row in rows if isinstance(row.outcome, Measurement)} == {"no permission"}
    assert asked.count(1) == MOST_FAILED_COUNTS
    assert len(asked) < 8


def test_a_counted_kernel_of_another_name_is_a_doubt(session: Make) -> None:
    """What ncu saw must be what Triton says it launched."""

    def other(jobs: Sequence[Mapping[str, Any]]) -> tuple[list[CountedLaunch], list[dict[str, float]]]:
        launches, values = counted(jobs)
        return [replace(launch, kernel="elementwise") for launch in launches], values

    (row,) = session(None, other).rows(tasks_of([a_point()]))
    assert isinstance(row.outcome, Measurement)
    assert any("counted kernel elementwise, not kernel_0" in doubt for doubt in row.outcome.doubts)


def test_counted_points_come_in_chunks_and_others_at_once(session: Make) -> None:
    """A run without counters loses nothing when it is killed; one with counters no more than a chunk."""
    assert session().chunk == 1
    assert session(None, counted).chunk == CHUNK


def test_known_points_are_not_measured_again(session: Make) -> None:
    """Rows come in the order of the points, and only new ones are kept."""
    points = some_points(4)
    known = [Row(point=point, resources=(), outcome=Lost(key=point.key, reason="hang")) for point in points[1:3]]
    kept: list[Row] = []
    seen: list[tuple[int, int]] = []
    rows = measure_points(
        points,
        H200,
        [session()],
        lambda wanted: [RESOURCES for _ in wanted],
        known=known,
        keep=kept.append,
        progress=lambda *counts: seen.append(counts),
    )
    assert [row.point for row in rows] == points
    assert rows[1:3] == known
    assert [row.point for row in kept] == [points[0], points[3]]
    assert seen == [(3, 4), (4, 4)]


def test_points_are_compiled_in_batches_each_once_the_one_before_is_kept(session: Make) -> None:
    """A run that is cut off keeps what it has measured, whatever is left to compile."""
    points = some_points(2 * CHUNK + 1)
    kept: list[Row] = []
    compiled: list[tuple[int, int]] = []

    def compiler(wanted: Sequence[Any]) -> list[Resources]:
        compiled.append((len(kept), len(wanted)))
        return [RESOURCES for _ in wanted]

    rows = measure_points(points, H200, [session()], compiler, known=[], keep=kept.append)
    assert [row.point for row in rows] == points
    assert compiled == [(0, CHUNK), (CHUNK, CHUNK), (2 * CHUNK, 1)]


def test_what_cannot_run_becomes_a_row(session: Make) -> None:
    """A kernel that does not compile, a schedule that cannot do the problem: with reasons, and no worker is asked."""
    points = [a_point("naive"), a_point("flash1", replace(PROBLEM, dtype="fp8")), a_point()]

    def compiler(wanted: Sequence[Any]) -> list[Resources | Refusal]:
        refusal = Refusal("does not fit", "needs 278528 B of shared memory")
        return [refusal if launch.name == "softmax" else RESOURCES for launch in wanted]

    kept: list[Row] = []
    rows = measure_points(points, H200, [session()], compiler, known=[], keep=kept.append)
    assert len(kept) == 3
    reasons = [row.outcome.reason if isinstance(row.outcome, Lost) else "" for row in rows]
    assert reasons[0] == "cannot run: needs 278528 B of shared memory"
    assert reasons[1].startswith("cannot run: schedule flash1: fp8 cannot hold")
    assert reasons[2] == ""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("CUDA out of memory. Tried to allocate 160.00 GiB.\nmore"), "out of memory: CUDA out of memory."),
        (RuntimeError("CUDA error: an illegal memory access was encountered\n..."), "illegal address: CUDA error: an"),
        (RuntimeError("CUDA error: unspecified launch failure"), "launch failure: CUDA error"),
        (ValueError("launch 'x' has no kernel"), "wrong launch: launch 'x' has no kernel"),
        (KeyError("O"), "KeyError: 'O'"),
    ],
)
def test_errors_have_a_kind(error: Exception, reason: str) -> None:
    """The row's reason begins with it, and is one line."""
    said = reason_of(error)
    assert said.startswith(reason)
    assert "\n" not in said


def test_a_job_says_all_that_a_worker_needs() -> None:
    """Through JSON: the same point, device and launches, with the resources that the compiler promised."""
    point = a_point("naive", block_n=128, l2="warm")
    (task,) = tasks_of([point])
    job = json.loads(json.dumps(job_of(point, {"name": "h200", "set": ["sms=66"]}, task.resources)))
    read, device, launches = read_job(job)
    assert (read, device.sms) == (point, 66)
    assert [launch.resources for launch in launches] == list(task.resources)
    assert [launch.grid for launch in launches] == [launch.grid for launch in task.launches]
