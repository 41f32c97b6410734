"""Tuned launches as one HTML file that opens offline."""

from collections.abc import Sequence
from functools import partial
from html import escape
from math import inf
from typing import Any

from matplotlib.ticker import NullFormatter

from ..simulator import units
from ..simulator.display.render import times
from ..simulator.display.words import percent
from ..simulator.report.draw import ACCENT, BAD, GRID, INK, MUTED, PAPER, Tips, log_axis, panel, tip_text
from ..simulator.report.heat_map import ROOMY, Cell, TimeMap, draw_time_map
from ..simulator.report.page import Made, items, page, table_of
from .report import configured_columns, heading, remarks, varying, why_refused
from .tuning import Configured, TunedLaunch, Tuning, text

MOST_MARKS = 500
"""Configurations that have marks of their own; of more, ranges alone are drawn."""
CAPTION = (
    "the time of every configuration that is predicted, by its values; a dash is the fastest of a value, the blue "
    "line the best configuration, a red number how many are refused."
)
SPREAD, TURN = 0.5, 0.618
"""How far marks of one value lie apart, and the turn from one to the next, which never puts two on one line."""


def tuning_html(tuning: Tuning, made: Made) -> str:
    """The page. Args: made: what its foot tells."""
    sections = [
        f"<h1>{escape(tuning.target)}</h1>",
        f'<p class="missed">{escape(tuning.incomplete)}</p>' if tuning.incomplete else "",
        '<p class="muted">Predicted by Tilesight, without a GPU.</p>',
    ]
    for number, launch in enumerate(tuning.launches):
        sections.append(f"<h2>{escape(heading(tuning, launch))}</h2>")
        sections += pictures(launch, number)
        if launch.predicted:
            sections.append(table_of(configured_columns(launch, launch.predicted)))
        sections.append(items([": ".join(line.split(maxsplit=1)) for line in remarks(launch, len(launch.predicted))]))
    sections.append(items([f"Note: {note}" for note in tuning.notes]))
    return page(f"Tilesight: {tuning.target}", sections, made, [("device", tuning.device)])


def pictures(launch: TunedLaunch, number: int) -> list[str]:
    """Pieces of HTML. Args: number: of the launch on the page."""
    names = most_telling(launch)
    if not launch.predicted or not names:
        return []
    maps = [panel(f"map-{number}", partial(_draw_map, launch=launch, names=names[:2]))] if len(names) > 1 else []
    left = "Left: the best time for the two parameters that matter most; dark is fast, grey is not predicted. Right: "
    return [
        f'<p class="muted">{left if maps else "Below: "}{CAPTION}</p>',
        '<div class="row">',
        *maps,
        panel(f"values-{number}", partial(_draw_values, launch=launch, names=names)),
        "</div>",
    ]


def most_telling(launch: TunedLaunch) -> list[str]:
    """Parameters that differ, first the one whose wrong choice costs most where all others are chosen well."""

    def loss(name: str) -> float:
        bests = [items[0].time_s for items in _by_value(launch.predicted, name).values()]
        return max(bests, default=0.0) / min(bests, default=1.0)

    return sorted(varying(launch), key=loss, reverse=True)


def _by_value(items: Sequence[Configured], name: str) -> dict[Any, list[Configured]]:
    """Configurations by value of a parameter, the fastest of each first; numbers ascending, then all else."""
    groups: dict[Any, list[Configured]] = {}
    for item in items:
        groups.setdefault(item.values.get(name), []).append(item)
    return dict(sorted(groups.items(), key=lambda pair: _order(pair[0])))


def _order(value: Any) -> tuple[float, str]:
    return (value if isinstance(value, int | float) else inf, str(value))


def _story(launch: TunedLaunch, item: Configured) -> str:
    """What a configuration tells when it is pointed at."""
    row = item.row.prediction
    if row is None:
        return tip_text(text(item.values), {"refused": why_refused(launch, item)})
    figures = {
        "time": item.row.time_text,
        "vs best": times(item.time_s / launch.predicted[0].time_s),
        "bound by": f"{row.bottleneck} {percent(row.bottleneck_share)}",
    }
    if item.row.spilled_bytes_per_thread:
        figures["spills"] = f"{item.row.spilled_bytes_per_thread} B per thread"
    return tip_text(text(item.values), figures)


def _draw_map(ax: Any, tips: Tips, launch: TunedLaunch, names: Sequence[str]) -> None:
    """The fastest for each pair of values."""
    y_name, x_name = names
    xs, ys = (list(_by_value(launch.configured, name)) for name in (x_name, y_name))

    def cell(y: Any, x: Any) -> Cell:
        items = [item for item in launch.configured if (item.values.get(y_name), item.values.get(x_name)) == (y, x)]
        if not items:
            screened = any((values.get(y_name), values.get(x_name)) == (y, x) for values in launch.left_out)
            why = "not predicted: a static rank left them out" if screened else "not among the configurations"
            return Cell(time_s=None, text="", tip=why)
        best, refused = items[0], sum(not item.row.prediction for item in items)
        if not best.row.prediction:
            return Cell(time_s=None, text="refused", tip=f"all {len(items)} refused, e.g.\n{_story(launch, best)}")
        notes = ["best"] * (best is launch.predicted[0]) + [f"{refused} of {len(items)} refused"] * bool(refused)
        return Cell(
            time_s=best.time_s,
            text="".join(f"\n{note}" for note in notes if len(xs) <= ROOMY),
            tip=f"{_story(launch, best)}\nfastest of {len(items)}, {refused} of them refused",
        )

    draw_time_map(ax, tips, TimeMap(
        title="Best time", x_label=x_name, y_label=y_name, xs=xs, ys=ys, cells=[[cell(y, x) for x in xs] for y in ys]
    ))  # fmt: skip


def _draw_values(ax: Any, tips: Tips, launch: TunedLaunch, names: Sequence[str]) -> None:
    """Every configuration over its values, parameter beside parameter."""
    places: list[tuple[int, str]] = []
    best: list[tuple[int, float]] = []
    times_s = [item.time_s for item in launch.predicted]
    spread = max(times_s) / min(times_s)
    top_s = max(times_s) * spread**0.1 * 1.03
    at = 0
    for number, name in enumerate(names):
        groups = _by_value(launch.configured, name)
        for place, (value, tried) in enumerate(groups.items(), at):
            places.append((place, str(value)))
            _draw_value(ax, tips, launch, tried, place, top_s, f"{number}-{place}")
            if launch.predicted[0].values.get(name) == value:
                best.append((place, min(times_s)))
        middle = at + (len(groups) - 1) / 2
        ax.annotate(name, (middle, 0), (0, -20), xycoords=("data", "axes fraction"), textcoords="offset points",
                    ha="center", va="top", fontsize=9, fontweight="bold")  # fmt: skip
        at += len(groups) + 1
    if len(times_s) < len(launch.configured):
        ax.annotate("refused", (0, top_s), (-6, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                    ha="right", va="center", fontsize=9, color=BAD)  # fmt: skip
    ax.plot(*zip(*best, strict=True), color=ACCENT, lw=1, ls=(0, (4, 3)), marker="o", ms=7, mec=PAPER, zorder=4)
    ax.set_yscale("log")
    ax.set_xticks([place for place, _ in places], [value for _, value in places], fontsize=8)
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.7, at - 1.3)
    ax.set_ylim(min(times_s) / spread**0.06 / 1.01, top_s * spread**0.06 * 1.01)
    ax.grid(axis="y")
    log_axis(ax.yaxis, units.duration)
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_title("Time of every configuration, by value")


def _draw_value(
    ax: Any, tips: Tips, launch: TunedLaunch, items: Sequence[Configured], place: float, top_s: float, gid: str
) -> None:
    """One value: its range, a mark for each configuration, and how many are refused."""
    predicted = [item for item in items if item.row.prediction]
    refused = [item for item in items if not item.row.prediction]
    if predicted:
        times_s = [item.time_s for item in predicted]
        ax.bar(place, max(times_s) - min(times_s), 0.7, min(times_s), color=GRID, zorder=1)
        ax.hlines(min(times_s), place - 0.35, place + 0.35, color=INK, lw=1.8, zorder=3)
        if len(launch.configured) <= MOST_MARKS:
            turned = [place + SPREAD * ((number * TURN) % 1 - 0.5) for number in range(len(predicted))]
            ax.scatter(turned, times_s, s=12, color=MUTED, alpha=0.5, linewidths=0, zorder=2, gid=f"marks-{gid}")
            tips[f"marks-{gid}"] = [_story(launch, item) for item in predicted]
    if refused:
        ax.scatter([place], [top_s], s=170, color=PAPER, linewidths=0, zorder=2, gid=f"refused-{gid}")
        tips[f"refused-{gid}"] = [f"{len(refused)} of {len(items)} refused, e.g.\n{_story(launch, refused[0])}"]
        ax.text(place, top_s, str(len(refused)), ha="center", va="center", fontsize=8, color=BAD, zorder=3)
