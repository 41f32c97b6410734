"""The pictures of a validation: measured against predicted with the worst named, bytes per level, the roofline."""

import json
from collections.abc import Sequence
from html import escape
from math import log10
from typing import Any

from matplotlib.ticker import NullFormatter, NullLocator

from ...simulator import units
from ...simulator.closed_form.roofline import tensor_peak_flop_per_s
from ...simulator.device.device import Device
from ...simulator.report.draw import EDGE, GRID, INK, PAPER, Tips, legend_below, log_axis, panel, tip_text
from ...simulator.report.figures import draw_roofs
from ...simulator.report.series import LEVELS, color
from ..compare.compare import QUANTITIES, Comparison
from .text import both_text, error_text, short_config, short_problem

SCATTERED = ("time_s", "cycles", "hbm_read_bytes", "hbm_write_bytes", "smem_fill_bytes", "fabric_bytes")
WORST = 3
"""Points whose names a scatter shows."""
BAND = 0.10
RATIOS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
NEAR_RATIOS, NEAR = (0.7, 0.8, 0.9, 1.1, 1.25, 1.5), 2.5
"""Where the axis of predicted over measured has ticks, and the others that it has where it reaches no further than so
many times."""
SIDES = {"predicted": "#0072b2", "measured": "#d55e00"}
LEVEL_SCRIPT = """
{ const [values, texts] = JSON.parse(document.getElementById("levels-data").textContent);
  const list = document.getElementById("levels-point"), bars = document.querySelectorAll("#levels [data-side]");
  const show = n => {
    const most = Math.max(...values.flatMap(side => side[n]));
    bars.forEach(bar => {
      const [side, level] = [bar.dataset.side, bar.dataset.level];
      bar.style.width = 100 * values[side][n][level] / (most || 1) + "%";
      bar.nextElementSibling.textContent = texts[side][n][level];
    });
  };
  list.onchange = () => show(list.selectedIndex);
  show(0); }
"""


def figures(compared: Sequence[Comparison], device: Device) -> list[str]:
    """Sections of HTML. Args: compared: points that count."""
    shown = [name for name in SCATTERED if any(name in comparison.errors() for comparison in compared)]
    sections = [
        "<h2>Predicted over measured</h2><p>At 1 they agree; the grey band is 10 % to either side. "
        f"The {WORST} worst of each picture have numbers and are named below it; point at any to see which it is.</p>",
        '<div class="row">',
        *(_scatter(name, compared) for name in shown),
        "</div>",
    ]
    levels = [comparison for comparison in compared if any(field in comparison.pairs for _, field in LEVELS)]
    moved = [
        comparison for comparison in compared if "time_s" in comparison.pairs and comparison.point.problem.matmul_flop
    ]
    sections += ["<h2>Where the bytes go, and what bounds the time</h2>", '<div class="row">']
    sections += [_levels(levels)] if levels else []
    sections += [panel("roofline", lambda ax, tips: _draw_roofline(ax, moved, device, tips))] if moved else []
    return [*sections, "</div>"]


def story(comparison: Comparison) -> str:
    """What a point tells when it is pointed at."""
    shown = {"configuration": f"{short_config(comparison)}, {comparison.point.l2} L2"}
    for name in SCATTERED:
        if name in comparison.pairs:
            pair = comparison.pairs[name]
            both = both_text(name, pair)
            shown[QUANTITIES[name].title] = f"{both} ({error_text(pair.relative_error)})"
    return tip_text(f"{comparison.point.schedule} {comparison.point.problem.text}", shown)


def one_line(comparison: Comparison) -> str:
    """A point in one line."""
    return f"{comparison.point.schedule} {short_problem(comparison)}, {short_config(comparison)}, {comparison.point.l2}"


def _scatter(name: str, compared: Sequence[Comparison]) -> str:
    """Predicted over measured against measured, of one quantity, and the names of the worst."""
    some = [
        comparison
        for comparison in compared
        if name in comparison.errors() and min(comparison.pairs[name].predicted, comparison.pairs[name].measured) > 0
    ]
    if not some:
        return ""
    worst = sorted(some, key=lambda comparison: -abs(log10(_ratio(comparison, name))))[:WORST]
    names = "".join(
        f"<li>{escape(one_line(comparison))}: {error_text(comparison.errors()[name])}</li>" for comparison in worst
    )
    picture = panel(f"scatter-{name}", lambda ax, tips: _draw_scatter(ax, name, some, worst, tips), (6.6, 4.0))
    return f'<div>{picture}<ol class="muted">{names}</ol></div>'


def _draw_scatter(ax: Any, name: str, some: Sequence[Comparison], worst: Sequence[Comparison], tips: Tips) -> None:
    ax.set_title(QUANTITIES[name].title)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.axhspan(1 - BAND, 1 + BAND, color=GRID, lw=0)
    ax.axhline(1, color=INK, lw=1)
    for schedule in dict.fromkeys(comparison.point.schedule for comparison in some):
        of_schedule = [comparison for comparison in some if comparison.point.schedule == schedule]
        at = (
            [comparison.pairs[name].measured for comparison in of_schedule],
            [_ratio(comparison, name) for comparison in of_schedule],
        )
        style = {"s": 26, "alpha": 0.75, "linewidths": 0.4, "edgecolors": PAPER}
        ax.scatter(*at, color=color(schedule), label=schedule, gid=f"points-{schedule}", **style)
        tips[f"points-{schedule}"] = [story(comparison) for comparison in of_schedule]
    for number, comparison in enumerate(worst, 1):
        place = comparison.pairs[name].measured, _ratio(comparison, name)
        ax.annotate(str(number), place, (5, 0), textcoords="offset points", va="center", fontsize=9, color=INK)
    ends = [comparison.pairs[name].measured for comparison in some]
    ax.set_xlim(min(ends) / 1.3, max(ends) * 1.3)
    reach = max(log10(1.3), *(abs(log10(_ratio(comparison, name))) for comparison in some)) * 1.15
    offered = sorted(RATIOS + NEAR_RATIOS) if reach <= log10(NEAR) else RATIOS
    ratios = [ratio for ratio in offered if abs(log10(ratio)) <= reach]
    ax.set_ylim(10**-reach, 10**reach)
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_yticks(ratios, [f"{ratio:g}" for ratio in ratios])
    log_axis(ax.xaxis, QUANTITIES[name].text)
    ax.grid(which="major")
    ax.set_xlabel("measured")
    ax.set_ylabel("predicted / measured")
    legend_below(ax)


def _ratio(comparison: Comparison, name: str) -> float:
    pair = comparison.pairs[name]
    return pair.predicted / pair.measured


def _levels(compared: Sequence[Comparison]) -> str:
    """Bytes per level of one point, predicted beside measured; a list chooses which. The worst comes first."""

    def worst(comparison: Comparison) -> float:
        return max((abs(error) for name, error in comparison.errors().items() if name.startswith("hbm")), default=0.0)

    ordered = sorted(compared, key=worst, reverse=True)
    values = [
        [
            [getattr(comparison.pairs[field], side) if field in comparison.pairs else 0 for _, field in LEVELS]
            for comparison in ordered
        ]
        for side in SIDES
    ]
    texts = [
        [
            [
                units.traffic(getattr(comparison.pairs[field], side)) if field in comparison.pairs else "-"
                for _, field in LEVELS
            ]
            for comparison in ordered
        ]
        for side in SIDES
    ]
    options = "".join(f"<option>{escape(one_line(comparison))}</option>" for comparison in ordered)
    legend = " ".join(f'<span style="color: {shade}">&#9632;</span> {side}' for side, shade in SIDES.items())
    rows = "".join(
        f"<dt>{escape(label)}</dt><dd>{''.join(_bar(side, level) for side in range(len(SIDES)))}</dd>"
        for level, (label, _) in enumerate(LEVELS)
    )
    data = json.dumps([values, texts], allow_nan=False).replace("<", "\\u003c")
    return (
        f'<div id="levels"><h3>Bytes per level of one point</h3><select id="levels-point" aria-label="point">{options}'
        f'</select><p class="muted">{legend}</p><dl>{rows}</dl></div>'
        f'<script type="application/json" id="levels-data">{data}</script><script>{LEVEL_SCRIPT}</script>'
    )


def _bar(side: int, level: int) -> str:
    """A bar, whose length and text the script fills in. Args: side: number of a side; level: of a level."""
    shade = list(SIDES.values())[side]
    bar = f'<i data-side="{side}" data-level="{level}" style="background: {shade}"></i>'
    return f'<div class="bar">{bar}<span></span></div>'


def _draw_roofline(ax: Any, compared: Sequence[Comparison], device: Device, tips: Tips) -> None:
    """Each point twice, joined: as predicted and as measured."""
    places = []
    for comparison in compared:
        assert comparison.prediction
        flop, ends = comparison.prediction.total.matmul_flop, []
        for side in SIDES:
            pairs = [comparison.pairs.get(name) for name in ("hbm_read_bytes", "hbm_write_bytes")]
            moved = sum(getattr(pair, side) for pair in pairs if pair) or comparison.prediction.total.hbm_bytes
            ends.append((flop / max(1.0, moved), flop / getattr(comparison.pairs["time_s"], side)))
        places.append(ends)
    peak, bandwidth = tensor_peak_flop_per_s(device, compared[0].point.problem.dtype), device.hbm_read_bytes_per_s
    xs = [x for ends in places for x, _ in ends]
    for ends in places:
        ax.plot(*zip(*ends, strict=True), color=EDGE, lw=0.6, zorder=1)
    draw_roofs(ax, min(*xs, 10) / 3, max(*xs, peak / bandwidth) * 3, bandwidth, peak)
    for place, (side, shade) in enumerate(SIDES.items()):
        at = [ends[place][0] for ends in places], [ends[place][1] for ends in places]
        ax.scatter(*at, s=22, alpha=0.7, linewidths=0, color=shade, label=side, gid=side, zorder=2)
        tips[side] = [story(comparison) for comparison in compared]
    ax.set_title("Roofline, each point as predicted and as measured")
    legend_below(ax)
