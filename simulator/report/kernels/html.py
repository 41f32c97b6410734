"""Launches of a user's kernels as one HTML file that opens offline: the tables of the terminal, with all columns."""

from collections.abc import Sequence
from html import escape

from ...display.columns import Column
from ...prediction.kernel_table import configuration_columns, launch_columns
from ...prediction.kernels import KernelsPrediction
from ..page import Made, cell, items, page, table
from .text import comparison, side_by_side


def kernels_html(predictions: Sequence[KernelsPrediction], target: str, made: Made) -> str:
    """The page. Args: predictions: one a device; target: function that made the launches; made: what its foot tells."""
    sections = [
        f"<h1>{escape(target)}</h1>",
        '<p class="muted">Predicted by Tilesight, without a GPU.</p>',
    ]
    if len(predictions) > 1:
        sections += [f"<h2>Each device</h2>{_table(columns)}" for columns in (comparison(predictions),) if columns]
        sections += [f"<h2>Each launch</h2>{_table(columns)}" for columns in (side_by_side(predictions),) if columns]
    for prediction in predictions:
        sections += [f"<p>{escape(line)}</p>" for line in prediction.heading[:-1]]
        sections.append(f"<h2>{escape(prediction.title)}</h2>")
        if prediction.is_predicted:
            sections.append(_table(launch_columns(prediction.rows)))
        for name, rows in prediction.tuned:
            sections += [f"<h3>Configurations of {escape(name)}</h3>", _table(configuration_columns(rows))]
        sections.append(items(prediction.labelled_remarks))
    return page(f"Tilesight: {target}", sections, made, [("device", prediction.device) for prediction in predictions])


def _table(columns: Sequence[Column]) -> str:
    kinds = ["left" if column.left else "" for column in columns]
    rows = [
        [cell(text, kind=kind) for text, kind in zip(texts, kinds, strict=True)]
        for texts in zip(*(column.cells for column in columns), strict=True)
    ]
    return table([column.title for column in columns], rows, tuple(column.title for column in columns if column.left))
