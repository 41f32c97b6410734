"""Pictures of launches of a user's kernels: what moves between the memories, and how far they are from the roofline."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import shorten
from typing import Any

from matplotlib.patches import FancyBboxPatch, Polygon, Rectangle

from ... import units
from ...display.render import bound_text, percent, times
from ...prediction.ceiling import Ceiling
from ...prediction.kernel_row import KernelRow, fastest_first
from ...prediction.kernel_table import distinct_labels
from ...prediction.prediction import LaunchPrediction
from ...prediction.what_helps import LIMITS, cause_text
from ..draw import ACCENT, EDGE, EMPTY, GRID, INK, MUTED, PAPER, Tips, panel, ticks, tip_text
from ..figures import draw_roofs

INCHES = (5.6, 4.5)
"""Smaller than other pictures of a page: its words can be read on a phone."""
SMALL_LETTERS, MOST_LETTERS = 72, 84
"""Above a bar: from where on they are smaller, and so many that they fit."""
MOST_BARS = 10
"""Of a picture, the largest."""
LEAST_PLACES = 6
"""That a picture has room for: bars are no thicker where there are fewer."""
LEAST_CAUSE = 0.01
"""Share of the time from which on a cause has a bar."""
ROOFLINES = {"hbm": "its bytes, at the peak of HBM", "tensor": "its products, at the tensor cores' peak"}
"""What limits a roofline -> its time in words."""
LIMITS_TITLE = "What its time goes to: the first blue bar binds it"
BOX, GAP, ACROSS = 1.15, 1.75, 0.75
"""Heights of a memory, of the way to the next, and of the way between the partitions of L2."""
LEFT, RIGHT = 0.9, 5.6
"""Where arrows to the SMs and away from them stand."""


def pictures(row: KernelRow, configurations: Sequence[KernelRow], name: str) -> list[str]:
    """A launch's pictures, two side by side. Args: configurations: if it is autotuned; name: its own on the page."""
    assert row.ceiling is not None
    limits = partial(draw_bars, bars=limit_bars(row), title=LIMITS_TITLE, text=percent, most=1.0)
    panels: list[tuple[str, Callable[[Any, Tips], None]]] = [
        ("memory", partial(draw_memory, row=row)),
        ("limits", limits),
    ]
    if row.ceiling.flop:
        panels.append(("roofline", partial(draw_roofline, row=row)))
    if bars := configuration_bars(configurations):
        title, most = "Time of each configuration, by itself", 1.02 * max(bar.value for bar in bars)
        panels.append(("configurations", partial(draw_bars, bars=bars, title=title, text=units.duration, most=most)))
    return ['<div class="row">', *(panel(f"{kind}-{name}", draw, INCHES) for kind, draw in panels), "</div>"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What moves between two memories, or between the partitions of L2.

    Args:
        label: for people; gap: below which memory it stands, the SMs being 0; up: whether towards the SMs;
        moved_bytes: of the launch [B]; peak_fraction: over its time, of what the way can move.
    """

    label: str
    gap: int
    up: bool
    moved_bytes: int
    peak_fraction: float


def draw_memory(ax: Any, tips: Tips, row: KernelRow) -> None:
    """SMs, L1 with shared memory, L2 and HBM above each other, and between them what moves, as a share of the peak."""
    launch, ceiling = row.prediction, row.ceiling
    assert launch is not None and ceiling is not None
    ways, across = ways_of(launch, ceiling), fabric_of(launch, ceiling)
    heights = [BOX, BOX, BOX + (ACROSS if across else 0.0), BOX]
    top = sum(heights) + 3 * GAP
    bottoms = [top - sum(heights[: place + 1]) - place * GAP for place in range(4)]
    for bottom, height, (head, text) in zip(bottoms, heights, _memories(launch, ceiling), strict=True):
        box = FancyBboxPatch(
            (0.1, bottom + 0.1), 9.8, height - 0.2, boxstyle="round,pad=0.1", fc=EMPTY, ec=EDGE, lw=0.8
        )
        ax.add_patch(box)
        ax.text(0.3, bottom + height - BOX / 2, head, va="center", fontweight="bold")
        ax.text(9.7, bottom + height - BOX / 2, text, va="center", ha="right", fontsize=9)
    for way in ways:
        x, low = LEFT if way.up else RIGHT, bottoms[way.gap + 1] + heights[way.gap + 1] + 0.1
        high = low + GAP - 0.2
        ax.add_patch(_arrow(x, low, high, way, _told(tips, way)))
        middle = (low + high) / 2
        ax.text(x + 0.65, middle + 0.3, units.traffic(way.moved_bytes), va="center", fontweight="bold")
        ax.text(x + 2.4, middle + 0.3, f"{percent(way.peak_fraction)} of peak", va="center", fontsize=9, color=MUTED)
        ax.text(x + 0.65, middle - 0.35, way.label, va="center", fontsize=9)
    if across:
        middle, half = bottoms[2] + ACROSS / 2 + 0.1, 0.06 + 0.2 * min(1.0, across.peak_fraction)
        bar = Rectangle((0.3, middle - half), 1.8, 2 * half, fc=ACCENT, ec="none", gid=_told(tips, across))
        ax.add_patch(bar)
        text = f"{across.label}: {units.traffic(across.moved_bytes)}, {percent(across.peak_fraction)} of peak"
        ax.text(9.7, middle, text, va="center", ha="right", fontsize=9)
    ax.set_xlim(0, 10)
    ax.set_ylim(0, top)
    ax.set_axis_off()
    ax.set_title("What moves between the memories")


def _told(tips: Tips, way: Way) -> str:
    """The name of a way's mark, which tells its figures."""
    gid = way.label.replace(" ", "-").replace(",", "")
    figures = {"bytes": units.traffic(way.moved_bytes), "of the peak": percent(way.peak_fraction)}
    tips[gid] = [tip_text(way.label, figures)]
    return gid


def _memories(launch: LaunchPrediction, ceiling: Ceiling) -> tuple[tuple[str, str], ...]:
    """Name of each memory, and what is to be said of it."""
    traffic = launch.traffic
    loaded = traffic.l1_hit_bytes + traffic.smem_fill_bytes
    limit = f", limited by {LIMITS[launch.occupancy_limit]}" if launch.occupancy_limit in LIMITS else ""
    l1_hits = percent(traffic.l1_hit_bytes / loaded) if loaded else "none"
    busy = f"; busy {percent(launch.causes['smem'])} of the time" if "smem" in launch.causes else ""
    return (
        ("SMs", f"occupancy {percent(launch.occupancy_fraction)}{limit}"),
        ("L1, shared memory", f"L1 hits: {l1_hits} of loaded bytes{busy}"),
        ("L2", f"hits: {percent(traffic.l2_hit_fraction)} of bytes read"),
        ("HBM", f"{units.bandwidth(traffic.hbm_bytes_per_s)} of {units.bandwidth(ceiling.hbm_bytes_per_s)}"),
    )


def ways_of(launch: LaunchPrediction, ceiling: Ceiling) -> list[Way]:
    """What moves between the memories: bytes over the launch's time over the peak."""
    traffic = launch.traffic
    if traffic.smem_read_bytes + traffic.smem_write_bytes:
        inner = (
            ("from shared memory", True, traffic.smem_read_bytes),
            ("to it, copies too", False, traffic.smem_write_bytes),
        )
    else:
        inner = (
            ("through L1", True, traffic.smem_fill_bytes + traffic.l1_hit_bytes),
            ("past L1", False, traffic.l2_write_bytes),
        )
    found = [(label, 0, up, moved, ceiling.smem_bytes_per_s) for label, up, moved in inner]
    found += [
        ("read from L2", 1, True, traffic.l2_read_bytes, ceiling.l2_bytes_per_s),
        ("written to L2", 1, False, traffic.l2_write_bytes, ceiling.l2_bytes_per_s),
        ("read from HBM", 2, True, traffic.hbm_read_bytes, ceiling.hbm_bytes_per_s),
        ("written to HBM", 2, False, traffic.hbm_write_bytes, ceiling.hbm_bytes_per_s),
    ]
    return [_way(*one, time_s=traffic.time_s) for one in found]


def fabric_of(launch: LaunchPrediction, ceiling: Ceiling) -> Way | None:
    """What crosses between the partitions of L2; None where there is one alone."""
    traffic = launch.traffic
    if not traffic.fabric_bytes or not ceiling.fabric_bytes_per_s:
        return None
    label = "between the L2 partitions"
    return _way(label, 2, True, traffic.fabric_bytes, ceiling.fabric_bytes_per_s, time_s=traffic.time_s)


def _way(label: str, gap: int, up: bool, moved_bytes: int, peak_bytes_per_s: float, time_s: float) -> Way:
    share = moved_bytes / time_s / peak_bytes_per_s
    return Way(label=label, gap=gap, up=up, moved_bytes=moved_bytes, peak_fraction=share)


def _arrow(x: float, low: float, high: float, way: Way, gid: str) -> Polygon:
    """An arrow as wide as its share of the peak."""
    share, color = min(1.0, way.peak_fraction), ACCENT if way.moved_bytes else GRID
    shaft, head = 0.06 + 0.24 * share, 0.16 + 0.3 * share
    tip, tail = (high, low) if way.up else (low, high)
    neck = tip + (0.45 if tip < tail else -0.45)
    outline = [(x - shaft, tail), (x - shaft, neck), (x - head, neck), (x, tip), (x + head, neck), (x + shaft, neck)]
    return Polygon([*outline, (x + shaft, tail)], closed=True, fc=color, ec="none", gid=gid)


def draw_roofline(ax: Any, tips: Tips, row: KernelRow, before: KernelRow | None = None) -> None:
    """A launch with matrix products under its roofs; hollow where it would be if HBM moved no more than it must.

    Args:
        before: the same before a change, on the same roofs: an arrow leads from there.
    """
    launch, ceiling = row.prediction, row.ceiling
    assert launch is not None and ceiling is not None
    rate = launch.traffic.matmul_flop_per_s
    intensity = ceiling.flop / max(1, launch.traffic.hbm_bytes)
    best = ceiling.flop / max(1, ceiling.compulsory_bytes)
    ridge = ceiling.flop_per_s / ceiling.hbm_bytes_per_s
    was = (intensity, rate)
    if before and before.prediction and before.ceiling:
        traffic = before.prediction.traffic
        was = (before.ceiling.flop / max(1, traffic.hbm_bytes), traffic.matmul_flop_per_s)
    low, high = min(intensity, was[0], ridge) / 8, max(best, ridge) * 8
    draw_roofs(ax, low, high, ceiling.hbm_bytes_per_s, ceiling.flop_per_s)
    note = f"tensor cores {units.rate(ceiling.flop_per_s)}"
    ax.annotate(note, (high, ceiling.flop_per_s), (0, 4), textcoords="offset points", ha="right", fontsize=9)
    ax.plot([intensity, best], [rate, rate], color=MUTED, lw=1, ls=(0, (2, 2)))
    ax.scatter([best], [rate], s=60, facecolors=PAPER, edgecolors=ACCENT, zorder=3, gid="least")
    ax.scatter([intensity], [rate], s=70, color=ACCENT, edgecolors=PAPER, zorder=4, gid="launch")
    figures = {"rate": units.rate(rate), "operations per byte": f"{intensity:,.0f}"}
    tips["launch"] = [tip_text(row.name, figures | {"time over the roofline's": times(row.roofline_multiple)})]
    tips["least"] = [tip_text("if HBM moved no more than it must", {"operations per byte": f"{best:,.0f}"})]
    text = f"{units.rate(rate)}\n{times(row.roofline_multiple)} the roofline's time"
    ax.annotate(text, (intensity, rate), (-4, -10), textcoords="offset points", va="top", fontsize=9)
    if before:
        ax.annotate("", (intensity, rate), was, arrowprops={"arrowstyle": "->", "color": INK, "lw": 1.4}, zorder=5)
        ax.scatter([was[0]], [was[1]], s=50, color=MUTED, edgecolors=PAPER, zorder=3, gid="before")
        told = {"rate": units.rate(was[1]), "operations per byte": f"{was[0]:,.0f}"}
        tips["before"] = [tip_text("before", told | {"time over the roofline's": times(before.roofline_multiple)})]
    title = "Roofline, before to after" if before else "Roofline"
    ax.set_title(f"{title}; hollow: if HBM moved only what it must")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One of several bars below each other. Args: text: above it; tip: what it tells when it is pointed at."""

    text: str
    tip: str
    value: float
    color: str = ACCENT


def limit_bars(row: KernelRow) -> list[Bar]:
    """Shares of a launch's time: the roofline's, and what the time goes to, the largest first; little ones left out."""
    launch, ceiling = row.prediction, row.ceiling
    assert launch is not None and ceiling is not None
    share, least = ceiling.bound_s / launch.traffic.time_s, units.duration(ceiling.bound_s)
    bars = [
        Bar(
            text=f"roofline {percent(share)}: {ROOFLINES[ceiling.limit]}",
            tip=tip_text("roofline", {"least time": least, "the launch takes": times(row.roofline_multiple)}),
            value=share,
            color=EDGE,
        )
    ]
    for name, spent in sorted(launch.causes.items(), key=lambda cause: -cause[1]):
        if spent >= LEAST_CAUSE:
            text = f"{name} {percent(spent)}: {cause_text(launch, name)}"
            bars.append(Bar(text=text, tip=tip_text(name, {"of the time": percent(spent)}), value=spent))
    return bars[:MOST_BARS]


def configuration_bars(rows: Sequence[KernelRow]) -> list[Bar]:
    """Times of an autotuned launch's configurations, the fastest first; those that were refused have none."""
    ordered = [rows[place] for place in fastest_first(rows) if rows[place].prediction]
    labels = distinct_labels([row.label for row in ordered])
    bars: list[Bar] = []
    for row, label in zip(ordered[:MOST_BARS], labels, strict=False):
        if row.prediction:
            text = f"{row.time_text}, {bound_text(row.prediction)}: {label.replace(': ', ' ')}"
            bars.append(
                Bar(
                    text=shorten(text, MOST_LETTERS, placeholder=" ..."),
                    tip=tip_text(label, {"time": row.time_text, "HBM": units.traffic(row.traffic.hbm_bytes)}),
                    value=row.traffic.time_s,
                    color=EDGE if bars else ACCENT,
                )
            )
    return bars


def draw_bars(ax: Any, tips: Tips, bars: Sequence[Bar], title: str, text: Callable[[float], str], most: float) -> None:
    """Bars with their words above. Args: text: of a value, on the axis; most: end of the axis."""
    for place, bar in enumerate(bars):
        ax.barh([place], [bar.value], 0.36, color=bar.color, gid=f"bar-{place}")
        size = 8 if len(bar.text) > SMALL_LETTERS else 9
        ax.text(0, place - 0.24, bar.text, va="bottom", fontsize=size, color=INK)
        tips[f"bar-{place}"] = [bar.tip]
    ax.set_yticks([])
    ax.set_xlim(0, most)
    ax.set_ylim(max(LEAST_PLACES, len(bars)) - 0.6, -0.75)
    ax.spines["left"].set_visible(False)
    ax.xaxis.set_major_formatter(ticks(text))
    ax.grid(axis="x")
    ax.set_title(title)
