"""Jobs over processes: the results and their order are those of one process."""

import math
import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from tilesight.simulator import pool
from tilesight.simulator.pool import run_all
from waiting import HANG_S, ended, until


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


def test_short_work_stays_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting others would take longer."""
    clock = count(0, 0.01)
    monkeypatch.setattr(pool, "monotonic", lambda: next(clock))
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


def test_ctrl_c_ends_the_processes_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Jobs that take long do not keep the user waiting: none of them comes to its end."""
    monkeypatch.setattr(pool, "PAYS_AFTER_S", 0.0)
    end = tmp_path / "end"
    long = f"__import__('time').sleep({HANG_S}) or open({str(end)!r}, 'w').close()"

    def interrupt(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(eval, ["0", "0", long, long], workers=2, progress=interrupt)
    assert not end.exists()


KILLED = """
import multiprocessing, os, sys, time
from tilesight.simulator import pool

def stay(number):
    if multiprocessing.parent_process():
        with open(sys.argv[1], "a") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(float(sys.argv[2]))

if __name__ == "__main__":
    pool.PAYS_AFTER_S = 0.0
    pool.run_all(stay, range(10_000), workers=2)
"""


def test_workers_end_when_the_one_that_started_them_is_killed(tmp_path: Path) -> None:
    """They would keep the machine busy with the jobs that they have been given."""
    program, seen = tmp_path / "killed.py", tmp_path / "seen"
    program.write_text(KILLED, encoding="utf-8")
    seen.touch()
    started = subprocess.Popen([sys.executable, "-P", str(program), str(seen), str(2 * HANG_S)])
    until(lambda: seen.read_text().count("\n") == 2)
    started.kill()
    started.wait()
    assert all(ended(int(worker)) for worker in seen.read_text().split())


def test_less_than_one_worker_is_an_error() -> None:
    """Nobody would do the work."""
    with pytest.raises(ValueError, match="workers = 0: must be an integer of 1 or more"):
        run_all(abs, [1], workers=0)


def _process(_: int) -> int:
    return os.getpid()
