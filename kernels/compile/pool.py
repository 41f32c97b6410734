"""Compiler processes that stay for the life of this one, and take turns: each thread that asks has one to itself."""

import atexit
import os
import threading
from typing import Any

from ...simulator.jobs.processes import WorkerProcess
from ..interpreter import Interpreter
from .cache import triton_cache

TIMEOUT_S = 300.0
"""No kernel here takes the compiler longer; a compiler that hangs becomes a failure [s]."""
WORKER = f"{__package__}.worker"
MOST_IDLE = 8
"""Compilers that are kept by default; each takes some 200 MB."""
READ_BY_TRITON = ("TRITON_", "PYTHONPATH", "TMPDIR", "PATH")
"""Begins of the names of variables that a compiler reads when it starts."""


class Pool:
    """Compiler processes, started when first needed, and kept. Args: interpreter: that runs them, None: this one."""

    def __init__(self, interpreter: Interpreter | None = None) -> None:
        self._interpreter = interpreter
        self._lock = threading.Lock()
        self._all: set[WorkerProcess] = set()
        self._idle: list[WorkerProcess] = []
        self._environment: dict[str, str] = {}

    def take(self) -> WorkerProcess:
        """A compiler to oneself, as this process's environment is now; to be given back."""
        now = {name: value for name, value in os.environ.items() if name.startswith(READ_BY_TRITON)}
        with self._lock:
            if now != self._environment:
                self._environment, stale, self._idle = now, self._idle, []
                self._all = set()  # whoever has one of them gives it back to be ended
            else:
                stale = []
            compiler = self._idle.pop() if self._idle else self._new()
            self._all.add(compiler)
        for other in stale:
            other.stop()
        return compiler

    def _new(self) -> WorkerProcess:
        other = self._interpreter
        variables = triton_cache() | dict(other.variables if other else {})
        return WorkerProcess(WORKER, "compiler", (), variables, other.path if other else "")

    def give_back(self, compiler: WorkerProcess) -> None:
        """Let others have a compiler."""
        with self._lock:
            keep = compiler in self._all and len(self._idle) < MOST_IDLE
            (self._idle.append if keep else self._all.discard)(compiler)
        if not keep:
            compiler.stop()

    def close(self) -> None:
        """End all processes that wait for a job."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._all.difference_update(idle)
        for compiler in idle:
            compiler.stop()

    def forget(self) -> None:
        """In a forked child: the processes are the parent's, which alone asks and ends them."""
        for compiler in self._all:
            compiler.abandon()
        self.__init__(self._interpreter)  # type: ignore[misc]


class Turns:
    """Compilers of a pool that one call has. Args: pool: where they are from."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._busy: set[WorkerProcess] = set()

    def answer(self, job: dict[str, Any], limit_s: float | None = None) -> dict[str, Any]:
        """Have a process answer a job.

        Args:
            limit_s: that it may take, None: as long as any kernel here takes [s].

        Raises:
            processes.Died: it ended without an answer, or took too long.
        """
        compiler = self._pool.take()
        self._busy.add(compiler)
        try:
            return compiler.ask(job, limit_s or TIMEOUT_S)
        finally:
            self._busy.discard(compiler)
            self._pool.give_back(compiler)

    def kill(self) -> None:
        """Let no process finish what it is at for this call: whoever waits for it sees it die."""
        for compiler in tuple(self._busy):
            compiler.kill()


POOL = Pool()
"""Of this process."""
atexit.register(POOL.close)
os.register_at_fork(after_in_child=POOL.forget)
