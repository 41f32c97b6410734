"""The pictures of an exploration, each drawn into one pair of axes: for the PNG file and for the page."""

from functools import partial
from typing import Any

from matplotlib.ticker import MaxNLocator

from .. import units
from ..closed_form.roofline import tensor_peak_flop_per_s
from ..display.render import bound_text, config_text, times
from ..explore.candidate import Candidate
from ..explore.explore import Exploration
from .draw import INK, MUTED, PANEL_INCHES, PAPER, WIDE_INCHES, Tips, legend_below, log_axis, panel, ticks, tip_text
from .heat_map import Cell, TimeMap, draw_time_map
from .series import (
    HeatMap,
    best_of_each,
    bytes_per_level,
    color,
    default_text,
    heat_maps,
    intensity_flop_per_byte,
    multiplies,
)

SPILL_MARK = "!"
HBM_LEVELS = ("read from HBM", "written to HBM")
"""Levels that a problem has compulsory bytes of."""
MOST_TICKS = 5
"""Of an axis of bytes: labels such as `1.20 GB` do not touch."""


def figures(exploration: Exploration) -> list[str]:
    """Sections of HTML, each with its pictures."""
    maps = heat_maps(exploration)
    sections = []
    inches = PANEL_INCHES if len(maps) > 1 else WIDE_INCHES
    if maps:
        spills = f"; {SPILL_MARK}: it spills registers" if any(heat_map.any_spills for heat_map in maps) else ""
        sections += [
            "<h2>Block sizes</h2><p>Best time for each pair of block sizes over all other options; dark is fast"
            f"{spills}.</p>",
            '<div class="row">',
            *(
                panel(f"heat-{heat_map.schedule}", partial(draw_heat_map, heat_map=heat_map), inches)
                for heat_map in maps
            ),
            "</div>",
        ]
    if not best_of_each(exploration):
        return sections
    roofline = multiplies(exploration)
    sections += [f"<h2>Where the bytes go{', and what limits the time' if roofline else ''}</h2>", '<div class="row">']
    sections += [panel("levels", partial(draw_levels, exploration=exploration))]
    sections += [panel("roofline", partial(draw_roofline, exploration=exploration))] if roofline else []
    return [*sections, "</div>"]


def story(item: Candidate | None) -> str:
    """What a configuration tells when it is pointed at."""
    if item is None:
        return "not among the configurations"
    name = f"{item.schedule} {config_text(item.config_dict())}"
    if item.prediction is None:
        return tip_text(name, {"no answer" if item.is_unanswered else "does not fit": item.reason})
    total = item.prediction.total
    figures = {"time": units.duration(total.time_s), "bound by": bound_text(item.prediction)}
    figures |= {"into the SMs": units.traffic(total.smem_fill_bytes), "HBM": units.traffic(total.hbm_bytes)}
    if total.matmul_flop:
        figures["rate"] = units.rate(total.matmul_flop_per_s)
    if item.prediction.spilled_bytes_per_thread:
        figures["spills"] = f"{item.prediction.spilled_bytes_per_thread} B per thread"
    return tip_text(name, figures)


def draw_heat_map(ax: Any, tips: Tips, heat_map: HeatMap) -> None:
    """Times over block sizes, the best in bold."""

    def cell(row: int, column: int, time_s: float | None) -> Cell:
        item = heat_map.cells[row][column]
        text = SPILL_MARK if heat_map.spills(row, column) else ""
        if time_s is None:
            text = "no time" if item and item.is_unanswered else "no fit"
        return Cell(time_s=time_s, text=text, tip=story(item))

    time_map = TimeMap(
        title=heat_map.schedule,
        x_label="block_n (keys)",
        y_label="block_m (queries)",
        xs=heat_map.block_n,
        ys=heat_map.block_m,
        cells=[
            [cell(row, column, time_s) for column, time_s in enumerate(times)]
            for row, times in enumerate(heat_map.times_s)
        ],
    )
    draw_time_map(ax, tips, time_map)


def draw_levels(ax: Any, tips: Tips, exploration: Exploration) -> None:
    """Bytes per level of the best of each schedule, as bars; at HBM also as a multiple of what a problem must move."""
    best = {name: bytes_per_level(prediction.total) for name, prediction in best_of_each(exploration).items()}
    compulsory = exploration.problem.compulsory
    least = dict(zip(HBM_LEVELS, (compulsory.read_bytes, compulsory.write_bytes), strict=True))
    labels: list[str] = []
    for place, (name, amounts) in enumerate(best.items()):
        labels = list(amounts)
        height = 0.8 / len(best)
        at = [row + place * height - 0.4 + height / 2 for row in range(len(labels))]
        drawn = ax.barh(at, list(amounts.values()), height * 0.92, color=color(name), label=name)
        texts = [_moved_text(value, least.get(label, 0)) for label, value in amounts.items()]
        ax.bar_label(drawn, texts, padding=3, fontsize=8, color=INK)
        for bar, label, text in zip(drawn, labels, texts, strict=True):
            bar.set_gid(f"{name}-{labels.index(label)}")
            tips[f"{name}-{labels.index(label)}"] = [tip_text(name, {label: text})]
    ax.set_yticks(range(len(labels)), labels)
    ax.invert_yaxis()
    # Room for the text behind the longest bar.
    ax.set_xlim(0, max([1, *(value for amounts in best.values() for value in amounts.values())]) * 1.3)
    ax.xaxis.set_major_locator(MaxNLocator(MOST_TICKS))
    ax.xaxis.set_major_formatter(ticks(units.traffic))
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x")
    ax.set_xlabel("bytes moved; in brackets: times what the problem must move")
    ax.set_title(f"Bytes per level, best configuration of each schedule{default_text(exploration)}")
    legend_below(ax)


def _moved_text(value_bytes: int, least_bytes: int) -> str:
    return units.traffic(value_bytes) + (f" ({times(value_bytes / least_bytes)})" if least_bytes else "")


def draw_roofline(ax: Any, tips: Tips, exploration: Exploration) -> None:
    """Rate over intensity of all configurations under the roofs of the device; those that spill are crosses."""
    device, dtype = exploration.device, exploration.problem.dtype
    peaks = [tensor_peak_flop_per_s(device, dtype, clock) for clock in (0.0, device.tensor_clock_hz)]
    (peak, sustained), bandwidth = peaks, device.hbm_read_bytes_per_s
    best = best_of_each(exploration)
    shown = [item for item in exploration.ranked if item.prediction]
    totals = [item.prediction.total for item in shown if item.prediction] + [
        prediction.total for prediction in best.values()
    ]
    xs = [intensity_flop_per_byte(total) for total in totals]
    low, high = min([*xs, 10]) / 3, max([*xs, peak / bandwidth]) * 3
    draw_roofs(ax, low, high, bandwidth, peak)
    dashed = {"color": INK, "lw": 1.1, "ls": (0, (4, 3))}
    ax.plot([sustained / bandwidth, high], [sustained] * 2, **dashed)
    note = f"tensor cores {units.rate(peak)}; dashed: {units.rate(sustained)} at the sustained clock"
    ax.annotate(note, (high, peak), (0, 4), textcoords="offset points", ha="right", fontsize=8)
    for name in dict.fromkeys(item.schedule for item in shown):
        for spills, mark in ((False, "o"), (True, "x")):
            some = [item for item in shown if item.schedule == name and spills == _spills(item)]
            if not some:
                continue
            gid = f"points-{name}-{mark}"
            of = [item.prediction.total for item in some if item.prediction]
            at = [intensity_flop_per_byte(total) for total in of], [total.matmul_flop_per_s for total in of]
            style = {"s": 26, "lw": 1.1} if spills else {"s": 18, "linewidths": 0}
            ax.scatter(*at, color=color(name), marker=mark, alpha=0.4, gid=gid, **style)
            tips[gid] = [story(item) for item in some]
    for name, prediction in best.items():
        place = intensity_flop_per_byte(prediction.total), prediction.total.matmul_flop_per_s
        text = f"{name}: {units.duration(prediction.time_s)}"
        gid = f"best-{name}"
        ax.scatter(*place, s=70, color=color(name), edgecolors=PAPER, zorder=3, label=text, gid=gid)
        tips[gid] = [tip_text(f"best {text}", {"rate": units.rate(prediction.total.matmul_flop_per_s)})]
    if any(map(_spills, shown)):
        ax.scatter([], [], s=26, lw=1.1, color=MUTED, marker="x", label="spills registers")
    ax.set_title(f"Roofline: all configurations; large: the best of each{default_text(exploration)}")
    legend_below(ax)


def _spills(item: Candidate) -> bool:
    return item.prediction is not None and item.prediction.spilled_bytes_per_thread > 0


def draw_roofs(ax: Any, low: float, high: float, hbm_bytes_per_s: float, peak_flop_per_s: float) -> None:
    """Axes of a roofline, and the lines of HBM and of the tensor cores. Args: low, high: intensities [FLOP/B]."""
    ridge = peak_flop_per_s / hbm_bytes_per_s
    ax.plot([low, ridge, high], [low * hbm_bytes_per_s, peak_flop_per_s, peak_flop_per_s], color=INK, lw=1.6)
    ax.annotate(
        f"HBM {units.bandwidth(hbm_bytes_per_s)}",
        (ridge / 1.5, peak_flop_per_s / 1.5),
        (-6, 2),
        textcoords="offset points",
        ha="right",
        fontsize=8,
    )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(low, high)
    ax.grid(which="major")
    ax.set_xlabel("matrix-product operations per byte at HBM (FLOP/B)")
    ax.set_ylabel("achieved rate (FLOP/s)")
    log_axis(ax.xaxis, "{:,g} ".format)
    log_axis(ax.yaxis, units.rate)
