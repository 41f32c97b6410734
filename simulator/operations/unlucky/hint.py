"""Advice on some operations of a step, and how they are named in it."""

from collections.abc import Iterable, Sequence

from ...prediction.what_helps import Advice
from ..operation import Operation


def concerning(
    cause: str,
    places: Sequence[int],
    operations: Sequence[Operation],
    costs_s: Sequence[float],
    *,
    text: str,
    cure: str,
) -> Advice | None:
    """A hint about some operations, with where they are. Args: text, cure: as of `Advice`."""
    if not places:
        return None
    wheres = places_text([operations[place] for place in places])
    return Advice(cause=cause, text=f"{text}{wheres}", cure=cure, time_s=time_at(set(places), costs_s))


def time_at(places: Iterable[int], costs_s: Sequence[float]) -> float:
    """Of some operations together [s]."""
    return sum(costs_s[place] for place in places)


def places_text(operations: Sequence[Operation]) -> str:
    """Where they are in the user's code, e.g. ` (model.py:17)`; empty where unknown."""
    wheres = list(dict.fromkeys(operation.where for operation in operations if operation.where))
    return f" ({listed(wheres)})" if wheres else ""


def listed(items: Sequence[object], most: int = 2) -> str:
    """The first items, and how many there are besides."""
    others = len(items) - most
    return ", ".join(map(str, items[:most])) + (f" and {others} more" if others > 0 else "")
