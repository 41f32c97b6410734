"""Predictions of schedules: found in the default file, else made and kept there, many at a time.

A prediction comes back as it was made, to the last digit.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import TypeVar

from ..prediction.prediction import LaunchPrediction
from .store import Row, Store, usual_store

WRITE_EVERY_S = 1.0
"""Answers wait so long at most for others that are written with them, in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What is kept of a prediction: all that does not follow from the question. Args: as of `Prediction`."""

    launches: tuple[LaunchPrediction, ...]
    peak_memory_bytes: int
    fits: bool
    notes: tuple[str, ...]
    lower_bound: bool

    @property
    def time_s(self) -> float:
        """Predicted time of all launches [s]."""
        return sum(launch.traffic.time_s for launch in self.launches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Least:
    """What launches take at least, before they are simulated. Args: time_s: as of `least_time_s` [s]."""

    time_s: float


Answer = TypeVar("Answer", Figures, Least)


class Answers:
    """Answers to questions that are asked one after the other, by several threads too.

    Args:
        store: where they are looked for and kept; None: nowhere.
        before: called once, before the first that is not known is made.
    """

    def __init__(self, store: Store | None, before: Callable[[], None]) -> None:
        self._store, self._before = store, before
        self._rows: list[Row] = []
        self._written_s, self._lock = monotonic(), Lock()

    def known(self, key: str, kind: type[Answer]) -> Answer | None:
        """What is kept under a key."""
        return self._store.answers([key], kind).get(key) if self._store else None

    def of(self, key: str, kind: type[Answer], schedule: str, device: str, make: Callable[[], Answer]) -> Answer:
        """What is kept under a key, else what is made now. Args: schedule, device: for who looks into the file."""
        if kept := self.known(key, kind):
            return kept
        with self._lock:
            self._before()
            self._before = _nothing
        made = make()
        if self._store:
            with self._lock:
                self._rows.append(Row(key=key, device=device, kernel=schedule, time_s=made.time_s, answer=made))
            if monotonic() - self._written_s > WRITE_EVERY_S:
                self.write()
        return made

    def write(self) -> None:
        """Write what waits."""
        with self._lock:
            rows, self._rows, self._written_s = self._rows, [], monotonic()
        if rows and self._store:
            self._store.put_all(rows)


_ANSWERS: ContextVar[Answers | None] = ContextVar("_ANSWERS", default=None)


def _nothing() -> None:
    """Where nothing has to be told."""


@contextmanager
def answers(before: Callable[[], None] = _nothing) -> Iterator[Answers]:
    """Answers to all questions that are asked within, in this thread and those that `run_all` starts.

    Args:
        before: as in `Answers`; of the outermost of those that stand in each other.
    """
    if outer := _ANSWERS.get():
        yield outer
        return
    within = Answers(usual_store(), before)
    token = _ANSWERS.set(within)
    try:
        yield within
    finally:
        _ANSWERS.reset(token)
        within.write()
