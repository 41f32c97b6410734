"""The pictures of a validation: measured against predicted with the worst named, bytes per level, the roofline."""

import json
from collections.abc import Sequence
from html import escape
from math import log10

import plotly.graph_objects as go

from ..simulator import units
from ..simulator.bounds import tensor_peak_flop_per_s
from ..simulator.device import Device
from ..simulator.report import problem_text
from ..simulator.report_draw import INK, axis, div, laid_out, log_ticks
from ..simulator.report_series import LEVELS, color
from .compare import Comparison
from .report import NAMES, error_text, short_config, short_problem, value_text

SCATTERED = ("time_s", "cycles", "hbm_read_bytes", "hbm_write_bytes", "smem_fill_bytes", "fabric_bytes")
WORST = 3
"""Points whose names a scatter shows."""
BAND = 0.10
RATIOS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
NEAR_RATIOS, NEAR = (0.7, 0.8, 0.9, 1.1, 1.25, 1.5), 2.5
"""Where the axis of predicted over measured has ticks, and the others that it has where it reaches no further than so
many times."""
MEASURED_COLOR, PREDICTED_COLOR = "#D55E00", "#0072B2"


def figures(compared: Sequence[Comparison], device: Device) -> list[str]:
    """Sections of HTML; plotly's code must be on the page before them. Args: compared: points that count."""
    shown = [name for name in SCATTERED if any(name in each.errors() for each in compared)]
    sections = [
        "<h2>Predicted over measured</h2><p>At 1 they agree; the grey band is 10 % to either side. "
        f"The {WORST} worst of each picture have numbers and are named below it; hover over any.</p>",
        '<div class="row">',
        *(_scatter(name, compared) for name in shown),
        "</div>",
    ]
    levels = [each for each in compared if any(field in each.pairs for _, field in LEVELS)]
    moved = [each for each in compared if "time_s" in each.pairs and each.point.problem.matmul_flop]
    sections += ["<h2>Where the bytes go, and what bounds the time</h2>", '<div class="row">']
    sections += [_levels(levels)] if levels else []
    sections += [div(_roofline(moved, device), "roofline")] if moved else []
    return [*sections, "</div>"]


def story(each: Comparison) -> str:
    """What hovering over a point tells."""
    lines = [f"<b>{escape(each.point.schedule)}</b> {escape(problem_text(each.point.problem))}"]
    lines.append(f"{escape(short_config(each))}, {each.point.l2} L2")
    for name in SCATTERED:
        if name in each.pairs:
            pair = each.pairs[name]
            told = f"{value_text(name, pair.predicted)} / {value_text(name, pair.measured)}"
            lines.append(f"{NAMES[name]}: {told} ({error_text(pair.relative_error)})")
    return "<br>".join(lines)


def _scatter(name: str, compared: Sequence[Comparison]) -> str:
    """Predicted over measured against measured, of one quantity, and the names of the worst."""
    some = [each for each in compared if name in each.errors() and min(_ends(each, name)) > 0]
    if not some:
        return ""
    worst = sorted(some, key=lambda each: -abs(log10(_ratio(each, name))))[:WORST]
    low, high = (limit(_ends(each, name)[1] for each in some) for limit in (min, max))
    figure = go.Figure()
    figure.add_hrect(y0=1 - BAND, y1=1 + BAND, fillcolor="rgba(140,149,159,0.18)", line_width=0)
    figure.add_hline(y=1, line={"color": INK, "width": 1})
    for schedule in dict.fromkeys(each.point.schedule for each in some):
        own = [each for each in some if each.point.schedule == schedule]
        figure.add_scatter(
            x=[each.pairs[name].measured for each in own],
            y=[_ratio(each, name) for each in own],
            mode="markers+text",
            marker={"color": color(schedule), "size": 7, "opacity": 0.75},
            text=[str(worst.index(each) + 1) if each in worst else "" for each in own],
            textposition="middle right",
            name=escape(schedule),
            customdata=[story(each) for each in own],
            hovertemplate="%{customdata}<extra></extra>",
        )
    reach = max(log10(1.3), *(abs(log10(_ratio(each, name))) for each in some)) * 1.15
    offered = sorted(RATIOS + NEAR_RATIOS) if reach <= log10(NEAR) else RATIOS
    ratios = [ratio for ratio in offered if abs(log10(ratio)) <= reach]
    laid_out(
        figure,
        NAMES[name],
        400,
        xaxis=axis("measured") | log_ticks([low, high], lambda value: value_text(name, value), room=0.1),
        yaxis=axis("predicted / measured", type="log", range=[-reach, reach])
        | {"tickvals": ratios, "ticktext": [f"{ratio:g}" for ratio in ratios]},
        legend={"orientation": "h", "y": -0.22, "x": 0},
    )
    names = "".join(f"<li>{escape(one_line(each))}: {error_text(each.errors()[name])}</li>" for each in worst)
    return f'<div>{div(figure, f"scatter-{name}")}<ol class="muted">{names}</ol></div>'


def one_line(each: Comparison) -> str:
    """A point in one line."""
    return f"{each.point.schedule} {short_problem(each)}, {short_config(each)}, {each.point.l2}"


def _ends(each: Comparison, name: str) -> tuple[float, float]:
    pair = each.pairs[name]
    return pair.predicted, pair.measured


def _ratio(each: Comparison, name: str) -> float:
    predicted, measured = _ends(each, name)
    return predicted / measured


def _levels(compared: Sequence[Comparison]) -> str:
    """Bytes per level of one point, predicted beside measured; a list chooses which. The worst comes first."""

    def worst(each: Comparison) -> float:
        return max((abs(error) for name, error in each.errors().items() if name.startswith("hbm")), default=0.0)

    ordered = sorted(compared, key=worst, reverse=True)
    values = [
        [[getattr(each.pairs[field], side) if field in each.pairs else 0.0 for _, field in LEVELS] for each in ordered]
        for side in ("predicted", "measured")
    ]
    texts = [[[units.traffic(value) for value in own] for own in side] for side in values]
    figure = go.Figure()
    for title, shade, own, text in zip(
        ("predicted", "measured"), (PREDICTED_COLOR, MEASURED_COLOR), values, texts, strict=True
    ):
        figure.add_bar(
            y=[label for label, _ in LEVELS],
            x=own[0],
            orientation="h",
            name=title,
            marker={"color": shade},
            text=text[0],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y}: %{text}<extra></extra>",
        )
    laid_out(
        figure,
        "Bytes per level, predicted and measured",
        470,
        barmode="group",
        bargap=0.3,
        xaxis=axis("bytes moved", rangemode="tozero", showticklabels=False),
        yaxis=axis("", autorange="reversed"),
        legend={"orientation": "h", "y": -0.15, "x": 0},
    ).update_layout(margin={"r": 70})
    options = "".join(f"<option>{escape(one_line(each))}</option>" for each in ordered)
    data = json.dumps([values, texts])
    script = (
        f"{{ const [values, texts] = {data}; document.getElementById('levels-point').onchange = event => {{"
        "const n = event.target.selectedIndex; Plotly.restyle('levels',"
        "{x: values.map(side => side[n]), text: texts.map(side => side[n])}, [0, 1]); }; }"
    )
    return (
        f'<div><select id="levels-point" aria-label="point">{options}</select>{div(figure, "levels")}</div>'
        f"<script>{script}</script>"
    )


def _roofline(compared: Sequence[Comparison], device: Device) -> go.Figure:
    """Each point twice, joined: as predicted and as measured."""
    places = []
    for each in compared:
        assert each.prediction
        flop, own = each.prediction.total.matmul_flop, []
        for side in ("predicted", "measured"):
            pairs = [each.pairs.get(name) for name in ("hbm_read_bytes", "hbm_write_bytes")]
            moved = sum(getattr(pair, side) for pair in pairs if pair) or each.prediction.total.hbm_bytes
            own.append((flop / max(1.0, moved), flop / getattr(each.pairs["time_s"], side)))
        places.append((each, own))
    figure = go.Figure()
    peak, bandwidth = tensor_peak_flop_per_s(device, compared[0].point.problem.dtype), device.hbm_read_bytes_per_s
    xs = [x for _, own in places for x, _ in own]
    ys = [y for _, own in places for _, y in own]
    low, ridge, high = min(xs) / 3, peak / bandwidth, max(*xs, peak / bandwidth) * 3
    roof = {"color": INK, "width": 1.6}
    figure.add_scatter(
        x=[min(low, ridge / 3), ridge, high],
        y=[min(low, ridge / 3) * bandwidth, peak, peak],
        mode="lines",
        line=roof,
        showlegend=False,
        hoverinfo="skip",
    )
    joins_x, joins_y = ([value for _, own in places for value in (own[0][k], own[1][k], None)] for k in (0, 1))
    join = {"color": "#8c959f", "width": 0.8}
    figure.add_scatter(x=joins_x, y=joins_y, mode="lines", line=join, showlegend=False, hoverinfo="skip")
    for place, (title, shade) in enumerate((("predicted", PREDICTED_COLOR), ("measured", MEASURED_COLOR))):
        figure.add_scatter(
            x=[own[place][0] for _, own in places],
            y=[own[place][1] for _, own in places],
            mode="markers",
            marker={"color": shade, "size": 7, "opacity": 0.7},
            name=title,
            customdata=[story(each) for each, _ in places],
            hovertemplate="%{customdata}<extra></extra>",
        )
    return laid_out(
        figure,
        "Roofline, each point as predicted and as measured",
        500,
        xaxis=axis("matrix-product FLOP per byte at HBM", type="log", dtick=1),
        yaxis=axis("achieved rate") | log_ticks([*ys, peak], units.rate, room=0.2),
        legend={"orientation": "h", "y": -0.15, "x": 0},
    )
