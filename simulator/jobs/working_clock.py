"""A clock that stands still while numba compiles: a first run takes a minute longer, and no limit should count that."""

from time import monotonic

from numba.core import event


class _Compiling(event.Listener):
    """How long numba has compiled in this process; it does so under a lock, one function at a time."""

    def __init__(self) -> None:
        self._depth, self._begin_s, self._done_s = 0, 0.0, 0.0

    def on_start(self, event: event.Event) -> None:
        """A function, or one that it calls."""
        if self._depth == 0:
            self._begin_s = monotonic()
        self._depth += 1

    def on_end(self, event: event.Event) -> None:
        """The same function."""
        self._depth -= 1
        if self._depth == 0:
            self._done_s += monotonic() - self._begin_s

    def spent_s(self, now_s: float) -> float:
        """Until now [s]."""
        return self._done_s + (now_s - self._begin_s if self._depth else 0.0)


_COMPILING = _Compiling()
event.register("numba:compile", _COMPILING)  # type: ignore[no-untyped-call]


def working_s() -> float:
    """Time since some moment, without that in which numba compiled [s]."""
    now_s = monotonic()
    return now_s - _COMPILING.spent_s(now_s)
