"""A validation for people: predicted beside measured in aligned tables, the verdict, and what was left out."""

from collections.abc import Sequence
from math import inf

from ...simulator.display.render import Column, percent, table, wrapped
from ...simulator.schedules.registry import all_options
from ..compare.campaign import Validation
from ..compare.compare import QUANTITIES, Comparison, Statistic
from ..compare.quantities import Pair
from ..compare.verdict import GRADE_TEXTS, Grade, Verdict
from ..measurement import Machine, Measurement

CLASSES: dict[Grade, str] = {"aim": "good", "missed": "missed"}
"""Grade of a verdict -> its class in pages, where it has one."""


def error_text(error: float | None) -> str:
    """A signed relative error, e.g. `+1.4 %`; empty where there is none."""
    if error is None:
        return ""
    if error == inf:
        return "inf"
    digits = 0 if abs(error) >= 0.995 else 1 if abs(error) >= 0.00995 else 2
    text = f"{100 * error:+.{digits}f} %"
    return "0 %" if error == 0 else text


def both_text(quantity: str, pair: Pair) -> str:
    """A value predicted and measured, with its unit."""
    text = QUANTITIES[quantity].text
    return f"{text(pair.predicted)} / {text(pair.measured)}"


def machine_text(machine: Machine) -> str:
    """Where and with what was measured, in one line."""
    tools = [f"driver {machine.driver or 'unknown'}", f"torch {machine.torch}", f"triton {machine.triton}"]
    tools += [f"ncu {machine.ncu}"] if machine.ncu else []
    return f"{machine.gpu}, {machine.date} ({', '.join(tools)})"


def validate_text(validation: Validation, width: int, color: bool = False) -> str:
    """All that `tilesight validate` prints."""
    device = validation.header.device
    lines = [f"Measured on {machine_text(validation.header.machine)}; predicted for {device}.", ""]
    if validation.trusted:
        lines += ["p: predicted, m: measured, error: (p - m) / m; fp16, no mask and m-fast unless shown", ""]
        lines += [points_table(validation.trusted, width, color), ""]
    left_out = validation.left_out
    half = validation.half()
    if half.statistics:
        lines += [table(statistics_columns(list(half.statistics.values())), width, color), ""]
        lines += [table(verdict_columns(half.verdicts), width, color), ""]
    if left_out:
        lines.append(f"Left out of the statistics, {len(left_out)} of {len(validation.comparisons)} points:")
        lines += wrapped([f"- {comparison.point.key}: {comparison.objections[0]}" for comparison in left_out], width)
        lines.append("")
    lines += wrapped(remarks(validation), width)
    return "\n".join(lines).rstrip() + "\n"


def remarks(validation: Validation) -> list[str]:
    """What the reader must know, one line each: missing counters, noise, and the notes of the run."""
    lines = []
    measured = [
        comparison.outcome for comparison in validation.comparisons if isinstance(comparison.outcome, Measurement)
    ]
    reasons = dict.fromkeys(measurement.counters for measurement in measured if not measurement.has_counters)
    for reason in reasons:
        count = sum(measurement.counters == reason for measurement in measured)
        lines.append(f"No counters for {count} of {len(measured)} points, time only: {reason}")
    loud = [measurement for measurement in measured if measurement.timing and measurement.timing.noise != "quiet"]
    if loud:
        lines.append(f"{len(loud)} of {len(measured)} times are noisy; see the column `noise`.")
    return [*lines, *validation.notes]


def points_table(compared: Sequence[Comparison], width: int, color: bool = False) -> str:
    """One row a point: predicted (p), measured (m), and how far the prediction is off."""

    def errors(name: str) -> list[str]:
        return [error_text(comparison.errors().get(name)) for comparison in compared]

    def both(name: str) -> list[str]:
        cells = []
        for comparison in compared:
            pair = comparison.pairs.get(name)
            cells.append(both_text(name, pair) if pair else "")
        return cells

    columns = [
        Column("schedule", [comparison.point.schedule for comparison in compared], left=True),
        Column("problem", [short_problem(comparison) for comparison in compared], left=True),
        Column("config", [short_config(comparison) for comparison in compared], left=True),
        Column("L2", [comparison.point.l2 for comparison in compared], left=True, rank=6),
        Column("time p / m", both("time_s")),
        Column("error", errors("time_s")),
        Column("noise", [comparison.noise for comparison in compared], left=True, rank=4),
        Column("clock error", errors("clock_hz"), rank=5),
    ]
    if any("hbm_read_bytes" in comparison.pairs for comparison in compared):
        columns += [
            Column("HBM read p / m", both("hbm_read_bytes"), rank=2),
            Column("HBM read error", errors("hbm_read_bytes")),
            Column("HBM written error", errors("hbm_write_bytes"), rank=3),
            Column("SRAM fill error", errors("smem_fill_bytes"), rank=1),
            Column("cycles error", errors("cycles"), rank=3),
        ]
    columns.append(Column("memory error", errors("peak_memory_bytes"), rank=5))
    return table(columns, width, color)


SHORT = {"num_warps": "w", "num_stages": "s"}


def short_problem(comparison: Comparison) -> str:
    """A problem in one line, what most have left out."""
    return comparison.point.problem.text.removesuffix(" no mask").replace(" fp16", "")


def short_config(comparison: Comparison) -> str:
    """A configuration in a few characters, e.g. `128x64 w4 s3 head-fast`."""
    config = {name: value for name, value in comparison.point.config_dict.items() if all_options()[name].usual != value}
    words = ["x".join(str(config.pop(name)) for name in ("block_m", "block_n") if name in config)]
    for name, value in config.items():
        words.append(value if isinstance(value, str) else f"{SHORT.get(name, name.replace('_', ' ') + ' ')}{value}")
    return " ".join(words)


def statistics_columns(statistics: Sequence[Statistic]) -> list[Column]:
    """One row a quantity: sizes of its relative errors over the points."""

    def sizes(title: str, name: str) -> Column:
        values = [getattr(statistic, name) for statistic in statistics]
        return Column(title, [size_text(value) for value in values], keys=values)

    titles = [QUANTITIES[statistic.quantity].title for statistic in statistics]
    biases, worst = ([getattr(statistic, name) for statistic in statistics] for name in ("bias", "worst_error"))
    count = len(statistics)
    return [
        Column("relative error of", titles, left=True),
        Column("points", [str(statistic.points) for statistic in statistics]),
        sizes("median", "median"),
        sizes("mean", "mean"),
        sizes("95th percentile", "p95"),
        Column("bias", list(map(error_text, biases)), keys=biases),
        Column("worst", list(map(error_text, worst)), keys=list(map(abs, worst)), kinds=["missed"] * count),
        Column(
            "worst at", [statistic.worst_key for statistic in statistics], left=True, rank=1, kinds=["wide"] * count
        ),
    ]


def size_text(size: float) -> str:
    """The size of a relative error, without a sign."""
    return error_text(size).removeprefix("+")


def verdict_columns(verdicts: Sequence[Verdict]) -> list[Column]:
    """One row a check: its limit, its target, its result."""
    kinds = [CLASSES.get(verdict.grade, "") for verdict in verdicts]
    return [
        Column("check", [verdict.rule.text for verdict in verdicts], left=True),
        Column("limit", [limit_text(verdict, verdict.rule.must) for verdict in verdicts]),
        Column("target", [limit_text(verdict, verdict.rule.aim) for verdict in verdicts]),
        Column("result", [limit_text(verdict, verdict.value) for verdict in verdicts]),
        Column("verdict", [GRADE_TEXTS[verdict.grade] for verdict in verdicts], left=True, kinds=kinds),
    ]


def limit_text(verdict: Verdict, value: float | None) -> str:
    """A figure of a rule as text: a share, a size of an error, or a plain number."""
    if value is None:
        return ""
    if verdict.rule.figure in ("spearman", "regret"):
        return f"{value:.3f}"
    return percent(value) if verdict.rule.figure == "within" else size_text(value)
