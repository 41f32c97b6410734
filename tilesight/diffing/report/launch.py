"""A launch before and after as HTML: pictures of both sides, figures, instructions by class, and source."""

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import cache, partial
from html import escape
from itertools import product, zip_longest
from typing import Any

from ...simulator import units
from ...simulator.display.columns import Column
from ...simulator.display.render import RESOURCES, bound_text, percent, times
from ...simulator.prediction.bottleneck import LAUNCH, TAIL, WAIT
from ...simulator.prediction.prediction import LaunchPrediction
from ...simulator.report.draw import ACCENT, EDGE, GRID, INK, MUTED, Tips, panel, ticks, tip_text
from ...simulator.report.kernels.pictures import INCHES, draw_memory, draw_roofline
from ...simulator.report.kernels.sources import heat_cells
from ...simulator.report.page import table, table_of
from ..difference import FIGURES, Pair, figures_of
from ..matching import aligned
from ..side import LaunchSide, SourceLine
from ..source_change import differing
from .words import figure_text, time_text

SIDES = {"old": "Before", "new": "After"}
MOST_CLASSES = 8
"""Classes of instructions in each of two tables; more are folded."""
Picture = Callable[[Any, Tips], None]
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


def launch_html(number: int, pair: Pair, heads: tuple[str, str], pictured: bool) -> list[str]:
    """Sections of a launch. Args: number: from 1; heads: above each side; pictured: whether it has pictures."""
    sides = {name: side for name, side in (("old", pair.old), ("new", pair.new)) if side and side.row.prediction}
    titles = dict(zip(SIDES, heads, strict=True))
    stacks = [(SIDES[name], launch) for name, side in sides.items() if (launch := side.row.prediction)]
    if not sides:
        return ['<p class="muted">It is not predicted on either side.</p>']
    pictures = _pictures(number, sides, titles) if pictured else []
    sections = ['<div class="row"><div>', f"<h3>What it takes</h3>{_figures(pair)}", "</div><div>"]
    if pictured:
        sections.append(panel(f"time-{number}", partial(draw_stacks, stacks=stacks), STACK_INCHES))
    else:
        sections.append('<p class="muted">Longer launches have pictures.</p>')
    sections += ["</div></div>"]
    if pictures:
        sections += ['<div class="row">', *pictures, "</div>"]
    if lost := [titles[name] for name, side in sides.items() if pictured and side.row.ceiling is None]:
        sections.append(f'<p class="muted">{escape("; ".join(lost))}: no picture, as its file holds no peaks.</p>')
    return [*sections, source_html(pair, heads), _classes(pair)]


def _pictures(number: int, sides: dict[str, LaunchSide], titles: dict[str, str]) -> list[str]:
    """What moves on each side; and one roofline, with an arrow where both have the same roofs, else each its own."""
    rows = {name: side.row for name, side in sides.items() if side.row.ceiling}
    drawn: list[tuple[str, str, Picture]] = [
        (f"memory-{number}-{name}", titles[name], partial(draw_memory, row=row)) for name, row in rows.items()
    ]
    roofs = {name: row for name, row in rows.items() if row.ceiling and row.ceiling.flop}
    peaks = [(row.ceiling.hbm_bytes_per_s, row.ceiling.flop_per_s) for row in roofs.values() if row.ceiling]
    if len(roofs) == 2 and peaks[0] == peaks[1]:
        old, new = roofs.values()
        both = f"{titles['old']}; {titles['new']}"
        drawn.append((f"roofline-{number}", both, partial(draw_roofline, row=new, before=old)))
    else:
        drawn += [
            (f"roofline-{number}-{name}", titles[name], partial(draw_roofline, row=row)) for name, row in roofs.items()
        ]
    return [f"<div><h3>{escape(title)}</h3>{panel(name, draw, INCHES)}</div>" for name, title, draw in drawn]


def _figures(pair: Pair) -> str:
    """Time and figures of both sides."""
    before, after = figures_of(pair.old), figures_of(pair.new)
    rows = [
        ("time", time_text(pair.old), time_text(pair.new), times(pair.change.ratio) if pair.change else ""),
        ("bound by", *(_bound(side) for side in (pair.old, pair.new)), ""),
        *(
            (title, _figure(name, before[name]), _figure(name, after[name]), _ratio(before[name], after[name]))
            for name, title in FIGURES.items()
        ),
    ]
    return _rows(rows, ("", "before", "after", "change"))


def _bound(side: LaunchSide | None) -> str:
    return bound_text(side.row.prediction) if side and side.row.prediction else ""


def _figure(name: str, value: int | None) -> str:
    return "" if value is None else figure_text(name, value)


def _ratio(before: int | None, after: int | None) -> str:
    if before == after:
        return "="
    return times(after / before) if before and after else ""


def _classes(pair: Pair) -> str:
    """Instructions of both sides by class of opcode, folded; those that differ, the largest change first."""
    if not pair.executed or not pair.old or not pair.new:
        return ""
    rows = [
        (
            name,
            units.count(before),
            units.count(after),
            f"{'+' if after > before else '−'}{units.count(abs(after - before))}",
        )
        for name, (before, after) in pair.executed.items()
    ]
    titles, half = ("class", "before", "after", "change"), min(MOST_CLASSES, -(-len(rows) // 2))
    shown, rest = [rows[:half], rows[half : 2 * half]], rows[2 * half :]
    tables = "".join(f"<div>{_rows(part, titles)}</div>" for part in shown if part)
    more = f"<details><summary>{len(rest)} more</summary>{_rows(rest, titles)}</details>" if rest else ""
    return f'<h3>Executed instructions by class, where they differ</h3><div class="row">{tables}</div>{more}'


def _rows(rows: Sequence[tuple[str, ...]], titles: tuple[str, ...]) -> str:
    cells = zip(*rows, strict=True)
    return table_of(
        [
            Column(title, list(texts), left=not place)
            for place, (title, texts) in enumerate(zip(titles, cells, strict=True))
        ]
    )


STACK_INCHES = (5.6, 2.9)
LEAST_SHARE = 0.005
"""Share of the time from which on a part is drawn."""
COLORS = {
    **{"hbm": ACCENT, "l2": "#56B4E9", "fabric": "#8FD0F0", "smem": "#CC79A7", "tensor": "#009E73", "mufu": "#D55E00"},
    **{"fma": "#E69F00", "issue": "#B8860B", WAIT: EDGE, TAIL: MUTED, LAUNCH: GRID},
}
"""Cause -> its colour: the palette of Okabe and Ito for resources, greys for what is none."""
Part = tuple[str, float]
"""A cause, and its share of the time."""


def parts_of(launch: LaunchPrediction) -> list[Part]:
    """The time of a launch, divided: the busiest resource, waits, the tail, the launch; they add up to 1.

    A resource that stays busy in the tail counts in the tail alone.
    """
    causes = launch.causes
    idle = {name: causes.get(name, 0.0) for name in (WAIT, TAIL, LAUNCH)}
    busiest = max((name for name in causes if name not in idle), key=lambda name: causes[name], default="")
    parts = [(busiest, 1.0 - sum(idle.values())) if busiest else ("", 0.0), *idle.items()]
    return [(name, share) for name, share in parts if share >= LEAST_SHARE]


def draw_stacks(ax: Any, tips: Tips, stacks: Sequence[tuple[str, LaunchPrediction]]) -> None:
    """A bar for each side. Args: stacks: name of the side, and its prediction."""
    longest_s = max(launch.traffic.time_s for _, launch in stacks)
    for place, (name, launch) in enumerate(stacks):
        time_s, begin_s, parts = launch.traffic.time_s, 0.0, parts_of(launch)
        words = ", ".join(f"{cause} {percent(share)}" for cause, share in parts)
        ax.text(0, place - 0.3, f"{name} {units.duration(time_s)}: {words}", va="bottom", fontsize=9, color=INK)
        for cause, share in parts:
            gid = f"{name}-{cause}"
            ax.barh([place], [share * time_s], 0.5, left=begin_s, color=COLORS.get(cause, EDGE), gid=gid)
            spent = {"of the time": percent(share), "that is": units.duration(share * time_s)}
            tips[gid] = [tip_text(f"{cause}: {RESOURCES.get(cause, cause)}", spent)]
            begin_s += share * time_s
    ax.set_yticks([])
    ax.set_xlim(0, 1.02 * longest_s)
    ax.set_ylim(1.5, -0.75)
    ax.spines["left"].set_visible(False)
    ax.xaxis.set_major_formatter(ticks(units.duration))
    ax.grid(axis="x")
    ax.set_title("Its time, by what binds it")


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
