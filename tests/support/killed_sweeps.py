"""A sweep of made-up launches; run as a program, it is killed at many moments, and its files are compared.

python killed_sweeps.py FOLDER MOMENTS
"""

import json
import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from support.made_rows import prediction_of, row_of
from tilesight.kernels.compile.call import KernelLaunch
from tilesight.simulator.device.device import load_device
from tilesight.simulator.prediction.kernels import Request
from tilesight.simulator.store.store import Store

from tilesight.tuning import answers
from tilesight.tuning.answers import predict_all
from tilesight.tuning.workers import Job

TARGET = Request(device=load_device("h100"), name="h100-sxm")
COLUMNS = "key, model, device, kernel, time_s, prediction"
EVERY = 3
"""Steps of the database's machine from one moment to the next."""


def call_of(number: int) -> KernelLaunch:
    """A launch that differs from others by its grid."""
    return KernelLaunch(
        name="k", file="k.py", line=1, grid=(number + 1, 1, 1), num_warps=4, num_stages=3, num_ctas=1,
        job={"ttir": "", "capability": 90}, arguments={}, storages=(), configuration={"BLOCK": number},
    )  # fmt: skip


CALLS = [call_of(number) for number in range(12)]


def made_answer(job: Job) -> tuple[Any, ...]:
    """A time that depends on the launch alone."""
    return tuple(prediction_of(row_of(call.grid[0] * 1e-6)) for call in job.calls)


def process_of(job: Job) -> int:
    """Who answers."""
    return os.getpid()


def rows_of(path: Path) -> list[Any]:
    """All that a store holds, by key, but for the day."""
    with sqlite3.connect(path) as database:
        rows = database.execute(f"SELECT {COLUMNS} FROM predictions ORDER BY key").fetchall()
    database.close()
    return rows


def killed_at(path: Path, moment: int) -> bool:
    """Fill a store in a process that SIGKILL ends at a step of SQLite's machine. Returns: whether it came so far."""
    child = os.fork()
    if child == 0:
        steps, connect = 0, sqlite3.connect

        def step() -> int:
            nonlocal steps
            steps += 1
            if steps == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return 0

        def watched(*arguments: Any, **options: Any) -> sqlite3.Connection:
            database = connect(*arguments, **options)
            database.set_progress_handler(step, 1)
            return database

        with patch("sqlite3.connect", watched):
            predict_all(CALLS, TARGET, store=Store(path), workers=1, together=2)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def killed_sweeps(folder: Path, moments: int) -> dict[str, Any]:
    """Kill a sweep at each moment, let the same sweep go on, and compare its file with one that was never killed."""
    whole = Store(folder / "whole")
    predict_all(CALLS, TARGET, store=whole, workers=1, together=2)
    killed, differ = 0, []
    for moment in range(1, moments + 1):
        path = folder / str(moment)
        killed += killed_at(path, EVERY * moment)
        predict_all(CALLS, TARGET, store=Store(path), workers=1, together=2)
        if rows_of(path) != rows_of(whole.path):
            differ.append(moment)
    return {"killed": killed, "differ": differ, "rows": len(rows_of(whole.path))}


if __name__ == "__main__":
    answers.answer = made_answer
    sys.stdout.write(json.dumps(killed_sweeps(Path(sys.argv[1]), int(sys.argv[2]))))
