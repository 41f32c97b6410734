"""What callers pass: a value as it is to be used, or one line that names argument, value and what is allowed."""

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

SETTINGS = {
    "l2": ("cold", "warm", "dirty"),
    "resolution": ("chunk", "line"),
    "overhead": ("stream", "graph"),
    "cost": ("compiled", "tiles"),
}
"""Settings that `simulate` takes as words -> the words that each takes. Cycles are simulated from machine code
(`compiled`), or estimated from the tile program (`tiles`)."""


def whole(name: str, value: object, least: int = 1, allowed: str = "") -> int:
    """A whole number, of numpy's as well. Raises: ValueError: it is none, or below the least."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} = {shown(value)}: must be {allowed or f'an integer of {least} or more'}")
    return int(value)


def optional_whole(name: str, value: object, least: int = 1) -> int | None:
    """The same, or None. Raises: ValueError: it is neither."""
    return None if value is None else whole(name, value, least)


def truth(name: str, value: object) -> bool:
    """True or False, of numpy's as well. Raises: ValueError: it is neither; texts and numbers are not."""
    if isinstance(value, bool):
        return value
    import numpy as np  # here alone: code that records launches runs where there may be none

    if not isinstance(value, np.bool_):
        raise ValueError(f"{name} = {shown(value)}: must be True or False")
    return bool(value)


def instance(name: str, value: object, kind: type[Any], example: str) -> Any:
    """An object of a type. Args: example: how to make one. Raises: ValueError: it is none."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} = {shown(value)}: must be {article(kind.__name__)}, such as {example}")
    return value


def function_or_none(name: str, value: object, takes: str) -> None:
    """Raises: ValueError: it is neither None nor something that can be called."""
    if value is not None and not callable(value):
        raise ValueError(f"{name} = {shown(value)}: must be a function of {takes}, or None")


def several(name: str, value: object, what: str) -> tuple[object, ...]:
    """The items of a list, an array or the like. Args: what: an item is. Raises: ValueError: it has none."""
    if isinstance(value, (str, bytes, dict)) or not isinstance(value, Iterable):
        raise ValueError(f"{name} = {shown(value)}: must be a list of {what}")
    return tuple(value)


def plain_number(value: object) -> object:
    """A number of numpy's as Python's own; anything else as it is."""
    import numpy as np

    return int(value) if isinstance(value, np.integer) else value


def shown(value: object) -> str:
    """A value in a message: on one line, and not without end."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def article(noun: str) -> str:
    """A noun with its article."""
    return f"{'an' if noun[0] in 'AEIOU' else 'a'} {noun}"


def check_settings(**settings: str) -> None:
    """Raises: ValueError: a setting has a value that is not allowed; one line."""
    for name, value in settings.items():
        if not isinstance(value, str) or value not in SETTINGS[name]:
            raise ValueError(f"{name} = {shown(value)}: must be one of {', '.join(SETTINGS[name])}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How launches are simulated.

    Args:
        l2: what it holds at the start: `cold` nothing, `warm` what the same pipeline left, `dirty` data of others that
            are yet to be written back, as much as may be.
        resolution: of the caches: `chunk` (fast) or `line` (128-byte lines).
        steady_state: whether a large grid may be continued from a steady state (see `engine`).
        overhead: launches follow each other in a `stream` or in a replayed CUDA `graph`.

    Raises:
        ValueError: a value that is not allowed (one line).
    """

    l2: str = "cold"
    resolution: str = "chunk"
    steady_state: bool = True
    overhead: str = "stream"

    def __post_init__(self) -> None:
        check_settings(l2=self.l2, resolution=self.resolution, overhead=self.overhead)
        truth("steady_state", self.steady_state)


USUAL = Settings()
