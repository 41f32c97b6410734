"""Partial results: parts of the keys, fed in any order, joined in any order, each right whenever one asks.

Applies to streaming objects (joined where they have a `merge`) and to states that the implementation merges.
What is done to the parts is a list of plain steps, so that a counter-example can be printed and done again:
["start"], ["feed", part, keys], ["join", part, other], ["finish", part].
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..call.adapters import State, empty_state, feed, finish, finished, merged, state_of
from ..call.calls import Subject, Violation, call, plain
from ..declare.case import Case
from ..declare.formats import Array
from .law import compare
from .oracle import truth

Step = list[Any]


@dataclass(slots=True)
class Part:
    """A part. Args: held: streaming object or state; keys: what it was fed; maximum: the last one seen (R,)."""

    held: Any
    keys: list[int] = field(default_factory=list)
    maximum: Array | None = None


class Parts:
    """Parts of a case, under way; after every step maxima and sums that an implementation shows are looked at."""

    def __init__(self, subject: Subject, case: Case) -> None:
        assert case.x is not None and case.v is not None
        self.subject, self.case, self.x, self.v = subject, case, case.x, case.v
        self.parts: list[Part] = []
        self.steps: list[Step] = []
        self.streams = subject.declaration.adapter == "streaming"

    def can_join(self) -> bool:
        """Whether there are two parts, and a way to join them."""
        return len(self.parts) > 1 and (not self.streams or hasattr(self.parts[0].held, "merge"))

    def do(self, step: Step) -> None:
        """Take one step. Raises: Violation: a law does not hold after it."""
        self.steps.append(step)
        kind, *arguments = step
        takes: dict[str, Callable[..., None]] = {
            "start": self._start, "feed": self._feed, "join": self._join, "finish": self._finish}  # fmt: skip
        takes[kind](*arguments)

    def _start(self) -> None:
        empty = empty_state(self.x.shape[0], self.v.shape[1])
        self.parts.append(Part(call(self.subject.function) if self.streams else empty))

    def _feed(self, number: int, keys: list[int]) -> None:
        part = self.parts[number]
        x, v = self.x[:, keys], self.v[keys]
        if self.streams:
            feed(self.subject, part.held, x, v)
        else:
            part.held = merged(self.subject, part.held, state_of(x, v, self.subject.declaration))
        part.keys.extend(keys)
        self._look(part)

    def _join(self, number: int, other: int) -> None:
        part, gone = self.parts[number], self.parts[other]
        if self.streams:
            returned = call(part.held.merge, gone.held)
            part.held = part.held if returned is None else returned
        else:
            part.held = merged(self.subject, part.held, gone.held)
        part.keys.extend(gone.keys)
        if gone.maximum is not None:
            part.maximum = gone.maximum if part.maximum is None else np.maximum(part.maximum, gone.maximum)
        del self.parts[other]
        self._look(part)

    def _finish(self, number: int) -> None:
        part = self.parts.pop(number)
        if part.keys:
            rows, dims = self.x.shape[0], self.v.shape[1]
            output = finish(self.subject, part.held, rows, dims) if self.streams else self._state(part.held)
            compare(output, truth(self.case.take(part.keys), self.subject.declaration))

    def _state(self, state: State) -> Any:
        return finished(state, self.subject.declaration)

    def _look(self, part: Part) -> None:
        """The running maximum never falls, and sums are positive where a key was seen."""
        if not part.keys:
            return
        maximum, total = self.shown(part)
        if maximum is not None:
            fallen = np.isnan(maximum) if part.maximum is None else ~(maximum >= part.maximum)
            if fallen.any():
                row = int(np.argmax(fallen))
                before = "nothing" if part.maximum is None else f"{part.maximum[row]:.9g}"
                raise Violation(f"running maximum is {maximum[row]:.9g} at row {row}, was {before}: must not fall")
            part.maximum = maximum
        seen = (self.x[:, part.keys] > -np.inf).any(axis=1)
        if total is not None and not (total[seen] > 0.0).all():
            row = int(np.argmax(seen & ~(total > 0.0)))
            raise Violation(f"sum is {total[row]:.9g} at row {row}, which has seen a key: must be positive")

    def shown(self, part: Part) -> tuple[Array | None, Array | None]:
        """Maximum and sum of a part, where the implementation shows them."""
        if not self.streams:
            return part.held[0], part.held[1]
        rows = (self.x.shape[0],)
        observes = self.subject.declaration.observes or ()
        maximum, total = (
            plain(getattr(part.held, name), rows, f"an attribute {name}") if name in observes else None
            for name in ("max", "sum")
        )
        return maximum, total


def replay(subject: Subject, case: Case, steps: list[Step]) -> None:
    """Take all steps over a case. Raises: Violation: a law does not hold after one of them."""
    parts = Parts(subject, case)
    for step in steps:
        parts.do(step)
