"""A validation as one HTML file that opens offline: the verdict, pictures, and a table of all points to sort."""

from collections import Counter
from collections.abc import Sequence
from html import escape

from ...simulator.display.render import Column, plural
from ...simulator.explore.candidate import error_kinds
from ...simulator.report.html import COST_TEXTS
from ...simulator.report.page import Made, cell, items, page, table, table_of
from ..compare.campaign import Validation
from ..compare.compare import QUANTITIES, Comparison
from ..compare.verdict import Verdict
from .figures import figures
from .text import error_text, machine_text, remarks, short_config, statistics_columns, verdict_columns


def validate_html(validation: Validation, made: Made) -> str:
    """The page. Args: made: what its foot tells. Returns: the text of an HTML file."""
    machine, half = validation.header.machine, validation.half()
    sections = [
        f"<h1>Predicted beside measured: {escape(machine.gpu)}</h1>",
        f'<p class="muted">{escape(machine_text(machine))}; predicted for {escape(validation.header.device)}. '
        f"{plural(len(validation.comparisons), 'point')}, {len(validation.left_out)} left out of the statistics.</p>",
        items(remarks(validation)),
        "<h2>Accuracy</h2>",
        table_of([*verdict_columns(half.verdicts), _worst_at(half.verdicts)]),
        table_of(statistics_columns(list(half.statistics.values()))),
        *(figures(validation.trusted, validation.device) if validation.trusted else []),
        _points(validation.trusted),
        _left_out(validation.left_out),
    ]
    facts = [
        ("measured on", machine_text(machine)),
        ("predicted for", f"{validation.header.device} ({validation.device.name})"),
    ]
    facts.append(("cycles from", _sources(validation.trusted)))
    return page(f"Tilesight validated on {machine.gpu}", sections, made, facts)


def _sources(compared: Sequence[Comparison]) -> str:
    """Of how many points the predicted cycles come from machine code, and of how many from estimates."""
    kinds = [sorted({*error_kinds(item.prediction)}) for item in compared if item.prediction]
    counted = Counter(COST_TEXTS[kind] for of_point in kinds for kind in of_point)
    return "; ".join(f"{text} ({count} of {len(compared)} points)" for text, count in counted.items()) or "no point"


def _worst_at(verdicts: Sequence[Verdict]) -> Column:
    return Column("worst at", [verdict.worst for verdict in verdicts], left=True, kinds=["wide"] * len(verdicts))


def _points(compared: Sequence[Comparison]) -> str:
    if not compared:
        return ""
    shown = [name for name in QUANTITIES if any(name in comparison.pairs for comparison in compared)]
    heads = ["schedule", "problem", "configuration", "L2", "half"]
    heads += [text for name in shown for text in (f"{QUANTITIES[name].title}, predicted", "measured", "off by")]
    heads.append("noise")
    rows = [_row(comparison, shown) for comparison in compared]
    return (
        "<h2>All points</h2><p>Click a heading to sort.</p>"
        f"{table(heads, rows, ('schedule', 'problem', 'configuration', 'L2', 'half', 'noise'))}"
    )


def _row(comparison: Comparison, shown: Sequence[str]) -> list[str]:
    words = (
        comparison.point.schedule,
        comparison.point.problem.text,
        short_config(comparison),
        comparison.point.l2,
        comparison.point.half,
    )
    cells = [cell(word, kind="left") for word in words]
    for name in shown:
        pair = comparison.pairs.get(name)
        if pair is None:
            cells += [cell("")] * 3
            continue
        cells += [cell(QUANTITIES[name].text(value), value) for value in (pair.predicted, pair.measured)]
        error = comparison.errors().get(name)
        cells.append(cell(error_text(error), None if error is None else abs(error)))
    return [*cells, cell(comparison.noise, kind="left")]


def _left_out(comparisons: Sequence[Comparison]) -> str:
    if not comparisons:
        return ""
    lines = [f"{comparison.point.key}: {'; '.join(comparison.objections)}" for comparison in comparisons]
    return f"<h2>Left out of the statistics</h2>{items(lines)}"
