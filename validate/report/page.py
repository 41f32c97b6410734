"""A validation as a page of the documentation: generated from a results file, the worst in bold, nothing hidden."""

from collections.abc import Sequence
from pathlib import Path

from ...simulator.display.render import plural
from ..compare.campaign import Half, Validation
from ..compare.compare import LEAST_BYTES, QUANTITIES, Comparison, Pair, Ranking, counts, statistics
from ..compare.verdict import GRADE_TEXTS
from ..measurement import Measurement
from .text import NAMES, error_text, limit_text, machine_text, remarks, size_text, value_text

HALF_TEXTS = {
    "test": "Points on which no constant was fitted.",
    "fitting": "Points that constants may have been fitted on.",
}


def page_text(found: Validation, data: Path | None) -> str:
    """The page. Args: data: results file that it comes from, named on the page."""
    machine = found.header.machine
    left_out = [each for each in found.comparisons if each.objections]
    lines = [
        f"# Validated on {machine.gpu}",
        "",
        f"{machine_text(machine)}, {machine.sm_count} SMs; predicted for `{found.header.device}`.",
        f"{plural(len(found.comparisons), 'point')}, {len(left_out)} left out of the statistics and listed below.",
        "An error is (predicted - measured) / measured; the worst case is in bold.",
        f"Traffic below {value_text('hbm_read_bytes', LEAST_BYTES)} on both sides is noise and not counted.",
    ]
    if data:
        lines.append(f"This page is generated: `tilesight validate --read {data.name} --page ...` writes it anew.")
    lines += ["", *(f"- {line}" for line in remarks(found))]
    for name in ("test", "fitting"):
        half = found.half(name)
        lines += ["", f"## The {name} half", "", f"{HALF_TEXTS[name]} {plural(half.points, 'point')}.", *_half(half)]
    lines += ["", "## Single launches", "", "All points, launch by launch.", "", *_launches(found.trusted)]
    lines += ["", "## Every point", "", *_points(found.trusted)]
    if left_out:
        lines += ["", "## Left out", ""]
        lines += [f"- `{each.point.key}`: {'; '.join(each.objections)}" for each in left_out]
    return "\n".join(lines).rstrip() + "\n"


def _half(half: Half) -> list[str]:
    if not half.statistics:
        return []
    lines = ["", "| check | limit | target | result | verdict |", "|---|---|---|---|---|"]
    for each in half.verdicts:
        cells = [limit_text(each, value) for value in (each.rule.must, each.rule.aim, each.value)]
        text = GRADE_TEXTS[each.grade]
        grade = f"**{text}**" if each.grade == "missed" else text
        lines.append(f"| {each.rule.text} | {' | '.join(cells)} | {grade} |")
    lines += ["", "| relative error of | points | median | mean | 95th percentile | bias | worst | worst at |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for one in half.statistics.values():
        sizes = " | ".join(size_text(size) for size in (one.median, one.mean, one.p95))
        worst = f"**{error_text(one.worst_error)}** | `{one.worst_key}`"
        lines.append(f"| {NAMES[one.quantity]} | {one.points} | {sizes} | {error_text(one.bias)} | {worst} |")
    return lines + _rankings(half.rankings)


def _rankings(found: Sequence[Ranking]) -> list[str]:
    if not found:
        return []
    lowest, dearest = min(each.spearman for each in found), max(each.regret for each in found)
    lines = ["", "| shape | configurations | MAPE of time | Spearman | chosen / best |", "|---|---|---|---|---|"]
    for each in found:
        rank = f"{each.spearman:.3f}" if each.spearman > lowest else f"**{each.spearman:.3f}**"
        regret = f"{each.regret:.3f}" if each.regret < dearest else f"**{each.regret:.3f}**"
        lines.append(f"| `{each.name}` | {each.configs} | {size_text(each.mean)} | {rank} | {regret} |")
    return lines


def _launches(compared: Sequence[Comparison]) -> list[str]:
    """Statistics over single launches, by the kernel's name."""
    errors: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for each in compared:
        for launch, pairs in each.launches:
            for quantity, pair in pairs.items():
                if counts(quantity, pair):
                    errors.setdefault((launch, quantity), []).append((each.point.key, pair.relative_error))
    if not errors:
        return ["No launch was counted."]
    lines = [
        "| launch | relative error of | launches | median | mean | worst | worst at |",
        "|---|---|---|---|---|---|---|",
    ]
    for (launch, quantity), named in sorted(errors.items()):
        one = statistics(named, quantity)
        assert one
        sizes = f"{size_text(one.median)} | {size_text(one.mean)} | **{error_text(one.worst_error)}**"
        lines.append(f"| `{launch}` | {NAMES[quantity]} | {one.points} | {sizes} | `{one.worst_key}` |")
    return lines


def _points(compared: Sequence[Comparison]) -> list[str]:
    if not compared:
        return ["Nothing was compared."]
    shown = [name for name in QUANTITIES if any(name in each.pairs for each in compared)]
    worst = {name: max((abs(each.errors().get(name, 0.0)) for each in compared), default=0.0) for name in shown}
    heads = ["point", "half", *(NAMES[name] for name in shown), "noise"]
    lines = ["Measured value, and error of the prediction.", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for each in compared:
        cells = [_point_cell(name, each.pairs.get(name), each, worst[name]) for name in shown]
        timing = each.outcome.timing if isinstance(each.outcome, Measurement) else None
        lines.append(
            f"| `{each.point.key}` | {each.point.half} | {' | '.join(cells)} | {timing.noise if timing else ''} |"
        )
    return lines


def _point_cell(name: str, pair: Pair | None, each: Comparison, worst: float) -> str:
    if pair is None:
        return ""
    error = each.errors().get(name)
    if error is None:
        return value_text(name, pair.measured)
    told = error_text(error)
    return f"{value_text(name, pair.measured)}, {f'**{told}**' if error and abs(error) == worst else told}"
