"""Clocks that stand still while numba compiles: a first run takes a minute longer, and no limit should count that.

`core.jit` says when numba begins and ends; where nothing has loaded it, nothing compiles.
"""

from time import monotonic, process_time, thread_time


class Compiling:
    """How long numba has compiled in this process; it does so under a lock, one function at a time."""

    def __init__(self) -> None:
        self._depth, self._begin_s, self._done_s = 0, 0.0, 0.0

    def begin(self) -> None:
        """A function, or one that it calls."""
        if self._depth == 0:
            self._begin_s = monotonic()
        self._depth += 1

    def end(self) -> None:
        """The same function."""
        self._depth -= 1
        if self._depth == 0:
            self._done_s += monotonic() - self._begin_s

    def spent_s(self, now_s: float) -> float:
        """Until now [s]."""
        return self._done_s + (now_s - self._begin_s if self._depth else 0.0)


COMPILING = Compiling()


def thread_s() -> float:
    """Time of a core that this thread has had, without that in which numba compiled [s].

    A limit by it is the same on a machine that others keep busy.
    """
    return thread_time() - COMPILING.spent_s(monotonic())


def process_s() -> float:
    """The same of all threads of this process, together [s]."""
    return process_time() - COMPILING.spent_s(monotonic())
