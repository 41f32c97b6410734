"""Clocks that stand still while numba compiles: a first run takes a minute longer, and no limit should count that.

They count time of cores: a limit by them is the same on a machine that others keep busy.
`core.jit` says when numba begins and ends; where nothing has loaded it, nothing compiles.
"""

from threading import get_ident
from time import monotonic, process_time, thread_time


class Compiling:
    """How long numba has compiled in this process; it does so under a lock, one function at a time."""

    def __init__(self) -> None:
        self._depth, self._begin_s, self._done_s = 0, 0.0, 0.0
        self._begin_thread_s, self._of_threads_s = 0.0, dict[int, float]()

    def begin(self) -> None:
        """A function, or one that it calls."""
        if self._depth == 0:
            self._begin_s, self._begin_thread_s = monotonic(), thread_time()
        self._depth += 1

    def end(self) -> None:
        """The same function."""
        self._depth -= 1
        if self._depth == 0:
            self._done_s += monotonic() - self._begin_s
            self._of_threads_s[get_ident()] = self.thread_s() + thread_time() - self._begin_thread_s

    def thread_s(self) -> float:
        """Time of a core that this thread has compiled for [s]."""
        return self._of_threads_s.get(get_ident(), 0.0)

    def passed_s(self) -> float:
        """Time that has passed while any thread compiled, until now: at least what it took of a core [s]."""
        return self._done_s + (monotonic() - self._begin_s if self._depth else 0.0)


COMPILING = Compiling()


def thread_s() -> float:
    """Time of a core that this thread has had, without that in which numba compiled in it [s]."""
    return thread_time() - COMPILING.thread_s()


def process_s() -> float:
    """The same of all threads of this process, together [s]."""
    return process_time() - COMPILING.passed_s()
