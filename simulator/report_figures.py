"""The pictures of the HTML report, drawn by plotly in the browser."""

from collections.abc import Sequence
from html import escape
from math import log10 as log
from typing import Any

import plotly.graph_objects as go

from . import units
from .candidate import Candidate
from .explore import Exploration
from .report import bound_text, config_text
from .report_draw import INK, MUTED, axis, div, laid_out, log_ticks
from .report_series import (
    HeatMap,
    best_of_each,
    bytes_per_level,
    color,
    decades,
    heat_maps,
    intensity_flop_per_byte,
    multiplies,
    roofs,
)

DARK_SHARE = 0.5
"""The share of the colour scale, from its dark end, on which white text reads better."""


def figures(found: Exploration) -> list[str]:
    """Sections of HTML, each with its pictures; plotly's code must be on the page before them."""
    maps = heat_maps(found)
    sections = []
    if maps:
        sections += [
            "<h2>Block sizes</h2><p>Best time for each pair of block sizes over all other options; dark is fast.</p>"
        ]
        sections += ['<div class="row">', *(div(_heat_map(one), f"heat-{one.schedule}") for one in maps), "</div>"]
    if not best_of_each(found):
        return sections
    roofline = [div(_roofline(found), "roofline")] if multiplies(found) else []
    sections += [
        f"<h2>Where the bytes go{', and what bounds the time' if roofline else ''}</h2>",
        '<div class="row">',
        div(_levels(found), "levels"),
        *roofline,
        "</div>",
    ]
    return sections


def _story(item: Candidate | None) -> str:
    """What hovering over a configuration tells."""
    if item is None:
        return "not in the space"
    name = escape(f"{item.schedule} {config_text(item.config_dict())}")
    if item.prediction is None:
        return f"{name}<br>does not fit: {escape(item.reason)}"
    total = item.prediction.total
    return (
        f"{name}<br><b>{units.duration(total.time_s)}</b>, bound by {bound_text(item.prediction)}<br>"
        f"into the SMs {units.traffic(total.smem_fill_bytes)}, HBM {units.traffic(total.hbm_bytes)}<br>"
        f"{units.rate(total.matmul_flop_per_s)}"
    )


def _heat_map(one: HeatMap) -> go.Figure:
    times = one.times_s
    known = [value for row in times for value in row if value is not None]
    figure = go.Figure(
        go.Heatmap(
            z=[[None if value is None else log(value) for value in row] for row in times],
            customdata=[[_story(item) for item in row] for row in one.cells],
            hovertemplate="%{customdata}<extra></extra>",
            colorscale="YlGnBu",
            reversescale=True,
            showscale=False,
            xgap=2,
            ygap=2,
        )
    )
    for y, row in enumerate(times):
        for x, value in enumerate(row):
            figure.add_annotation(x=x, y=y, showarrow=False, **_cell(value, known))
    return laid_out(
        figure,
        one.schedule,
        400,
        xaxis=axis("block_n (rows of a key tile)") | _block_ticks(one.block_n),
        yaxis=axis("block_m (rows of a query tile)") | _block_ticks(one.block_m),
    )


def _block_ticks(sizes: Sequence[int]) -> dict[str, Any]:
    return {
        "tickvals": list(range(len(sizes))),
        "ticktext": list(map(str, sizes)),
        "showgrid": False,
        "linecolor": "white",
    }


def _cell(value: float | None, known: list[float]) -> dict[str, Any]:
    """Text of a cell, light on dark cells. Args: value: time [s], None where nothing fits; known: times of the map."""
    if value is None:
        return {"text": "no fit", "font": {"color": "#8c959f"}}
    best, worst = min(known), max(known)
    dark = best == worst or log(value / best) / log(worst / best) < DARK_SHARE
    text = units.duration(value)
    return {"text": f"<b>{text}</b>" if value == best else text, "font": {"color": "white" if dark else INK}}


def _levels(found: Exploration) -> go.Figure:
    figure = go.Figure()
    best = {name: bytes_per_level(prediction.total) for name, prediction in best_of_each(found).items()}
    amounts_seen = [value for amounts in best.values() for value in amounts.values()]
    ticks = decades(amounts_seen)
    for name, amounts in best.items():
        figure.add_bar(
            y=list(amounts),
            x=[max(value, ticks[0] * 1.01) for value in amounts.values()],  # nothing at all still gets its label
            orientation="h",
            name=name,
            marker={"color": color(name)},
            text=[units.traffic(value) for value in amounts.values()],
            textposition="outside",
            textfont={"size": 10},
            cliponaxis=False,
            hovertemplate=f"{escape(name)} %{{y}}: %{{text}}<extra></extra>",
        )
    return laid_out(
        figure,
        "Bytes per level, best configuration of each schedule",
        480,
        barmode="group",
        bargap=0.25,
        xaxis=axis("bytes moved (logarithmic)") | log_ticks(amounts_seen, units.traffic, room=0.4),
        yaxis=axis("", autorange="reversed"),
        legend={"orientation": "h", "y": -0.2, "x": 0},
    )


def _roofline(found: Exploration) -> go.Figure:
    lines, best = roofs(found), best_of_each(found)
    shown = [item for item in found.ranked if item.prediction]
    totals = [item.prediction.total for item in shown if item.prediction]
    xs = [intensity_flop_per_byte(total) for total in [*totals, *(one.total for one in best.values())]]
    ridge = lines.peak_flop_per_s / lines.hbm_bytes_per_s
    low, high = min([*xs, 10.0]) / 3, max([*xs, ridge]) * 3
    rates = [total.matmul_flop_per_s for total in [*totals, *(one.total for one in best.values())]]
    figure = go.Figure()

    def line(x: list[float], y: list[float], text: str, dash: str = "solid") -> None:
        style = {"color": INK, "width": 1.6, "dash": dash}
        figure.add_scatter(x=x, y=y, mode="lines", line=style, name=text, showlegend=False, hoverinfo="name")

    line([low, ridge], [low * lines.hbm_bytes_per_s, lines.peak_flop_per_s], "HBM")
    line([ridge, high], [lines.peak_flop_per_s] * 2, "tensor cores at the boost clock")
    sustained = lines.sustained_flop_per_s
    line([sustained / lines.hbm_bytes_per_s, high], [sustained] * 2, "at the clock that power sustains", "dash")
    for name in dict.fromkeys(item.schedule for item in shown):
        some = [(item, item.prediction.total) for item in shown if item.schedule == name and item.prediction]
        figure.add_scatter(
            x=[intensity_flop_per_byte(total) for _, total in some],
            y=[total.matmul_flop_per_s for _, total in some],
            mode="markers",
            marker={"color": color(name), "size": 6, "opacity": 0.35},
            customdata=[_story(item) for item, _ in some],
            hovertemplate="%{customdata}<extra></extra>",
            showlegend=False,
        )
    for name, one in best.items():
        figure.add_scatter(
            x=[intensity_flop_per_byte(one.total)],
            y=[one.total.matmul_flop_per_s],
            mode="markers",
            marker={"color": color(name), "size": 13, "line": {"color": "white", "width": 1.5}},
            name=f"best {escape(name)}: {units.duration(one.time_s)}",
            hovertemplate=f"{escape(name)}<extra></extra>",
        )
    peak_text = (
        f"tensor cores {units.rate(lines.peak_flop_per_s)}; dashed: {units.rate(sustained)} at the sustained clock"
    )
    note: dict[str, Any] = {"showarrow": False, "font": {"size": 11, "color": MUTED}}
    figure.add_annotation(
        x=log(high), y=log(lines.peak_flop_per_s), text=peak_text, xanchor="right", yanchor="bottom", **note
    )
    figure.add_annotation(
        x=log(low),
        y=log(low * lines.hbm_bytes_per_s),
        text=f"HBM {units.bandwidth(lines.hbm_bytes_per_s)}",
        xanchor="left",
        yanchor="top",
        xshift=18,
        **note,
    )
    return laid_out(
        figure,
        "Roofline: all configurations; large: the best of each schedule",
        480,
        xaxis=axis("matrix-product FLOP per byte at HBM", type="log", range=[log(low), log(high)], dtick=1),
        yaxis=axis("achieved rate") | log_ticks([*rates, lines.peak_flop_per_s], units.rate, room=0.2),
        legend={"orientation": "h", "y": -0.2, "x": 0},
    )
