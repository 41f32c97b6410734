"""What is compared, and a figure of it predicted and measured: all comparisons are made of these."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is compared.

    Args:
        title: for people.
        text: of a value, with its unit.
    """

    title: str
    text: Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure predicted and measured; None where it could not be."""

    predicted: float | None = None
    measured: float | None = None

    @property
    def relative_error(self) -> float | None:
        """(predicted - measured) / measured; infinite where nothing was measured and something predicted.

        None where one of them is missing.
        """
        if self.predicted is None or self.measured is None:
            return None
        if self.measured:
            return (self.predicted - self.measured) / self.measured
        return inf if self.predicted else 0.0

    @property
    def finite_error(self) -> float | None:
        """The same, None where it is infinite, which JSON does not know."""
        return None if self.relative_error == inf else self.relative_error

    def to_dict(self) -> dict[str, float | None]:
        """The figure's object in JSON."""
        return {"predicted": self.predicted, "measured": self.measured, "relative_error": self.finite_error}


@dataclass(frozen=True, slots=True)
class Pair(Compared):
    """A figure that was predicted and measured."""

    predicted: float
    measured: float

    @property
    def relative_error(self) -> float:
        """As of any figure; there always is one."""
        error = Compared(self.predicted, self.measured).relative_error
        assert error is not None
        return error
