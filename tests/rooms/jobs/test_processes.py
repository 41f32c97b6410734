"""Processes that answer jobs: an answer or a reason, and a new process after every death."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.waiting import HANG_S, ended, patient_timer
from tilesight.simulator.jobs import processes
from tilesight.simulator.jobs.processes import WorkerDied, WorkerProcess, how_ended, telling_line


@pytest.fixture
def answerer(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerProcess]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    made = WorkerProcess("support.fake.answerer", "helper", ["--gpu", "3"], {"MOOD": "fair"})
    yield made
    made.stop()


def test_a_process_answers_many_jobs(answerer: WorkerProcess) -> None:
    """The same process each time, with the arguments and the environment that it was given."""
    first, second = (answerer.ask({"do": "echo", "say": text}, HANG_S) for text in ("a\nb", "ü"))
    assert (first["said"], second["said"]) == ("a\nb", "ü")
    assert first["pid"] == second["pid"]
    assert (first["mood"], first["arguments"]) == ("fair", ["--gpu", "3"])


def test_a_process_asks_back_before_it_answers(answerer: WorkerProcess) -> None:
    """As often as it likes; what cannot be told ends the process, and the next job finds another."""
    job = {"do": "ask", "numbers": [1, 2, 3]}
    assert answerer.ask(job, HANG_S, lambda asked: {"doubled": 2 * asked["double"]}) == {"total": 12}
    with pytest.raises(ZeroDivisionError):
        answerer.ask(job, HANG_S, lambda asked: {"doubled": 1 // 0})
    assert answerer.ask({"do": "echo", "say": "on"}, HANG_S)["said"] == "on"


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ("garbage", "the helper gave an answer that is no JSON"),
        ("list", "the helper gave an answer that is no JSON"),
        ("half", "the helper died (status 3): printed by a library"),
        ("raise", "the helper died (status 1): RuntimeError: no luck today"),
    ],
)
def test_a_death_says_why_and_the_next_job_is_answered(answerer: WorkerProcess, job: str, reason: str) -> None:
    """In one line, by another process."""
    before = answerer.ask({"do": "echo", "say": ""}, HANG_S)["pid"]
    with pytest.raises(WorkerDied) as death:
        answerer.ask({"do": job}, HANG_S)
    assert str(death.value) == reason
    assert answerer.ask({"do": "echo", "say": ""}, HANG_S)["pid"] != before


def test_a_hang_ends_with_all_that_it_started(
    answerer: WorkerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time it was given; a child of the hanging process does not live on."""
    file, hanging = tmp_path / "child", tmp_path / "hanging"
    timers = SimpleNamespace(Timer=patient_timer(hanging), Event=threading.Event)
    monkeypatch.setattr(processes, "threading", timers)
    monkeypatch.setattr(processes, "cpu_s", lambda group: 0.0)
    with pytest.raises(WorkerDied, match=r"hang: the helper gave no answer in 0.1 s"):
        answerer.ask({"do": "child", "file": str(file), "hanging": str(hanging)}, 0.1)
    assert ended(int(file.read_text()))


@pytest.mark.parametrize(
    ("used_s", "reason"),
    [
        ([0.0, 0.04, 0.07, 0.1], "the helper was still at work after 0.1 s of computing; a longer limit may do"),
        ([5.0, 5.05, 5.05], "hang: the helper gave no answer in 0.1 s"),
    ],
)
def test_a_process_has_its_time_of_computing_on_a_machine_that_others_use(
    answerer: WorkerProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, used_s: list[float], reason: str
) -> None:
    """What has had a share of the time alone is waited for; what computes nothing hangs."""
    answerer.ask({"do": "echo", "say": ""}, HANG_S)
    readings = iter(used_s)
    monkeypatch.setattr(processes, "cpu_s", lambda group: next(readings))
    with pytest.raises(WorkerDied) as death:
        answerer.ask({"do": "wait", "asked": str(tmp_path / "asked")}, 0.1)
    assert str(death.value).startswith(reason)
    assert not list(readings)


def test_cpu_time_is_that_of_the_whole_group() -> None:
    """This process has computed something; a group that is not there, nothing."""
    assert processes.cpu_s(os.getpgid(0)) > 0.0 == processes.cpu_s(2**30)


def test_a_kill_from_another_thread_ends_the_wait(answerer: WorkerProcess, tmp_path: Path) -> None:
    """Whoever waits for the answer learns that the process died."""
    asked = tmp_path / "asked"
    os.mkfifo(asked)

    def kill() -> None:
        asked.read_bytes()
        answerer.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(WorkerDied, match=r"the helper died \(signal 9, SIGKILL\)"):
        answerer.ask({"do": "wait", "asked": str(asked)}, HANG_S)
    killer.join()


def test_stopping_twice_is_harmless(answerer: WorkerProcess) -> None:
    """Also before anything was asked, and the pipes are closed."""
    answerer.stop()
    before = len(os.listdir("/proc/self/fd"))
    answerer.ask({"do": "echo", "say": ""}, HANG_S)
    answerer.stop()
    answerer.stop()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("a\n\nb\n", "b"),
        ("ok\nfoo.cc:1: error: bad\nStack dump\n", "foo.cc:1: error: bad"),
        ("x\n" + "y" * 500, "y" * 300),
    ],
)
def test_the_line_that_tells(text: str, line: str) -> None:
    """The first that names an error, else the last; not too long."""
    assert telling_line(text) == line


def test_exit_statuses_have_names() -> None:
    """A negative one is a signal, also one that has no name."""
    assert how_ended(-11) == "signal 11, SIGSEGV"
    assert how_ended(2) == "status 2"
    assert how_ended(-63) == "signal 63"
