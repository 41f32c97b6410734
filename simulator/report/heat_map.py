"""A heat map of times over two options, drawn into one pair of axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.colors import LogNorm

from .. import units
from .draw import EMPTY, LIGHT, MUTED, PAPER, Tips

DARK_SHARE = 0.5
"""The share of the colour scale, from its dark end, on which light text reads better."""
ROOMY, CELL_FONT, SMALL_FONT = 7, 9, 7
"""Columns that leave cells room for the larger letters [pt]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell. Args: time_s: None: there is none; text: in its place, or behind it; tip: when it is pointed at."""

    time_s: float | None
    text: str
    tip: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMap:
    """Times over two options.

    Args:
        title: above it; x_label, y_label: names of the options; xs, ys: their values; cells: a row for each y.
    """

    title: str
    x_label: str
    y_label: str
    xs: Sequence[object]
    ys: Sequence[object]
    cells: Sequence[Sequence[Cell]]


def draw_time_map(ax: Any, tips: Tips, time_map: TimeMap) -> None:
    """Times over two options, dark where fast, the best in bold."""
    known = [cell.time_s for row in time_map.cells for cell in row if cell.time_s is not None]
    ax.set_title(time_map.title)
    ax.set_xticks(range(len(time_map.xs)), list(map(str, time_map.xs)))
    ax.set_yticks(range(len(time_map.ys)), list(map(str, time_map.ys)))
    ax.set_xlabel(time_map.x_label)
    ax.set_ylabel(time_map.y_label)
    ax.tick_params(length=0)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    if not known:
        ax.text(0.5, 0.5, "nothing fits", ha="center", va="center", transform=ax.transAxes)
        return
    norm = LogNorm(min(known), max(max(known), min(known) * 1.0001))
    colors = matplotlib.colormaps["YlGnBu_r"]
    places = [(row, column) for row in range(len(time_map.ys)) for column in range(len(time_map.xs))]
    shades = []
    for row, column in places:
        cell = time_map.cells[row][column]
        time_s = cell.time_s
        shades.append(EMPTY if time_s is None else colors(norm(time_s)))
        dark = time_s is not None and norm(time_s) < DARK_SHARE
        ax.text(
            column,
            row,
            cell.text if time_s is None else f"{units.duration(time_s)}{cell.text}",
            ha="center",
            va="center",
            color=LIGHT if dark else MUTED if time_s is None else "#212121",
            fontsize=CELL_FONT if len(time_map.xs) <= ROOMY else SMALL_FONT,
            fontweight="bold" if time_s == min(known) else "normal",
        )
    bars = ax.bar(
        [column for _, column in places], 1, 1, [row - 0.5 for row, _ in places], color=shades, edgecolor=PAPER, lw=1.5
    )
    for bar, (row, column) in zip(bars, places, strict=True):
        bar.set_gid(f"cell-{row}-{column}")
        tips[f"cell-{row}-{column}"] = [time_map.cells[row][column].tip]
    ax.set_xlim(-0.5, len(time_map.xs) - 0.5)
    ax.set_ylim(-0.5, len(time_map.ys) - 0.5)
