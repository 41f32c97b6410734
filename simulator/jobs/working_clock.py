"""Clocks that stand still while numba compiles: a first run takes a minute longer, and no limit should count that.

`core.jit` says when numba begins and ends; where nothing has loaded it, nothing compiles.
"""

from threading import get_ident
from time import monotonic, thread_time


class Compiling:
    """How long numba has compiled in this process; it does so under a lock, one function at a time."""

    def __init__(self) -> None:
        self._depth, self._begin_s, self._done_s = 0, 0.0, 0.0
        self._begin_cpu_s, self._cpu_s = 0.0, dict[int, float]()

    def begin(self) -> None:
        """A function, or one that it calls."""
        if self._depth == 0:
            self._begin_s, self._begin_cpu_s = monotonic(), thread_time()
        self._depth += 1

    def end(self) -> None:
        """The same function."""
        self._depth -= 1
        if self._depth == 0:
            self._done_s += monotonic() - self._begin_s
            self._cpu_s[get_ident()] = self.cpu_s() + thread_time() - self._begin_cpu_s

    def cpu_s(self) -> float:
        """CPU time that this thread has compiled for [s]."""
        return self._cpu_s.get(get_ident(), 0.0)

    def spent_s(self, now_s: float) -> float:
        """Until now [s]."""
        return self._done_s + (now_s - self._begin_s if self._depth else 0.0)


COMPILING = Compiling()


def working_s() -> float:
    """Time since some moment, without that in which numba compiled [s]."""
    now_s = monotonic()
    return now_s - COMPILING.spent_s(now_s)


def computing_s() -> float:
    """CPU time of this thread, without that in which numba compiled in it [s]: what others compute is not counted."""
    return thread_time() - COMPILING.cpu_s()
