"""Processes that answer jobs: an answer or a reason, and a new process after every death."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tilesight.kernels.processes import Answerer, Died, how_ended, telling_line

LONG_S = 60.0


@pytest.fixture
def answerer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answerer]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    made = Answerer("fake_answerer", "helper", ["--gpu", "3"], {"MOOD": "fair"})
    yield made
    made.stop()


def test_a_process_answers_many_jobs(answerer: Answerer) -> None:
    """The same process each time, with the arguments and the environment that it was given."""
    first, second = (answerer.ask({"do": "echo", "say": text}, LONG_S) for text in ("a\nb", "ü"))
    assert (first["said"], second["said"]) == ("a\nb", "ü")
    assert first["pid"] == second["pid"]
    assert (first["mood"], first["arguments"]) == ("fair", ["--gpu", "3"])


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ("garbage", "the helper gave an answer that is no JSON"),
        ("list", "the helper gave an answer that is no JSON"),
        ("half", "the helper died (status 3): printed by a library"),
        ("raise", "the helper died (status 1): RuntimeError: no luck today"),
    ],
)
def test_a_death_says_why_and_the_next_job_is_answered(answerer: Answerer, job: str, reason: str) -> None:
    """In one line, by another process."""
    before = answerer.ask({"do": "echo", "say": ""}, LONG_S)["pid"]
    with pytest.raises(Died) as death:
        answerer.ask({"do": job}, LONG_S)
    assert str(death.value) == reason
    assert answerer.ask({"do": "echo", "say": ""}, LONG_S)["pid"] != before


def test_a_hang_ends_with_all_that_it_started(answerer: Answerer, tmp_path: Path) -> None:
    """After the time it was given; a child of the hanging process does not live on."""
    file = tmp_path / "child"
    with pytest.raises(Died, match=r"hang: the helper gave no answer in 1.5 s"):
        answerer.ask({"do": "child", "file": str(file)}, 1.5)
    child = int(file.read_text())
    deadline = time.monotonic() + 10
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _alive(child)


def _alive(pid: int) -> bool:
    """Whether a process runs; one that ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_kill_from_another_thread_ends_the_wait(answerer: Answerer) -> None:
    """Whoever waits for the answer learns that the process died."""
    answerer.ask({"do": "echo", "say": ""}, LONG_S)
    timer = threading.Timer(0.2, answerer.kill)
    timer.start()
    with pytest.raises(Died, match=r"the helper died \(signal 9, SIGKILL\)"):
        answerer.ask({"do": "sleep"}, LONG_S)
    timer.join()


def test_stopping_twice_is_harmless(answerer: Answerer) -> None:
    """Also before anything was asked, and the pipes are closed."""
    answerer.stop()
    before = len(os.listdir("/proc/self/fd"))
    answerer.ask({"do": "echo", "say": ""}, LONG_S)
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
