"""A difference as one HTML file that opens offline: the verdict, all launches, and both sides of each that differs."""

from html import escape

from ...simulator.display.columns import Column
from ...simulator.prediction.timing import TIMINGS
from ...simulator.report.page import Made, items, page, table_of
from ..difference import Difference, Pair
from ..verdict import FASTER, SLOWER
from .launch import launch_html
from .words import (
    bounds_text,
    change_sentence,
    columns_of,
    heading_of,
    launches_text,
    machine_text,
    remarks,
    sides_text,
    time_text,
)

MOST_PICTURED = 8
"""Launches with pictures, those that take longest."""
COLORS = {SLOWER: ' class="more"', FASTER: ' class="fewer"'}
"""Verdict -> attribute of its heading."""
FIRST = {"launch": 0, "verdict": 1, "change": 2}
"""Columns that a narrow screen shows."""
BAND_SAYS = "Nine of ten such ratios lay in the band, of kernels that were both predicted and measured."


def difference_html(difference: Difference, made: Made) -> str:
    """The page. Args: made: what its foot tells."""
    old, new, title = difference.old, difference.new, sides_text(difference)
    numbered = list(enumerate(difference.pairs, 1))
    changed = [(number, pair) for number, pair in numbered if not pair.unchanged]
    same = [(number, pair) for number, pair in numbered if pair.unchanged]
    longest = sorted(changed, key=lambda item: -_time_s(item[1]))
    pictured, heads = {number for number, _ in longest[:MOST_PICTURED]}, _heads(difference)
    banded = difference.change and not difference.change.at_least and not difference.machines.notes
    sections = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="muted">L2 {new.l2}, time {TIMINGS[new.timing]}. Predicted by Tilesight, without a GPU.</p>',
        f"<h2{COLORS.get(difference.verdict, '')}>{escape(_verdict(difference))}</h2>",
        f'<p class="muted">{BAND_SAYS}</p>' if banded else "",
        _table(difference),
        items(remarks(difference)),
    ]
    for number, pair in changed:
        sections.append(f'<h2 id="launch-{number}">{escape(heading_of(number, pair, timed=True))}</h2>')
        sections += launch_html(number, pair, heads, number in pictured)
    if same:
        sections.append(_same(same, differs=not difference.unchanged))
    facts = [(name, f"{side.name} on {machine_text(side)}") for name, side in (("before", old), ("after", new))]
    return page(f"Tilesight: {title}", sections, made, facts)


def _heads(difference: Difference) -> tuple[str, str]:
    """What stands above each side's pictures."""
    sides = (difference.old, difference.new)
    devices = [f" on {machine_text(side)}" if not difference.machines.same else "" for side in sides]
    before, after = (f"{side.name}{device}" for side, device in zip(sides, devices, strict=True))
    return f"Before: {before}", f"After: {after}"


def _verdict(difference: Difference) -> str:
    if difference.unchanged:
        return f"Same code, {launches_text(len(difference.pairs))}: nothing changes"
    sentence = change_sentence(difference)
    return sentence[0].upper() + sentence[1:]


def _table(difference: Difference) -> str:
    """All launches; of the same code there is nothing but their names to tell."""
    pairs = difference.pairs
    number = Column("#", [str(place) for place in range(1, len(pairs) + 1)])
    columns = sorted(columns_of(pairs), key=lambda column: FIRST.get(column.title, len(FIRST)))
    return table_of([number, *(column for column in columns if any(column.cells))]) if pairs else ""


def _same(pairs: list[tuple[int, Pair]], differs: bool) -> str:
    """Launches of the same code, folded. Args: differs: whether they were predicted, as others differ."""
    lines = []
    for number, pair in pairs:
        times = dict.fromkeys(text for text in (time_text(pair.old), time_text(pair.new)) if text)
        bound = f", {bounds_text(pair)}" if times else ""
        text = f"Launch {number}, {pair.name}{': ' if times else ''}{' to '.join(times)}{bound}"
        lines.append(f'<li id="launch-{number}">{escape(text)}</li>')
    why = '<p class="muted">Only what they find in L2 can change their times.</p>' if differs else ""
    head = f"{launches_text(len(pairs))} of the same code"
    return f"<details><summary><h3>{head}</h3></summary>{why}<ul>{''.join(lines)}</ul></details>"


def _time_s(pair: Pair) -> float:
    return max(side.row.traffic.time_s for side in (pair.old, pair.new) if side)
