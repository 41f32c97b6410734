"""Pictures as PNG: an explored configuration space, and schedules over sequence lengths."""

from collections.abc import Callable
from io import BytesIO
from itertools import cycle
from textwrap import fill
from typing import Any

import matplotlib
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from . import units
from .explore import Exploration
from .report import problem_text
from .report_explore import why_lines
from .report_series import (
    HeatMap,
    axis_text,
    best_of_each,
    bytes_per_level,
    color,
    decades,
    heat_maps,
    intensity_flop_per_byte,
    multiplies,
    roofs,
)
from .scaling import Scaling

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "savefig.facecolor": "white",
}
MOST_MAPS = 4
SPILL_MARK = "!"
DASHES: tuple[Any, ...] = ("-", (0, (6, 2.5)), (0, (3, 2)), (0, (1, 1.2)))
MARKERS = "sov^"


def _png(figure: Figure) -> bytes:
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=130, metadata={"Software": None})
    return stream.getvalue()


def _ticks(text: Callable[[float], str]) -> FuncFormatter:
    """Tick labels in human units, without zeros after the point."""
    return FuncFormatter(lambda value, _: axis_text(text(value)))


def explore_png(found: Exploration) -> bytes:
    """Heat maps over block sizes; bytes per level and roofline below. Returns: a PNG file."""
    maps = heat_maps(found)[:MOST_MAPS]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(13, 9.6 if maps else 5.4), layout="constrained")
        figure.suptitle(f"{problem_text(found.problem)} on {found.device.name}", x=0.01, ha="left", fontsize=13)
        rows: Any = figure.subfigures(2, 1, height_ratios=(1, 1.05)) if maps else [figure]
        if maps:
            spills = f"; {SPILL_MARK}: spills registers" if any(one.any_spills for one in maps) else ""
            rows[0].suptitle(
                f"Best time for each pair of block sizes (dark: fast{spills})", x=0.01, ha="left", fontsize=11
            )
            axes = rows[0].subplots(1, max(2, len(maps)), squeeze=False)[0]
            for ax, one in zip(axes, maps, strict=False):
                _draw_heat_map(ax, one)
            for ax in axes[len(maps) :]:
                ax.set_axis_off()
            if len(maps) < len(axes) and found.ranked:
                _write_why(axes[-1], found)
        if best_of_each(found):
            bars, roof = rows[-1].subplots(1, 2)
            _draw_levels(bars, found)
            if multiplies(found):
                _draw_roofline(roof, found)
            else:
                roof.set_axis_off()
        return _png(figure)


def _write_why(ax: Any, found: Exploration) -> None:
    lines = [line for line in why_lines(found) if line]
    first, *others = (fill(line.strip(), 84, subsequent_indent="   ") for line in lines)
    ax.text(0, 1, first, va="top", fontsize=10, fontweight="bold", transform=ax.transAxes)
    ax.text(0, 0.92, "\n".join(others), va="top", fontsize=9, linespacing=1.6, transform=ax.transAxes)


def _draw_heat_map(ax: Any, one: HeatMap) -> None:
    times = one.times_s
    known = [value for row in times for value in row if value is not None]
    ax.set_title(one.schedule)
    ax.set_xticks(range(len(one.block_n)), one.block_n)
    ax.set_yticks(range(len(one.block_m)), one.block_m)
    ax.set_xlabel("block_n (keys)")
    ax.set_ylabel("block_m (queries)")
    ax.tick_params(length=0)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    if not known:
        ax.text(0.5, 0.5, "nothing fits", ha="center", va="center", transform=ax.transAxes)
        return
    norm = LogNorm(min(known), max(max(known), min(known) * 1.0001))
    cells = [[float("nan") if value is None else value for value in row] for row in times]
    colors = matplotlib.colormaps["YlGnBu_r"].with_extremes(bad="#F0F0F0")
    ax.imshow(cells, norm=norm, cmap=colors, origin="lower", aspect="auto")
    for row, values in enumerate(times):
        for col, value in enumerate(values):
            dark = value is not None and norm(value) < 0.5
            text = "no fit" if value is None else units.duration(value) + (SPILL_MARK if one.spills(row, col) else "")
            weight = "bold" if value == min(known) else "normal"
            tone = "white" if dark else "#888888" if value is None else "#222222"
            ax.text(col, row, text, ha="center", va="center", color=tone, fontsize=9, fontweight=weight)


def _draw_levels(ax: Any, found: Exploration) -> None:
    best = {name: bytes_per_level(prediction.total) for name, prediction in best_of_each(found).items()}
    least = decades(value for amounts in best.values() for value in amounts.values())[0]
    labels: list[str] = []
    for place, (name, amounts) in enumerate(best.items()):
        labels = list(amounts)
        height = 0.8 / len(best)
        at = [row + place * height - 0.4 + height / 2 for row in range(len(labels))]
        # Nothing at all has no place on a logarithmic axis, but still gets its label.
        drawn = ax.barh(
            at, [max(value, least) for value in amounts.values()], height * 0.92, color=color(name), label=name
        )
        ax.bar_label(
            drawn, [units.traffic(value) for value in amounts.values()], padding=3, fontsize=8, color="#333333"
        )
    ax.set_yticks(range(len(labels)), labels)
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlim(least, ax.get_xlim()[1] * 2)
    ax.xaxis.set_major_formatter(_ticks(units.traffic))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x")
    ax.set_xlabel("bytes moved (logarithmic)")
    ax.set_title("Bytes per level, best configuration of each schedule")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=4)


def _draw_roofline(ax: Any, found: Exploration) -> None:
    lines = roofs(found)
    best = best_of_each(found)
    shown = [item.prediction for item in found.ranked if item.prediction]
    xs = [intensity_flop_per_byte(one.total) for one in [*shown, *best.values()]]
    low, high = min([*xs, 10]) / 3, max([*xs, lines.peak_flop_per_s / lines.hbm_bytes_per_s]) * 3
    ridge = lines.peak_flop_per_s / lines.hbm_bytes_per_s
    ax.plot(
        [low, ridge, high],
        [low * lines.hbm_bytes_per_s, lines.peak_flop_per_s, lines.peak_flop_per_s],
        color="#333333",
        lw=1.6,
    )
    ax.plot(
        [lines.sustained_flop_per_s / lines.hbm_bytes_per_s, high],
        [lines.sustained_flop_per_s] * 2,
        color="#333333",
        lw=1.1,
        ls=(0, (4, 3)),
    )
    ax.annotate(
        f"tensor cores {units.rate(lines.peak_flop_per_s)}; dashed: at the clock that power sustains",
        (high, lines.peak_flop_per_s),
        (0, 4),
        textcoords="offset points",
        ha="right",
        fontsize=8,
    )
    ax.annotate(
        f"HBM {units.bandwidth(lines.hbm_bytes_per_s)}",
        (low * 1.2, low * 1.2 * lines.hbm_bytes_per_s),
        (8, -4),
        textcoords="offset points",
        fontsize=8,
    )
    for name in dict.fromkeys(one.schedule for one in shown):
        some = [one.total for one in shown if one.schedule == name]
        ax.scatter(
            [intensity_flop_per_byte(total) for total in some],
            [total.matmul_flop_per_s for total in some],
            s=14,
            color=color(name),
            alpha=0.3,
            linewidths=0,
        )
    for name, one in best.items():
        at = intensity_flop_per_byte(one.total), one.total.matmul_flop_per_s
        ax.scatter(
            *at, s=70, color=color(name), edgecolors="white", zorder=3, label=f"{name}: {units.duration(one.time_s)}"
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(low, high)
    ax.grid(which="major")
    ax.set_xlabel("matrix-product operations per byte at HBM (FLOP/B)")
    ax.set_ylabel("achieved rate")
    ax.xaxis.set_major_formatter(_ticks("{:,g} ".format))
    ax.yaxis.set_major_formatter(_ticks(units.rate))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_title("Roofline: all configurations; large: the best")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=4, columnspacing=1, handletextpad=0.2)


def compare_png(found: Scaling) -> bytes:
    """Time and device memory over sequence length, both logarithmic: quadratic against linear. Returns: a PNG file."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(13, 5.8), layout="constrained")
        shape = problem_text(found.problem).replace(f"M=N={found.problem.seqlen_q} ", "")
        figure.suptitle(f"{shape} on {found.device.name}", x=0.01, ha="left", fontsize=13)
        left, right = figure.subplots(1, 2)
        # Where two lines coincide, the gaps of the upper one show the lower one.
        for name, dashes, marker in zip(found.chosen, cycle(DASHES), cycle(MARKERS), strict=False):
            points = [point for point in found.points if point.schedule == name]
            ran = [(point.seqlen, point.prediction.time_s) for point in points if point.prediction]
            held = [(point.seqlen, point.peak_memory_bytes) for point in points if point.peak_memory_bytes]
            for ax, pairs in ((left, ran), (right, held)):
                if pairs:
                    ax.plot(*zip(*pairs, strict=True), ls=dashes, marker=marker, color=color(name), lw=2, label=name)
            lost = [pair for pair in held if pair[1] > found.device.hbm_bytes]
            if lost:
                right.plot(*zip(*lost, strict=True), ls="", marker=marker, color="white", mec=color(name), zorder=3)
        capacity = found.device.hbm_bytes
        right.axhline(capacity, color="#333333", lw=1.1, ls=(0, (4, 3)))
        right.annotate(
            f"device memory {units.capacity(capacity)}",
            (0, capacity),
            (6, 4),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            fontsize=8,
        )
        left.set_yscale("log")
        right.set_yscale("log", base=16)
        _finish(left, found, "Time", "time", units.duration)
        _finish(right, found, "Peak device memory (hollow: does not fit)", "bytes held at once", units.capacity)
        return _png(figure)


def _finish(ax: Any, found: Scaling, title: str, label: str, text: Callable[[float], str]) -> None:
    ax.set_xscale("log", base=2)
    ax.set_xticks(found.seqlens, [f"{length:,}" for length in found.seqlens], rotation=30, ha="right")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(_ticks(text))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.grid(which="major")
    ax.set_xlabel("sequence length N (queries and keys)")
    ax.set_ylabel(f"{label} (logarithmic)")
    ax.set_title(title)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="lower right")
