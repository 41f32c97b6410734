"""Ends simulations in other threads early: nobody waits for them any more."""

from contextvars import ContextVar
from threading import Event

STOPPED: ContextVar[Event | None] = ContextVar("STOPPED", default=None)
"""Set when what this thread works on is no longer wanted; None in a thread that nobody stops."""


class Stopped(Exception):
    """What runs is no longer wanted. Whoever stopped it does not ask for its result."""


def check_wanted() -> None:
    """Called now and then by what takes long. Raises: Stopped: it is no longer wanted."""
    event = STOPPED.get()
    if event is not None and event.is_set():
        raise Stopped
