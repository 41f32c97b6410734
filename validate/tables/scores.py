"""Errors of predicted rows, grouped by GPU, kernel source and length."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..compare.compare import Statistic, statistics
from ..compare.quantities import Pair
from .predicting import PredictedRow

LONG_S = 20e-6
"""Time from which on launches are a small part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A group of rows.

    Args:
        device; framework; source: kernel; dtype; is_long: of rows of `LONG_S` and more.
        rows: drawn; refused: without a price; impossible: quarantined, measured faster than the peaks allow.
        time: errors of the others; roofline: the same of a plain roofline; None: there are none.
    """

    device: str
    framework: str
    source: str
    dtype: str
    is_long: bool
    rows: int
    refused: int
    impossible: int
    time: Statistic | None
    roofline: Statistic | None

    def to_dict(self) -> dict[str, Any]:
        """The group's object in JSON."""
        made = {name: getattr(self, name) for name in self.__slots__ if name not in ("time", "roofline")}
        return made | {
            name: (statistic := getattr(self, name)) and statistic.to_dict() for name in ("time", "roofline")
        }


def scores(predicted: Sequence[PredictedRow]) -> list[Score]:
    """A score for each group, by GPU, framework and kernel, short rows first."""
    groups: dict[tuple[str, str, str, str], list[PredictedRow]] = {}
    for made in predicted:
        row = made.row
        groups.setdefault((row.device, row.framework, row.source, row.dtype), []).append(made)
    groups_scored = []
    for (device, framework, source, dtype), members in sorted(groups.items(), key=lambda group: group[0]):
        for is_long in (False, True):
            some = [made for made in members if (made.row.time_s >= LONG_S) == is_long]
            if not some:
                continue
            counted = [made for made in some if not made.reason and not made.impossible]
            groups_scored.append(
                Score(
                    device=device,
                    framework=framework,
                    source=source,
                    dtype=dtype,
                    is_long=is_long,
                    rows=len(some),
                    refused=sum(bool(made.reason) for made in some),
                    impossible=sum(made.impossible for made in some),
                    time=statistics([(made.row.key, made.pair.relative_error) for made in counted], "time_s"),
                    roofline=statistics(
                        [(made.row.key, Pair(made.roofline_s, made.row.time_s).relative_error) for made in counted],
                        "time_s",
                    ),
                )
            )
    return groups_scored
