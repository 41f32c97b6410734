"""Source of a launch before and after, line beside line: what each executes, and which lines changed."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import cache
from html import escape
from itertools import product, zip_longest

from ...simulator import units
from ...simulator.report.kernels.sources import heat_cells
from ...simulator.report.page import table
from ..difference import Pair
from ..matching import aligned
from ..side import SourceLine
from ..source_change import differing

LEAST_ALIKE = 0.6
"""Likeness of two lines, from 0 to 1, from which on one is the other, edited."""
MOST_COMPARED = 10_000
"""Pairs of lines between two that are equal: of longer stretches none answers another."""
MOST_TOLD = 8
"""Families of instructions that a line tells when it is pointed at."""
SAYS = (
    "Shaded by the share of the warps' time; ~ marks a line that was edited, − one that is gone, + a new one; executed"
    " instructions are green where they are fewer, red where they are more (point at them)."
)
Beside = tuple[SourceLine | None, SourceLine | None]
"""Lines that answer each other; None where there is no other."""


def source_html(pair: Pair, heads: tuple[str, str]) -> str:
    """Both sides, file by file. Args: heads: what stands above each."""
    old, new = (side.lines if side else () for side in (pair.old, pair.new))
    pieces = []
    for side, head in zip((pair.old, pair.new), heads, strict=True):
        if side and side.row.prediction and (lacks := _lacks(side.lines)):
            pieces.append(f'<p class="muted">{escape(head)}: {lacks}.</p>')
    if not old and not new:
        return "".join(pieces)
    for files in _files(old, new):
        lines = beside(
            *([line for line in part if line.file == file] for part, file in zip((old, new), files, strict=True))
        )
        tables = [
            f"<div><h3>{escape(head)}</h3>{_table(file, lines, place)}</div>" if file else "<div></div>"
            for place, (file, head, side) in enumerate(zip(files, heads, (pair.old, pair.new), strict=True))
            if side
        ]
        pieces.append(f'<div class="row beside">{"".join(tables)}</div>')
    return f'<h3>Source, and where its time goes</h3><p class="muted">{SAYS}</p>{"".join(pieces)}'


def _lacks(lines: Sequence[SourceLine]) -> str:
    """What cannot be shown of a side; empty where all can."""
    if not lines:
        return "no source, as nobody knows how often its instructions run"
    return "" if any(line.time_fraction for line in lines) else "not shaded, as nobody knows the time at its lines"


def _files(old: Sequence[SourceLine], new: Sequence[SourceLine]) -> list[tuple[str, str]]:
    """Names of files that answer each other: of the same name, else in order; empty where there is no other."""
    before, after = (list(dict.fromkeys(line.file for line in lines if line.file)) for lines in (old, new))
    steps = aligned(before, after, lambda file: file)
    return [
        ("" if old_place is None else before[old_place], "" if new_place is None else after[new_place])
        for olds, news in steps
        for old_place, new_place in zip_longest(olds, news)
    ]


def beside(old: Sequence[SourceLine], new: Sequence[SourceLine]) -> list[Beside]:
    """Lines of a file that answer each other, in order; between equal ones the likest do."""
    pairs: list[Beside] = []
    for olds, news in aligned(old, new, lambda line: line.text.strip()):
        pairs += _likest([old[place] for place in olds], [new[place] for place in news])
    return pairs


def _likest(old: Sequence[SourceLine], new: Sequence[SourceLine]) -> list[Beside]:
    """Two stretches beside each other: the two lines that are most alike, and so on before and behind them."""
    places = product(range(len(old)), range(len(new))) if len(old) * len(new) <= MOST_COMPARED else ()
    alike = {(i, j): _likeness(old[i].text.strip(), new[j].text.strip()) for i, j in places}
    i, j = max(alike, key=lambda place: alike[place], default=(-1, -1))
    if alike.get((i, j), 0.0) < LEAST_ALIKE:
        return [*((line, None) for line in old), *((None, line) for line in new)]
    return [*_likest(old[:i], new[:j]), (old[i], new[j]), *_likest(old[i + 1 :], new[j + 1 :])]


@cache
def _likeness(old: str, new: str) -> float:
    return SequenceMatcher(None, old, new, autojunk=False).ratio()


def _table(file: str, pairs: Sequence[Beside], place: int) -> str:
    """One side. Args: place: 0 for the old one, 1 for the new one."""
    alone = all(pair[1 - place] is None for pair in pairs)
    rows = [_row(pair, place, alone) for pair in pairs]
    kinds = ["" if pair[place] else "filler" for pair in pairs]
    return table(("line", "executed", "time", file), rows, (file,), kinds, sorts=False)


def _row(pair: Beside, place: int, alone: bool) -> list[str]:
    """Cells of a line. Args: alone: whether nothing stands on the other side, so that no line is marked."""
    line, other = pair[place], pair[1 - place]
    if line is None:
        return ["<td></td>", "<td></td>", "<td></td>", "<td><code>&nbsp;</code></td>"]
    kind, mark = "", ""
    if other is None and not alone:
        kind, mark = ("added", "+ ") if place else ("gone", "− ")
    elif other and other.text.rstrip() != line.text.rstrip():
        kind, mark = "edited", "~ "
    number = f"<td{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{mark}{line.number}</td>"
    return [number, _executed(pair, place, alone), *heat_cells(line.time_fraction or 0.0, line.text)]


def _executed(pair: Beside, place: int, alone: bool) -> str:
    """Instructions of a line; on the new side coloured where they are more or fewer, and told by family."""
    before, after = (sum(line.executed.values()) if line else 0 for line in pair)
    count = (before, after)[place]
    changed = {} if alone else differing(*(line.executed if line else {} for line in pair))
    changes = [f"{name}: {units.count(old)} to {units.count(new)}" for name, (old, new) in changed.items()]
    left = [f"and {len(changes) - MOST_TOLD} more"] if len(changes) > MOST_TOLD else []
    tip = "\n".join(["executed, before to after", *changes[:MOST_TOLD], *left])
    kind = ("more" if after > before else "fewer") if place and changes and after != before else ""
    attributes = (f' class="{kind}"' if kind else "") + (f' data-tip="{escape(tip)}"' if changes else "")
    return f"<td{attributes}>{units.count(count) if count else ''}</td>"
