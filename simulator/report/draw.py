"""How pictures are drawn: one style, and a matplotlib figure as a PNG file or as a piece of HTML whose marks tell."""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from io import BytesIO
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from .. import units
from .series import axis_text

INK, MUTED, EDGE, GRID, PAPER, EMPTY = "#222222", "#666666", "#888888", "#e3e3e3", "#ffffff", "#f0f0f0"
LIGHT = "#fefefe"
"""Text on dark cells, whatever the page is like."""
ACCENT, BAD = "#0072b1", "#b42318"
PAGE_COLORS = {
    **{INK: "ink", MUTED: "muted", EDGE: "edge", GRID: "line", PAPER: "paper", EMPTY: "empty"},
    **{ACCENT: "accent", BAD: "bad"},
}
"""Colour of a picture -> variable of the page's style sheet, which follows the reader's light or dark scheme."""
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    # A dollar sign in the name of a device is a dollar sign.
    "text.parse_math": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": EDGE,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",
}
SVG = "{http://www.w3.org/2000/svg}"
PANEL_INCHES = (6.6, 4.7)
"""A picture of a page, two of which fit side by side."""
WIDE_INCHES = (13.4, 4.7)
"""One that stands alone."""

Tips = dict[str, Sequence[str]]
"""Name of a set of marks (matplotlib's gid) -> what each of them tells when it is pointed at, in the order drawn."""


def png(figure: Figure) -> bytes:
    """A figure as a PNG file, the same every time."""
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=130, metadata={"Software": None})
    return stream.getvalue()


def panel(name: str, draw: Callable[[Any, Tips], None], inches: tuple[float, float] = PANEL_INCHES) -> str:
    """A picture of one pair of axes as a piece of HTML. Args: name: its id on the page; draw: fills axes and tips."""
    tips: Tips = {}
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": name}):
        figure = Figure(figsize=inches, layout="constrained")
        draw(figure.subplots(), tips)
        stream = BytesIO()
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return f'<div class="picture" id="{escape(name)}">{_inline(stream.getvalue(), name, tips)}</div>'


def _inline(svg: bytes, name: str, tips: Tips) -> str:
    """SVG that can stand in a page: ids that no other picture has, colours of the page, and tips at its marks."""
    ElementTree.register_namespace("", SVG[1:-1])
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(svg)
    for metadata in root.findall(f"{SVG}metadata"):
        root.remove(metadata)
    for gid, texts in tips.items():
        (group,) = (element for element in root.iter(f"{SVG}g") if element.get("id") == gid)
        marks = _marks(group)
        if len(marks) != len(texts):
            raise AssertionError(f"{name}: {len(marks)} marks of {gid}, {len(texts)} tips")
        for mark, text in zip(marks, texts, strict=True):
            mark.set("data-tip", text)
    used = set(
        re.findall(r"#([\w-]+)", " ".join(value for element in root.iter() for value in element.attrib.values()))
    )
    for element in root.iter():
        identifier = element.attrib.pop("id", None)
        if identifier in used:
            element.set("id", f"{name}-{identifier}")
    del root.attrib["width"], root.attrib["height"]
    root.set("role", "img")
    text = ElementTree.tostring(root, encoding="unicode")
    text = re.sub(rf"(url\(#|href=\"#)({'|'.join(map(re.escape, sorted(used)))})\b", rf"\g<1>{name}-\2", text)
    return re.sub(r"#[0-9a-f]{6}\b", lambda hit: _page_color(hit[0]), text)


def _marks(group: ElementTree.Element) -> list[ElementTree.Element]:
    """What is drawn of a set of marks, in order; definitions of shapes left out."""
    marks = []
    for element in group:
        if element.tag in (f"{SVG}use", f"{SVG}path"):
            marks.append(element)
        elif element.tag == f"{SVG}g":
            marks += _marks(element)
    return marks


def _page_color(color: str) -> str:
    return f"var(--{PAGE_COLORS[color]})" if color in PAGE_COLORS else color


def ticks(text: Callable[[float], str]) -> FuncFormatter:
    """Tick labels in human units, without zeros after the point."""
    return FuncFormatter(lambda value, _: axis_text(text(value)))


def log_axis(axis: Any, text: Callable[[float], str]) -> None:
    """Ticks of a logarithmic axis: a label each decade; where it holds less than two of them, also at 2 and 5."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0,) if high / low >= 100 else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(ticks(text))
    axis.set_minor_formatter(NullFormatter())


def legend_below(ax: Any, columns: int = 4) -> None:
    """A legend under the axes, where it hides nothing. Args: columns: entries side by side."""
    if ax.get_legend_handles_labels()[0]:
        ax.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.13),
            ncols=columns,
            columnspacing=1,
            handletextpad=0.4,
            fontsize=9,
        )


def draw_capacity(ax: Any, capacity_bytes: float) -> None:
    """A line at the memory of the device."""
    ax.axhline(capacity_bytes, color=INK, lw=1.1, ls=(0, (4, 3)))
    text = f"device memory {units.capacity(capacity_bytes)}"
    place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "ha": "right"}
    ax.annotate(text, (1, capacity_bytes), (-6, 4), fontsize=8, **place)


def tip_text(title: str, figures: Mapping[str, str]) -> str:
    """What a mark tells: a title, and a line for each figure."""
    return "\n".join((title, *(f"{name}: {value}" for name, value in figures.items())))
