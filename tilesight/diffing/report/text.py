"""What a change does, for people: a table of launches, and below it what differs in each. In: a difference."""

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
