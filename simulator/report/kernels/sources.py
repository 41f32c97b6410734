"""Source lines of launches as HTML, the hotter the more time warps spend at them."""

from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from ...display.render import percent
from ...launch.code import source_text
from ...prediction.explanation import REASONS
from ...prediction.kernel_row import SourceTime
from ..explain import MEANINGS
from ..page import cell, table

LEAST_TIME = 0.0005
"""Share of a launch's time below which a line is as cold as one without code."""
MOST_BETWEEN = 12
"""Lines without code that stand between two with code, at most: beyond, they are left out."""


def heat_html(lines: Sequence[SourceTime]) -> str:
    """Each file's lines from the first with code to the last, shaded by time; long stretches without code left out."""
    pieces = []
    for file, of_file in groupby(lines, key=lambda line: line.file):
        coded = {line.number: line for line in of_file}
        rows = [_row(number, file, coded.get(number)) for number in shown_numbers(sorted(coded))]
        name = Path(file).name
        pieces.append(table(("line", "time", name, "waited for", "mostly"), rows, (name, "mostly")))
    named = {line.reason for line in lines if line.time_fraction >= LEAST_TIME}
    meanings = "; ".join(f"{reason}: {MEANINGS[reason]}" for reason in REASONS if reason in named)
    return "".join(pieces) + f'<p class="muted">{escape(meanings)}.</p>'


def shown_numbers(coded: Sequence[int]) -> list[int]:
    """Numbers of lines that are shown. Args: coded: those with code, in order."""
    shown: list[int] = []
    for number in coded:
        between = range(shown[-1] + 1, number) if shown else ()
        shown += [*(between if len(between) <= MOST_BETWEEN else ()), number]
    return shown


def _row(number: int, file: str, source: SourceTime | None) -> list[str]:
    """Cells of one line."""
    spent, waited = (source.time_fraction, source.awaited_fraction) if source else (0.0, 0.0)
    mostly = source.reason if source and spent >= LEAST_TIME else ""
    return [
        cell(str(number)),
        *heat_cells(spent, source_text((file, number))),
        cell(_shown(waited), round(waited, 5)),
        cell(mostly, kind="left"),
    ]


def heat_cells(spent: float, text: str) -> list[str]:
    """Cells of a line, shaded: its share of the time, and its text. Args: spent: that share."""
    heat = f' style="--heat: {100 * spent:.1f}%"' if spent >= LEAST_TIME else ""
    shade = "heat" if heat else ""
    return [
        f'<td class="{shade}"{heat} data-key="{spent:.5f}">{_shown(spent)}</td>',
        f'<td class="left {shade}"{heat}><code>{escape(text)}</code></td>',
    ]


def _shown(share: float) -> str:
    return percent(share) if share >= LEAST_TIME else ""
