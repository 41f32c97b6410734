"""Whether predictions are as accurate as they must be, and as they should be: one check for each quantity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .compare import Comparison, Ranking, Statistic

Grade = Literal["aim", "must", "short of aim", "missed", "not compared"]
GRADE_TEXTS: dict[Grade, str] = {
    "aim": "pass, on target",
    "must": "pass",
    "short of aim": "off target",
    "missed": "FAIL",
    "not compared": "not compared",
}
"""Grade -> its text in reports."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a figure must reach, and what it should.

    Args:
        quantity: as in `compare.QUANTITIES`.
        figure: a field of `Statistic` or of `Ranking`.
        must, aim: limits of the figure; None where there is none.
        text: what the figure is.
    """

    quantity: str
    figure: str
    must: float | None
    aim: float | None
    text: str

    @property
    def least(self) -> bool:
        """Whether the figure must be at least its limit, not at most."""
        return self.figure in ("within", "spearman")


RULES = (
    Rule("smem_fill_bytes", "worst", 0.01, 0.0, "bytes into the SMs, every point"),
    Rule("hbm_read_bytes", "median", 0.02, 0.005, "HBM bytes read, median"),
    Rule("hbm_read_bytes", "within", 0.95, None, "HBM bytes read, share of points within 10 %"),
    Rule("hbm_read_bytes", "worst", None, 0.05, "HBM bytes read, every point"),
    Rule("hbm_write_bytes", "median", 0.05, 0.02, "HBM bytes written, median"),
    Rule("cycles", "mean", 0.15, 0.05, "cycles, mean"),
    Rule("time_s", "mean", 0.15, 0.05, "time, mean"),
    Rule("time_s", "spearman", 0.95, None, "rank correlation of configurations, worst shape"),
    Rule("time_s", "regret", None, 1.05, "time of the chosen over the fastest configuration, worst shape"),
    Rule("peak_memory_bytes", "worst", 0.01, 0.0, "peak memory, every point"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A rule and what came of it.

    Args:
        rule: what was asked for.
        value: None where nothing could be compared.
        worst: key that it comes from.
    """

    rule: Rule
    value: float | None
    worst: str = ""

    @property
    def grade(self) -> Grade:
        """How far the figure got."""
        if self.value is None:
            return "not compared"
        if self.rule.aim is not None and self._reaches(self.rule.aim):
            return "aim"
        if self.rule.must is None:
            return "short of aim"
        return "must" if self._reaches(self.rule.must) else "missed"

    def _reaches(self, limit: float) -> bool:
        assert self.value is not None
        return self.value >= limit if self.rule.least else self.value <= limit

    def to_dict(self) -> dict[str, Any]:
        """The verdict's object in `validate --json`."""
        rule = self.rule
        return {
            "quantity": rule.quantity,
            "figure": rule.figure,
            "must": rule.must,
            "aim": rule.aim,
            "value": self.value,
            "grade": self.grade,
            "worst": self.worst,
        }


def verdicts(statistics: Mapping[str, Statistic], ranked: Sequence[Ranking]) -> list[Verdict]:
    """One for each rule. Args: statistics: quantity -> statistic; ranked: shapes with several configurations."""
    reached = []
    for rule in RULES:
        if rule.figure in ("spearman", "regret"):
            values = [(getattr(ranking, rule.figure), ranking.name) for ranking in ranked]
            value, worst = (min(values) if rule.least else max(values)) if values else (None, "")
        elif rule.quantity in statistics:
            value, worst = getattr(statistics[rule.quantity], rule.figure), statistics[rule.quantity].worst_key
        else:
            value, worst = None, ""
        reached.append(Verdict(rule=rule, value=value, worst=worst))
    return reached


def failures(comparisons: Sequence[Comparison], limits: Mapping[str, float]) -> list[str]:
    """What breaks the limits that the user set, one line each.

    Args:
        limits: quantity -> largest size of its relative error.

    Returns:
        Errors above their limit; and points of which a limited quantity is not known, for they prove nothing.
    """
    broken = []
    for comparison in comparisons:
        if comparison.objections and limits:
            broken.append(f"{comparison.point.key}: {comparison.objections[0]}")
            continue
        errors = comparison.errors()
        for name, limit in limits.items():
            if name in errors and abs(errors[name]) > limit:
                broken.append(f"{comparison.point.key}: {name} is off by {errors[name]:+.1%}, allowed is {limit:.1%}")
            elif name not in comparison.pairs:
                broken.append(f"{comparison.point.key}: {name} is not known")
    return broken
