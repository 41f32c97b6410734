"""What the pictures of HTML reports share: frame, axes, ticks, colours of ink and grid."""

from collections.abc import Callable, Sequence
from html import escape
from math import log10 as log
from typing import Any

import plotly.graph_objects as go

from .report_series import axis_text, decades

INK, GRID, MUTED = "#1f2328", "#e6e8eb", "#57606a"
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def div(figure: go.Figure, name: str) -> str:
    """A picture as a piece of HTML; plotly's code must be on the page before it. Args: name: its id on the page."""
    config = {"displayModeBar": False, "responsive": True}
    html: str = figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=config)
    return f"<div>{html}</div>"


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis in the style of all pictures. Args: more: what plotly calls its other properties."""
    base = {
        "title": {"text": title, "font": {"size": 13}, "standoff": 10},
        "gridcolor": GRID,
        "linecolor": "#8c959f",
        "zeroline": False,
    }
    return base | {"automargin": True} | more


def laid_out(figure: go.Figure, title: str, height: int, **more: Any) -> go.Figure:
    """The picture in the style of all, with its title. Args: height [px]; more: properties of plotly's layout."""
    figure.update_layout(
        template="none",
        title={"text": f"<b>{escape(title)}</b>", "x": 0, "xref": "container", "font": {"size": 15}},
        font={"family": FONT, "size": 12, "color": INK},
        paper_bgcolor="white",
        plot_bgcolor="white",
        height=height,
        margin={"l": 64, "r": 16, "t": 44, "b": 52},
        hoverlabel={"bgcolor": "white", "font": {"color": INK, "family": FONT}},
        **more,
    )
    return figure


def log_ticks(values: Sequence[float], text: Callable[[float], str], room: float) -> dict[str, Any]:
    """A logarithmic axis that holds these values. Args: room: decades left free at the end."""
    ticks = decades(values)
    texts = [axis_text(text(tick)) for tick in ticks]
    return {"type": "log", "tickvals": ticks, "ticktext": texts, "range": [log(ticks[0]), log(max(values)) + room]}
