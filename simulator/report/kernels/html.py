"""Launches of a user's kernels as one HTML file that opens offline: tables, pictures and source of the longest."""

from collections.abc import Sequence
from html import escape

from ...display.columns import Column
from ...display.render import percent
from ...prediction.kernel_table import bytes_line, configuration_columns, launch_columns
from ...prediction.kernels import KernelsPrediction
from ..page import Made, items, page, table_of
from .pictures import pictures
from .sources import heat_html
from .text import comparison, side_by_side

TRUST = (
    "How far to trust a time: of 59 launches of public kernels that were predicted before they were measured, half were"
    " within 5 % (H100) and 6 % (H200), two of three within 12 %; the worst was predicted at five times its time."
)
"""Source: docs/accuracy.md, the seventh round of kernels of others."""
HEATS = "Of all time of the warps of a full SM: spent at the line, and waited for its results elsewhere."


def kernels_html(predictions: Sequence[KernelsPrediction], target: str, made: Made) -> str:
    """The page.

    Args:
        predictions: one a device; target: function that made the launches; made: what its foot tells.
    """
    sections = [
        f"<h1>{escape(target)}</h1>",
        f'<p class="muted">Predicted by Tilesight, without a GPU. {TRUST}</p>',
    ]
    if len(predictions) > 1:
        sections += [f"<h2>Each device</h2>{table_of(columns)}" for columns in (comparison(predictions),) if columns]
        sections += [f"<h2>Each launch</h2>{table_of(columns)}" for columns in (side_by_side(predictions),) if columns]
    for prediction in predictions:
        sections += [f"<p>{escape(line)}</p>" for line in prediction.heading[:-1]]
        sections.append(f"<h2>{escape(prediction.title)}</h2>")
        if prediction.is_predicted:
            sections.append(table_of(sorted(launch_columns(prediction.rows), key=_place)))
        sections.append(items(prediction.labelled_remarks))
        for number in prediction.dominant:
            sections += _launch(prediction, number)
        for name, rows in prediction.tuned:
            sections += [f"<h2>Configurations of {escape(name)}</h2>", table_of(configuration_columns(rows))]
    return page(f"Tilesight: {target}", sections, made, [("device", prediction.device) for prediction in predictions])


def _place(column: Column) -> tuple[bool, int]:
    """What comes first on a narrow screen: names and times, then what stays in a narrow terminal."""
    return column.title not in ("launch", "time"), column.rank


def _launch(prediction: KernelsPrediction, number: int) -> list[str]:
    """Pictures of one launch, and its source."""
    row, configurations = prediction.rows[number], dict(prediction.configurations).get(number, ())
    lines = dict(prediction.sources).get(number, ())
    share = percent(row.traffic.time_s / prediction.total.time_s)
    moved = bytes_line(row) if row is not prediction.longest else ""
    return [
        f"<h2>Launch {number + 1}: {escape(row.name)}, {escape(row.time_text)}, {share} of all</h2>",
        f"<p>{escape(moved)}.</p>" if moved else "",
        *pictures(row, configurations, f"{prediction.device}-{number}"),
        f'<h3>Where its time goes, by source line</h3><p class="muted">{HEATS}</p>{heat_html(lines)}' if lines else "",
    ]
