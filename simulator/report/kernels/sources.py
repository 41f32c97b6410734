"""Source lines of launches as HTML, the hotter the more time warps spend at them.

In: simulated launches, their device, and the rows that a page shows. Out: a table for each.
"""

import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path

from ...device.device import Device
from ...display.render import percent
from ...explain import REASONS, explain_launch
from ...explain_kernels import SourceLine, sources_of
from ...predict_kernels import SimulatedKernels
from ..explain import MEANINGS
from ..page import table

LEAST_TIME = 0.0005
"""Share of a launch's time below which a line is as cold as one without code."""
MOST_BETWEEN = 12
"""Lines without code that stand between two with code, at most: beyond, they are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """Where warps of a launch spend their time. Args: sources: lines with code; total_cycles: of all warps."""

    sources: tuple[SourceLine, ...]
    total_cycles: float


def heat_of(simulated: SimulatedKernels, row: int, device: Device) -> Heat | None:
    """The source lines of a launch with their time; None where no code was followed. Args: row: its number."""
    kernel, launch, prediction = (
        simulated.compiled[row],
        simulated.launches[row],
        simulated.prediction.rows[row].prediction,
    )
    if kernel is None or launch is None or prediction is None:
        return None
    explained = explain_launch(launch, prediction, device)
    if not explained.warp_cycles:
        return None
    return Heat(sources=sources_of(explained.lines, kernel), total_cycles=explained.warp_cycles)


def heat_html(heat: Heat) -> str:
    """Each file's lines from the first with code to the last, shaded by time; long stretches without code left out."""
    pieces = []
    for file, lines in groupby((source for source in heat.sources if source.file), key=lambda source: source.file):
        by_number = {source.number: source for source in lines}
        numbers = _numbers(sorted(by_number))
        rows = [_row(number, file, by_number.get(number), heat.total_cycles) for number in numbers]
        name = Path(file).name
        pieces.append(table(("line", "time", name, "waited for", "mostly"), rows, (name, "mostly")))
    named = {_mostly(source) for source in heat.sources if source.total_cycles >= LEAST_TIME * heat.total_cycles}
    meanings = "; ".join(f"{reason}: {MEANINGS[reason]}" for reason in REASONS if reason in named)
    return "".join(pieces) + f'<p class="muted">{escape(meanings)}.</p>'


def _numbers(coded: Sequence[int]) -> list[int]:
    """Numbers of lines that are shown. Args: coded: those with code, in order."""
    shown: list[int] = []
    for number in coded:
        between = range(shown[-1] + 1, number) if shown else ()
        shown += [*(between if len(between) <= MOST_BETWEEN else ()), number]
    return shown


def _row(number: int, file: str, source: SourceLine | None, total_cycles: float) -> list[str]:
    """Cells of one line."""
    code = f"<code>{escape(linecache.getline(file, number).rstrip())}</code>"
    spent, waited = (
        (source.total_cycles / total_cycles, source.others_wait_cycles / total_cycles) if source else (0.0, 0.0)
    )
    heat = f' style="--heat: {100 * spent:.1f}%"' if spent >= LEAST_TIME else ""
    shade = "heat" if heat else ""
    return [
        f"<td>{number}</td>",
        f'<td class="{shade}"{heat} data-key="{spent:.5f}">{_shown(spent)}</td>',
        f'<td class="left {shade}"{heat}>{code}</td>',
        f'<td data-key="{waited:.5f}">{_shown(waited)}</td>',
        f'<td class="left">{escape(_mostly(source)) if source and heat else ""}</td>',
    ]


def _shown(share: float) -> str:
    return percent(share) if share >= LEAST_TIME else ""


def _mostly(source: SourceLine) -> str:
    """What warps do at a line most of their time."""
    return max(source.warp_cycles, key=source.warp_cycles.__getitem__)
