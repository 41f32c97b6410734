"""Source lines of launches as HTML, the hotter the more time warps spend at them.

In: simulated launches, their device, and the rows that a page shows. Out: a table for each.
"""

from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from ...device.device import Device
from ...display.render import percent
from ...explain import explain_launch
from ...launch.code import source_text
from ...predict_kernels import SimulatedKernels
from ...prediction.explanation import REASONS, CodePart
from ..explain import MEANINGS
from ..page import cell, table

LEAST_TIME = 0.0005
"""Share of a launch's time below which a line is as cold as one without code."""
MOST_BETWEEN = 12
"""Lines without code that stand between two with code, at most: beyond, they are left out."""


Heat = CodePart
"""The code of a launch, with the time that warps spend at each instruction."""


def heat_of(simulated: SimulatedKernels, row: int, device: Device) -> Heat | None:
    """The code of a launch with its time; None where no code was followed. Args: row: its number."""
    launch, prediction = simulated.launches[row], simulated.prediction.rows[row].prediction
    if launch is None or prediction is None:
        return None
    code = explain_launch(launch, prediction, device).code
    return code if code.warp_cycles else None


def heat_html(heat: Heat) -> str:
    """Each file's lines from the first with code to the last, shaded by time; long stretches without code left out."""
    sources = {place: part for place, part in heat.by(lambda line: line.source).items() if place[0]}
    pieces = []
    for file, places in groupby(sources, key=lambda place: place[0]):
        coded = {number: sources[file, number] for _, number in places}
        rows = [_row(number, file, coded.get(number), heat.warp_cycles) for number in shown_numbers(sorted(coded))]
        name = Path(file).name
        pieces.append(table(("line", "time", name, "waited for", "mostly"), rows, (name, "mostly")))
    named = {_mostly(part) for part in sources.values() if part.warp_cycles >= LEAST_TIME * heat.warp_cycles}
    meanings = "; ".join(f"{reason}: {MEANINGS[reason]}" for reason in REASONS if reason in named)
    return "".join(pieces) + f'<p class="muted">{escape(meanings)}.</p>'


def shown_numbers(coded: Sequence[int]) -> list[int]:
    """Numbers of lines that are shown. Args: coded: those with code, in order."""
    shown: list[int] = []
    for number in coded:
        between = range(shown[-1] + 1, number) if shown else ()
        shown += [*(between if len(between) <= MOST_BETWEEN else ()), number]
    return shown


def _row(number: int, file: str, source: CodePart | None, total_cycles: float) -> list[str]:
    """Cells of one line."""
    spent, waited = (
        (source.warp_cycles / total_cycles, source.others_wait_cycles / total_cycles) if source else (0.0, 0.0)
    )
    mostly = _mostly(source) if source and spent >= LEAST_TIME else ""
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


def _mostly(source: CodePart) -> str:
    """What warps do at a line most of their time."""
    cycles = source.cycles_by_reason
    return max(cycles, key=cycles.__getitem__)
