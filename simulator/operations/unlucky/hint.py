"""Something unlucky about a step, in a line; and how operations are named in such lines."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..operation import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """Something unlucky.

    Args:
        name: what it is, in a word; text: what is seen; cure: what would help; both half a sentence.
        time_s: that it costs, or that the kernels take which it concerns [s]; share: of the step, 0 to 1.
    """

    name: str
    text: str
    cure: str
    time_s: float
    share: float = 0.0


def concerning(
    name: str, places: Sequence[int], operations: Sequence[Operation], costs_s: Sequence[float], *, text: str, cure: str
) -> Hint | None:
    """A hint about some operations, with where they are. Args: text, cure: as of `Hint`."""
    if not places:
        return None
    wheres = places_text([operations[place] for place in places])
    return Hint(name=name, text=f"{text}{wheres}", cure=cure, time_s=time_at(set(places), costs_s))


def time_at(places: Iterable[int], costs_s: Sequence[float]) -> float:
    """Of some operations together [s]."""
    return sum(costs_s[place] for place in places)


def places_text(operations: Sequence[Operation]) -> str:
    """Where they are in the user's code, e.g. ` (model.py:17)`; empty where nobody knows."""
    wheres = list(dict.fromkeys(operation.where for operation in operations if operation.where))
    return f" ({listed(wheres)})" if wheres else ""


def listed(items: Sequence[object], most: int = 2) -> str:
    """The first items, and how many there are besides."""
    others = len(items) - most
    return ", ".join(map(str, items[:most])) + (f" and {others} more" if others > 0 else "")
