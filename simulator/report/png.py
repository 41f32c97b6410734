"""Pictures as PNG: an explored configuration space, and schedules over sequence lengths."""

from itertools import cycle
from textwrap import fill
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from .. import units
from ..explore.explore import Exploration
from ..explore.lengths import Scaling
from .draw import PAPER, STYLE, draw_capacity, log_axis, png, ticks
from .explore import why_lines
from .figures import SPILL_MARK, draw_heat_map, draw_levels, draw_roofline
from .series import best_of_each, color, heat_maps, multiplies

MOST_MAPS = 4
DASHES: tuple[Any, ...] = ("-", (0, (6, 2.5)), (0, (3, 2)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
MARKERS = "sov^D"


def explore_png(exploration: Exploration) -> bytes:
    """Heat maps over block sizes; bytes per level and roofline below. Returns: a PNG file."""
    every = heat_maps(exploration)
    maps = every[:MOST_MAPS]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(13, 9.6 if maps else 5.4), layout="constrained")
        figure.suptitle(f"{exploration.problem.text} on {exploration.device.name}", x=0.01, ha="left", fontsize=13)
        rows: Any = figure.subfigures(2, 1, height_ratios=(1, 1.05)) if maps else [figure]
        if maps:
            spills = f"; {SPILL_MARK}: spills registers" if any(heat_map.any_spills for heat_map in maps) else ""
            some = f"; the fastest {len(maps)} of {len(every)} schedules" if len(maps) < len(every) else ""
            title = f"Best time for each pair of block sizes (dark: fast{spills}{some})"
            rows[0].suptitle(title, x=0.01, ha="left", fontsize=11)
            axes = rows[0].subplots(1, max(2, len(maps)), squeeze=False)[0]
            for ax, heat_map in zip(axes, maps, strict=False):
                draw_heat_map(ax, {}, heat_map)
            for ax in axes[len(maps) :]:
                ax.set_axis_off()
            if len(maps) < len(axes) and exploration.ranked:
                _write_why(axes[-1], exploration)
        if best_of_each(exploration):
            bars, roof = rows[-1].subplots(1, 2)
            draw_levels(bars, {}, exploration)
            if multiplies(exploration):
                draw_roofline(roof, {}, exploration)
            else:
                roof.set_axis_off()
        return png(figure)


def _write_why(ax: Any, exploration: Exploration) -> None:
    # No line ends between a number and its percent sign.
    lines = [line.strip().replace(" %", "\xa0%") for line in why_lines(exploration) if line]
    first, *others = (fill(line, 84, subsequent_indent="   ") for line in lines)
    ax.text(0, 1, first, va="top", fontsize=10, fontweight="bold", transform=ax.transAxes)
    ax.text(0, 0.92, "\n".join(others), va="top", fontsize=9, linespacing=1.6, transform=ax.transAxes)


def compare_png(scaling: Scaling) -> bytes:
    """Time and device memory over sequence length, both logarithmic: quadratic against linear. Returns: a PNG file."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(13, 5.8), layout="constrained")
        shape = scaling.problem.text.replace(f"M=N={scaling.problem.seqlen_q} ", "")
        figure.suptitle(f"{shape} on {scaling.device.name}", x=0.01, ha="left", fontsize=13)
        left, right = figure.subplots(1, 2)
        # Where two lines coincide, the gaps of the upper one show the lower one.
        for name, dashes, marker in zip(scaling.chosen, cycle(DASHES), cycle(MARKERS), strict=False):
            points = [point for point in scaling.points if point.schedule == name]
            ran = [(point.seqlen, point.prediction.time_s) for point in points if point.prediction]
            held = [(point.seqlen, point.peak_memory_bytes) for point in points if point.peak_memory_bytes]
            for ax, pairs in ((left, ran), (right, held)):
                if pairs:
                    ax.plot(*zip(*pairs, strict=True), ls=dashes, marker=marker, color=color(name), lw=2, label=name)
            lost = [pair for pair in held if pair[1] > scaling.device.hbm_bytes]
            if lost:
                right.plot(*zip(*lost, strict=True), ls="", marker=marker, color=PAPER, mec=color(name), zorder=3)
        draw_capacity(right, scaling.device.hbm_bytes)
        left.set_yscale("log")
        right.set_yscale("log", base=16)
        right.yaxis.set_major_formatter(ticks(units.capacity))
        right.yaxis.set_minor_formatter(NullFormatter())
        log_axis(left.yaxis, units.duration)
        _finish(left, scaling, "Time", "time")
        _finish(right, scaling, "Peak device memory (hollow: does not fit)", "bytes held at once")
        return png(figure)


def _finish(ax: Any, scaling: Scaling, title: str, label: str) -> None:
    ax.set_xscale("log", base=2)
    ax.set_xticks(scaling.seqlens, [f"{length:,}" for length in scaling.seqlens], rotation=30, ha="right")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.grid(which="major")
    ax.set_xlabel("sequence length N (queries and keys)")
    ax.set_ylabel(f"{label} (logarithmic)")
    ax.set_title(title)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="lower right")
