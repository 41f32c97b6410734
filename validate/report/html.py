"""A validation as one HTML file that opens offline: the verdict, pictures, and a table of all points to sort."""

from collections import Counter
from collections.abc import Sequence
from html import escape

from ...simulator.display.render import plural
from ...simulator.report.html import COST_TEXTS
from ...simulator.report.page import Made, cell, items, page, table
from ..compare.campaign import Validation
from ..compare.compare import QUANTITIES, Comparison, Statistic
from ..compare.verdict import GRADE_TEXTS, Grade, Verdict
from ..measurement import Measurement
from .figures import figures
from .text import NAMES, error_text, limit_text, machine_text, remarks, short_config, size_text, value_text

CLASSES: dict[Grade, str] = {"aim": "good", "missed": "missed"}
"""Grade of a verdict -> its class in the style sheet, where it has one."""


def validate_html(found: Validation, made: Made) -> str:
    """The page. Args: made: what its foot tells. Returns: the text of an HTML file."""
    machine, half = found.header.machine, found.half()
    left_out = [each for each in found.comparisons if each.objections]
    sections = [
        f"<h1>Predicted beside measured: {escape(machine.gpu)}</h1>",
        f'<p class="muted">{escape(machine_text(machine))}; predicted for {escape(found.header.device)}. '
        f"{plural(len(found.comparisons), 'point')}, {len(left_out)} left out of the statistics.</p>",
        items(remarks(found)),
        "<h2>Accuracy</h2>",
        _verdicts(half.verdicts),
        _statistics(list(half.statistics.values())),
        *(figures(found.trusted, found.device) if found.trusted else []),
        _points(found.trusted),
        _left_out(left_out),
    ]
    facts = [("measured on", machine_text(machine)), ("predicted for", f"{found.header.device} ({found.device.name})")]
    facts.append(("cycles from", _sources(found.trusted)))
    return page(f"Tilesight validated on {machine.gpu}", sections, made, facts)


def _sources(compared: Sequence[Comparison]) -> str:
    """Of how many points the predicted cycles come from machine code, and of how many from estimates."""
    launches = [{one.cost.split(":")[0] for one in each.prediction.launches} for each in compared if each.prediction]
    counted = Counter(COST_TEXTS[kind] for kinds in launches for kind in sorted(kinds))
    return "; ".join(f"{text} ({count} of {len(compared)} points)" for text, count in counted.items()) or "no point"


def _verdicts(found: Sequence[Verdict]) -> str:
    rows = [
        [
            cell(each.rule.text, kind="left"),
            cell(limit_text(each, each.rule.must)),
            cell(limit_text(each, each.rule.aim)),
            cell(limit_text(each, each.value)),
            cell(GRADE_TEXTS[each.grade], kind=f"left {CLASSES.get(each.grade, '')}".strip()),
            cell(each.worst, kind="left wide"),
        ]
        for each in found
    ]
    return table(("check", "limit", "target", "result", "verdict", "worst at"), rows, ("check", "verdict", "worst at"))


def _statistics(found: Sequence[Statistic]) -> str:
    rows = [
        [
            cell(NAMES[each.quantity], kind="left"),
            cell(str(each.points)),
            *(cell(size_text(size), size) for size in (each.median, each.mean, each.p95)),
            cell(error_text(each.bias), each.bias),
            cell(error_text(each.worst_error), each.worst, "missed"),
            cell(each.worst_key, kind="left wide"),
        ]
        for each in found
    ]
    heads = ("relative error of", "points", "median", "mean", "95th percentile", "bias", "worst", "worst at")
    return table(heads, rows, ("relative error of", "worst at"))


def _points(compared: Sequence[Comparison]) -> str:
    if not compared:
        return ""
    shown = [name for name in QUANTITIES if any(name in each.pairs for each in compared)]
    heads = ["schedule", "problem", "configuration", "L2", "half"]
    heads += [text for name in shown for text in (f"{NAMES[name]}, predicted", "measured", "off by")]
    heads.append("noise")
    rows = [_row(each, shown) for each in compared]
    return (
        "<h2>All points</h2><p>Click a heading to sort.</p>"
        f"{table(heads, rows, ('schedule', 'problem', 'configuration', 'L2', 'half', 'noise'))}"
    )


def _row(each: Comparison, shown: Sequence[str]) -> list[str]:
    words = (each.point.schedule, each.point.problem.text, short_config(each), each.point.l2, each.point.half)
    cells = [cell(word, kind="left") for word in words]
    for name in shown:
        pair = each.pairs.get(name)
        if pair is None:
            cells += [cell("")] * 3
            continue
        cells += [cell(value_text(name, value), value) for value in (pair.predicted, pair.measured)]
        error = each.errors().get(name)
        cells.append(cell(error_text(error), None if error is None else abs(error)))
    timing = each.outcome.timing if isinstance(each.outcome, Measurement) else None
    return [*cells, cell(timing.noise if timing else "", kind="left")]


def _left_out(found: Sequence[Comparison]) -> str:
    if not found:
        return ""
    lines = [f"{each.point.key}: {'; '.join(each.objections)}" for each in found]
    return f"<h2>Left out of the statistics</h2>{items(lines)}"
