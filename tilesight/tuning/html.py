"""Tuned launches as one HTML file that opens offline."""

from html import escape

from ..simulator.report.page import Made, items, page, table_of
from .pictures import pictures
from .report import configured_columns, heading, remarks
from .tuning import Tuning


def tuning_html(tuning: Tuning, made: Made) -> str:
    """The page. Args: made: what its foot tells."""
    sections = [
        f"<h1>{escape(tuning.target)}</h1>",
        f'<p class="missed">{escape(tuning.incomplete)}</p>' if tuning.incomplete else "",
        '<p class="muted">Predicted by Tilesight, without a GPU.</p>',
    ]
    for number, launch in enumerate(tuning.launches):
        sections.append(f"<h2>{escape(heading(tuning, launch))}</h2>")
        sections += pictures(launch, number)
        if launch.predicted:
            sections.append(table_of(configured_columns(launch, launch.predicted)))
        sections.append(items([": ".join(line.split(maxsplit=1)) for line in remarks(launch, len(launch.predicted))]))
    sections.append(items([f"Note: {note}" for note in tuning.notes]))
    return page(f"Tilesight: {tuning.target}", sections, made, [("device", tuning.device)])
