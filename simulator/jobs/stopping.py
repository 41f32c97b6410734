"""Ends work early: work in other threads that is no longer waited for, and work that has taken as long as it may."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Event

LIMIT_S = 60.0
"""What one launch may take to be predicted by default [s]."""
STOPPED: ContextVar[Event | None] = ContextVar("STOPPED", default=None)
"""Set when what this thread works on is no longer wanted; None in a thread that is never stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """When work must be done. Args: until_s: by the clock [s]; clock: gives the time now [s]."""

    until_s: float
    clock: Callable[[], float]


DEADLINE: ContextVar[Deadline | None] = ContextVar("DEADLINE", default=None)
"""Of what this thread works on; None where it may take as long as it likes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where work is. Args: number: of the piece, from 1; total: pieces; name: of it; phase: that begins."""

    number: int
    total: int
    name: str
    phase: str

    @property
    def text(self) -> str:
        """E.g. `launch 2 of 4, _bwd_dkdv: trace`."""
        return f"launch {self.number} of {self.total}, {self.name}: {self.phase}"


OnProgress = Callable[[Stage], None]


class Stopped(Exception):
    """What runs is no longer wanted. Whoever stopped it does not ask for its result."""


class OutOfTime(Exception):
    """What runs has taken as long as it may. Whoever set the limit says so."""


def check_wanted() -> None:
    """Called now and then by what takes long.

    Raises:
        Stopped: it is no longer wanted.
        OutOfTime: its deadline has passed.
    """
    event, deadline = STOPPED.get(), DEADLINE.get()
    if event is not None and event.is_set():
        raise Stopped
    if deadline is not None and deadline.clock() > deadline.until_s:
        raise OutOfTime


@contextmanager
def limited(until_s: float, clock: Callable[[], float]) -> Iterator[None]:
    """Work with a deadline. Args: as of `Deadline`. Raises: OutOfTime: from what looks at it."""
    token = DEADLINE.set(Deadline(until_s=until_s, clock=clock))
    try:
        yield
    finally:
        DEADLINE.reset(token)


def out_of_time(limit_s: float, phase: str) -> str:
    """Why there is no answer, without the name of what was asked for. Args: limit_s: that has passed [s]."""
    return f"no answer within {limit_s:g} s (phase: {phase}); a longer --time-limit may give one"
