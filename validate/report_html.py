"""A validation as one HTML file that opens offline: the verdict, pictures, and a table of all points to sort."""

from collections.abc import Sequence
from html import escape
from math import isfinite

from ..simulator.report import plural, problem_text
from ..simulator.report_html import SORT, STYLE
from .compare import QUANTITIES, Comparison, Statistic
from .measurement import Measurement
from .report import NAMES, error_text, limit_text, machine_text, remarks, short_config, size_text, value_text
from .report_figures import figures
from .validate import Validation
from .verdict import Verdict

OWN_STYLE = """
.missed { color: #b42318; font-weight: 600; } .aim { color: #1a7f37; } td.wide { white-space: normal; }
ol { font-size: 12px; margin: 0 0 12px; } select { max-width: 100%; margin: 8px 0; }
"""


def validate_html(found: Validation) -> str:
    """The page, with plotly's code inside. Returns: the text of an HTML file."""
    from plotly.offline import get_plotlyjs

    machine, half = found.header.machine, found.half()
    left_out = [each for each in found.comparisons if each.objections]
    return "\n".join(
        (
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Tilesight validated on {escape(machine.gpu)}</title>",
            f"<style>{STYLE}{OWN_STYLE}</style>",
            f"<script>{get_plotlyjs()}</script></head><body>",
            f"<h1>Predicted beside measured: {escape(machine.gpu)}</h1>",
            f'<p class="muted">{escape(machine_text(machine))}; predicted for {escape(found.header.device)}. '
            f"{plural(len(found.comparisons), 'point')}, {len(left_out)} left out of the statistics.</p>",
            _items(remarks(found)),
            "<h2>How true</h2>",
            _verdicts(half.verdicts),
            _statistics(list(half.statistics.values())),
            *(figures(found.trusted, found.device) if found.trusted else []),
            _points(found.trusted),
            _left_out(left_out),
            f"<script>{SORT}</script></body></html>\n",
        )
    )


def _items(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>" if lines else ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str] = ()) -> str:
    """A table that sorts by its headings. Args: rows: finished cells; left: headings of columns of words."""
    head = "".join(f'<th scope="col"{" class=left" if name in left else ""}>{escape(name)}</th>' for name in heads)
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _cell(text: str, key: float | None = None, kind: str = "") -> str:
    sort_key = "" if key is None or not isfinite(key) else f' data-key="{key}"'
    return f"<td{sort_key}{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{escape(text)}</td>"


def _verdicts(found: Sequence[Verdict]) -> str:
    rows = [
        [
            _cell(each.rule.text, kind="left"),
            _cell(limit_text(each, each.rule.must)),
            _cell(limit_text(each, each.rule.aim)),
            _cell(limit_text(each, each.value)),
            _cell(each.grade, kind="left " + each.grade.split()[0]),
            _cell(each.worst, kind="left wide"),
        ]
        for each in found
    ]
    return _table(("what", "must", "aim", "is", "verdict", "worst at"), rows, ("what", "verdict", "worst at"))


def _statistics(found: Sequence[Statistic]) -> str:
    rows = [
        [
            _cell(NAMES[each.quantity], kind="left"),
            _cell(str(each.points)),
            *(_cell(size_text(size), size) for size in (each.median, each.mean, each.p95)),
            _cell(error_text(each.bias), each.bias),
            _cell(error_text(each.worst_error), each.worst, "missed"),
            _cell(each.worst_key, kind="left wide"),
        ]
        for each in found
    ]
    heads = ("relative error of", "points", "median", "mean", "95th percentile", "bias", "worst", "worst at")
    return "<p></p>" + _table(heads, rows, ("relative error of", "worst at"))


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
        f"{_table(heads, rows, ('schedule', 'problem', 'configuration', 'L2', 'half', 'noise'))}"
    )


def _row(each: Comparison, shown: Sequence[str]) -> list[str]:
    words = (each.point.schedule, problem_text(each.point.problem), short_config(each), each.point.l2, each.point.half)
    cells = [_cell(word, kind="left") for word in words]
    for name in shown:
        pair = each.pairs.get(name)
        if pair is None:
            cells += [_cell("")] * 3
            continue
        cells += [_cell(value_text(name, value), value) for value in (pair.predicted, pair.measured)]
        error = each.errors().get(name)
        cells.append(_cell(error_text(error), None if error is None else abs(error)))
    timing = each.outcome.timing if isinstance(each.outcome, Measurement) else None
    return [*cells, _cell(timing.noise if timing else "", kind="left")]


def _left_out(found: Sequence[Comparison]) -> str:
    if not found:
        return ""
    lines = [f"{each.point.key}: {'; '.join(each.objections)}" for each in found]
    return f"<h2>Left out of the statistics</h2>{_items(lines)}"
