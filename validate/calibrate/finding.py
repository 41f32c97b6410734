"""A number that calibration found: a key of `Device` or of its SM, else a constant that is named in the same manner."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A number that was measured.

    Args:
        key: field of `Device` or `SmNumbers`, or a constant that neither has a field for; the unit is in its name.
        value: in that unit; how: how it was measured, for the source.
    """

    key: str
    value: float
    how: str


def finding(key: str, value: float, how: str) -> Finding:
    """A finding, in one line. Args: as of `Finding`."""
    return Finding(key=key, value=float(value), how=how)
