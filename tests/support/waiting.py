"""Waiting for what happens instead of for time to pass: the end of a process, others to arrive, a hang that is one.

No test may fail because the machine is slow. `HANG_S` only ends a wait for what will never come.
"""

import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path

HANG_S = 600.0


def ended(pid: int, limit_s: float = HANG_S) -> bool:
    """Whether a process, anybody's child, has ended or ends within the limit; the system tells the moment it does."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], limit_s)[0])
    finally:
        os.close(handle)


def until(holds: Callable[[], bool]) -> None:
    """Look until something holds that only other processes can bring about. Raises: TimeoutError: it never did."""
    for _ in range(round(HANG_S / 0.01)):
        if holds():
            return
        time.sleep(0.01)
    raise TimeoutError


def patient_timer(hanging: Path) -> type[threading.Timer]:
    """A timer for watchdogs that runs out only for a hang, which has left a file; a late answer is waited for."""

    class PatientTimer(threading.Timer):
        def run(self) -> None:
            while not self.finished.wait(self.interval):
                if hanging.exists():
                    hanging.unlink()
                    self.function(*self.args, **self.kwargs)
                    self.finished.set()

    return PatientTimer
