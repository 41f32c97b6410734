"""A number that calibration found: a key of `Device` where it has one, else a constant of the same manner of naming."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A number that was measured.

    Args:
        key: field of `Device`, or a constant that `Device` has no field for; the unit is in its name.
        value: in that unit; how: how it was measured, for the source.
    """

    key: str
    value: float
    how: str


def finding(key: str, value: float, how: str) -> Finding:
    """A finding, in one line. Args: as of `Finding`."""
    return Finding(key=key, value=float(value), how=how)
