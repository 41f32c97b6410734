"""A validation as a page of the documentation: generated from a results file, the worst in bold, nothing hidden."""

from collections.abc import Sequence
from pathlib import Path

from ...simulator.display.render import Column, plural
from ..compare.campaign import Half, Validation
from ..compare.compare import LEAST_BYTES, QUANTITIES, Comparison, Ranking, counts, statistics
from ..compare.quantities import Pair
from .text import error_text, machine_text, remarks, size_text, statistics_columns, verdict_columns

HALF_TEXTS = {
    "test": "Points on which no constant was fitted.",
    "fitting": "Points that constants may have been fitted on.",
}


def page_text(validation: Validation, data: Path | None) -> str:
    """The page. Args: data: results file that it comes from, named on the page."""
    machine = validation.header.machine
    left_out = validation.left_out
    lines = [
        f"# Validated on {machine.gpu}",
        "",
        f"{machine_text(machine)}, {machine.sm_count} SMs; predicted for `{validation.header.device}`.",
        f"{plural(len(validation.comparisons), 'point')}, {len(left_out)} left out of the statistics and listed below.",
        "An error is (predicted - measured) / measured; the worst case is in bold.",
        f"Traffic below {QUANTITIES['hbm_read_bytes'].text(LEAST_BYTES)} on both sides is noise and not counted.",
    ]
    if data:
        lines.append(f"This page is generated: `tilesight validate --read {data.name} --page ...` writes it anew.")
    lines += ["", *(f"- {line}" for line in remarks(validation))]
    for name in ("test", "fitting"):
        half = validation.half(name)
        lines += ["", f"## The {name} half", "", f"{HALF_TEXTS[name]} {plural(half.points, 'point')}.", *_half(half)]
    lines += ["", "## Single launches", "", "All points, launch by launch.", "", *_launches(validation.trusted)]
    lines += ["", "## Every point", "", *_points(validation.trusted)]
    if left_out:
        lines += ["", "## Left out", ""]
        lines += [f"- `{comparison.point.key}`: {'; '.join(comparison.objections)}" for comparison in left_out]
    return "\n".join(lines).rstrip() + "\n"


def _half(half: Half) -> list[str]:
    if not half.statistics:
        return []
    columns = verdict_columns(half.verdicts), statistics_columns(list(half.statistics.values()))
    return ["", *_table(columns[0]), "", *_table(columns[1]), *_rankings(half.rankings)]


def _table(columns: Sequence[Column]) -> list[str]:
    """Columns as a table of Markdown: what misses in bold, keys of points as code."""
    marked = [list(map(_marked, column.cells, column.kinds or [""] * len(column.cells))) for column in columns]
    head, *rows = (
        f"| {' | '.join(row)} |" for row in ([column.title for column in columns], *zip(*marked, strict=True))
    )
    return [head, "|---" * len(columns) + "|", *rows]


def _marked(text: str, kind: str) -> str:
    return f"**{text}**" if kind == "missed" else f"`{text}`" if kind == "wide" else text


def _rankings(rankings: Sequence[Ranking]) -> list[str]:
    if not rankings:
        return []
    lowest, dearest = min(ranking.spearman for ranking in rankings), max(ranking.regret for ranking in rankings)
    lines = ["", "| shape | configurations | MAPE of time | Spearman | chosen / best |", "|---|---|---|---|---|"]
    for ranking in rankings:
        rank = f"{ranking.spearman:.3f}" if ranking.spearman > lowest else f"**{ranking.spearman:.3f}**"
        regret = f"{ranking.regret:.3f}" if ranking.regret < dearest else f"**{ranking.regret:.3f}**"
        lines.append(f"| `{ranking.name}` | {ranking.configs} | {size_text(ranking.mean)} | {rank} | {regret} |")
    return lines


def _launches(compared: Sequence[Comparison]) -> list[str]:
    """Statistics over single launches, by the kernel's name."""
    errors: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for comparison in compared:
        for launch, pairs in comparison.launches:
            for quantity, pair in pairs.items():
                if counts(quantity, pair):
                    errors.setdefault((launch, quantity), []).append((comparison.point.key, pair.relative_error))
    if not errors:
        return ["No launch was counted."]
    lines = [
        "| launch | relative error of | launches | median | mean | worst | worst at |",
        "|---|---|---|---|---|---|---|",
    ]
    for (launch, quantity), named in sorted(errors.items()):
        statistic = statistics(named, quantity)
        assert statistic
        sizes = f"{size_text(statistic.median)} | {size_text(statistic.mean)} | **{error_text(statistic.worst_error)}**"
        lines.append(
            f"| `{launch}` | {QUANTITIES[quantity].title} | {statistic.points} | {sizes} | `{statistic.worst_key}` |"
        )
    return lines


def _points(compared: Sequence[Comparison]) -> list[str]:
    if not compared:
        return ["Nothing was compared."]
    shown = [name for name in QUANTITIES if any(name in comparison.pairs for comparison in compared)]
    worst = {
        name: max((abs(comparison.errors().get(name, 0.0)) for comparison in compared), default=0.0) for name in shown
    }
    heads = ["point", "half", *(QUANTITIES[name].title for name in shown), "noise"]
    lines = ["Measured value, and error of the prediction.", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for comparison in compared:
        cells = [_point_cell(name, comparison.pairs.get(name), comparison, worst[name]) for name in shown]
        point = comparison.point
        lines.append(f"| `{point.key}` | {point.half} | {' | '.join(cells)} | {comparison.noise} |")
    return lines


def _point_cell(name: str, pair: Pair | None, comparison: Comparison, worst: float) -> str:
    if pair is None:
        return ""
    error = comparison.errors().get(name)
    if error is None:
        return QUANTITIES[name].text(pair.measured)
    text = error_text(error)
    return f"{QUANTITIES[name].text(pair.measured)}, {f'**{text}**' if error and abs(error) == worst else text}"
