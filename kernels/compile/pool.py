"""Compiler processes that take turns, one for each thread that asks."""

import threading
from typing import Any

from ...simulator.jobs.processes import Answerer
from .cache import triton_cache

TIMEOUT_S = 300.0
"""No kernel here takes the compiler longer; a compiler that hangs becomes a failure [s]."""
WORKER = f"{__package__}.worker"


class Pool:
    """Compiler processes, started when first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Answerer] = []
        self._busy: list[Answerer] = []

    def answer(self, job: dict[str, Any], timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        """Have a process answer a job. Raises: processes.Died: it ended without an answer, or took too long."""
        with self._lock:
            compiler = self._idle.pop() if self._idle else Answerer(WORKER, "compiler", (), triton_cache())
            self._busy.append(compiler)
        try:
            return compiler.ask(job, timeout_s)
        finally:
            with self._lock:
                self._busy.remove(compiler)
                self._idle.append(compiler)

    def kill(self) -> None:
        """Let no process finish what it is at: whoever waits for it sees it die."""
        with self._lock:
            for compiler in self._busy:
                compiler.kill()

    def close(self) -> None:
        """End all processes that wait for a job."""
        for compiler in self._idle:
            compiler.stop()
