"""What a change does, for people, and as a comment for a pull request: a table of launches, and what differs in each.

The comment has a line where nothing changed, else a table, details folded.
"""

from collections.abc import Sequence
from html import escape

from ...simulator.display.render import table, wrapped
from ..difference import Difference
from .words import baseline_columns as baseline_columns
from .words import columns_of, details_of, head_text, heading_of, remarks, unmatched


def difference_text(difference: Difference, width: int, color: bool = False) -> str:
    """The answer of `tilesight diff`. Args: width: characters at most; color: whether the header is bold."""
    lines = wrapped([head_text(difference)], width)
    if not difference.unchanged:
        lines += ["", table(columns_of(difference.pairs), width, color)]
        for number, pair in enumerate(difference.pairs, 1):
            if details := details_of(pair):
                lines += ["", heading_of(number, pair), *wrapped([f"  {line}" for line in details], width)]
    if below := remarks(difference):
        lines += ["", *wrapped([f"Note     {line}" for line in below], width)]
    return "\n".join(lines)


def baseline_lines(difference: Difference, width: int) -> list[str]:
    """What stands below the table of `predict --baseline`: the verdict, and what the table cannot say."""
    differs = [difference.torch_note] if difference.torch_differs else []
    lines = [head_text(difference), *unmatched(difference), *differs]
    return wrapped([f"Baseline {line}" for line in lines], width)


def difference_markdown(difference: Difference) -> str:
    """The answer of `tilesight diff --markdown`."""
    changed = [(number, pair) for number, pair in enumerate(difference.pairs, 1) if not pair.unchanged]
    notes = [f"- {_plain(line)}" for line in remarks(difference)]
    if not changed and difference.complete and not difference.torch_differs:
        return f"**Tilesight**: {_plain(head_text(difference))}."
    lines = [f"**Tilesight**: {_plain(head_text(difference))}"]
    if changed:
        columns = columns_of([pair for _, pair in changed])
        rows = zip(*(column.cells for column in columns), strict=True)
        lines += ["", _row([column.title for column in columns])]
        lines += [_row([":---" if column.left else "---:" for column in columns])]
        lines += [_row([_plain(cell) for cell in row]) for row in rows]
    details = [(heading_of(number, pair), details_of(pair)) for number, pair in changed]
    folded: list[str] = []
    for heading, differing in details:
        if differing:
            folded += [f"**{_plain(heading)}**", "", *(f"- {_plain(line)}" for line in differing), ""]
    same = len(difference.pairs) - len(changed)
    summary = f"What differs; {same} more {'launch has' if same == 1 else 'launches have'} the same code"
    if folded or notes:
        title = summary if same and changed else "What differs"
        lines += ["", f"<details><summary>{title}</summary>", "", *folded, *notes, "", "</details>"]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    for letter in "\\`*_|[]":
        text = text.replace(letter, f"\\{letter}")
    return escape(text, quote=False)
