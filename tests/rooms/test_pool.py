"""Jobs over processes: the results and their order are those of one process."""

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tilesight.simulator import pool
from tilesight.simulator.pool import run_all


def test_results_come_in_the_order_of_the_jobs() -> None:
    """In one process."""
    assert run_all(abs, [-3, 1, -2]) == [3, 1, 2]


def test_no_jobs_have_no_results() -> None:
    """And start no processes."""
    assert run_all(abs, [], workers=4) == []


def test_several_processes_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same order."""
    monkeypatch.setattr(pool, "PAYS_AFTER_S", 0.0)
    assert run_all(abs, range(-9, 0), workers=2) == list(range(9, 0, -1))


def test_short_work_stays_in_this_process() -> None:
    """Starting others would take longer."""
    assert set(run_all(_process, range(20), workers=8)) == {os.getpid()}


def test_long_work_moves_to_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first job has shown that it is long."""
    monkeypatch.setattr(pool, "PAYS_AFTER_S", 0.0)
    first, *others = run_all(eval, ["__import__('os').getpid()"] * 4, workers=2)
    assert first == os.getpid()
    assert os.getpid() not in others


def test_an_error_of_a_job_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """From another process, as itself."""
    monkeypatch.setattr(pool, "PAYS_AFTER_S", 0.0)
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        run_all(math.sqrt, [4.0, 1.0, -1.0], workers=2)


def test_ctrl_c_works_again_after_the_processes_have_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ignored only while they start."""
    monkeypatch.setattr(pool, "PAYS_AFTER_S", 0.0)
    before = signal.getsignal(signal.SIGINT)
    run_all(abs, [-1, -2, -3], workers=2)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_ends_the_processes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of a minute do not keep the user waiting."""
    monkeypatch.setattr(pool, "PAYS_AFTER_S", 0.0)
    begin = time.monotonic()

    def interrupt(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(time.sleep, [0.0, 0.0, 60.0, 60.0], workers=2, progress=interrupt)
    assert time.monotonic() - begin < 30


KILLED = """
import os, sys, time
from tilesight.simulator import pool

def note(number):
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(1.0)
    return number

if __name__ == "__main__":
    pool.PAYS_AFTER_S = 0.0
    pool.run_all(note, range(10_000), workers=2)
"""


def test_workers_end_when_the_one_that_started_them_is_killed(tmp_path: Path) -> None:
    """They would keep the machine busy with the jobs that they have been given."""
    program, seen = tmp_path / "killed.py", tmp_path / "seen"
    program.write_text(KILLED, encoding="utf-8")
    started = subprocess.Popen([sys.executable, "-P", str(program), str(seen)])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (seen.exists() and len(set(seen.read_text().split())) >= 3):
        time.sleep(0.1)
    started.kill()
    started.wait()
    time.sleep(0.3)
    before = seen.read_text()
    assert len(set(before.split())) >= 3
    time.sleep(2.5)
    assert seen.read_text() == before


def test_less_than_one_worker_is_an_error() -> None:
    """Nobody would do the work."""
    with pytest.raises(ValueError, match="workers = 0: must be an integer of 1 or more"):
        run_all(abs, [1], workers=0)


def _process(_: int) -> int:
    return os.getpid()
