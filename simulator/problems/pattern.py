"""Masks beyond causal and window, in a word: `prefix:512`, `documents:300,212`, `blocks:10/11`, `band:128`, `first:4`.

A text goes in, a `Pattern` comes out; whether it goes with the lengths of a problem is seen here, too.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from ..arguments import shown
from .lengths import lengths_of, words

COUNTED = ("prefix", "first", "band")
"""Kinds with a number of keys behind the colon."""
ALLOWED = "prefix:KEYS, documents:LENGTHS, blocks:ROWS, band:KEYS or first:KEYS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """What a mask has beyond causal and window.

    Args:
        kind: `prefix`: the first keys are seen by all queries, the mask is causal behind them; `first`: beside a window
            the first keys are seen, too; `band`: keys at most so far from a query's own place, on both sides;
            `documents`: queries see keys of their own document alone; `blocks`: keys of the blocks that a matrix has
            1 for; empty: nothing.
        keys: of a prefix, the first, or a side of a band.
        lengths: of documents.
        blocks: rows of the matrix, a word of 0 and 1 each.
    """

    kind: str = ""
    keys: int = 0
    lengths: tuple[int, ...] = ()
    blocks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What `pattern_of` makes the pattern of; empty for nothing."""
        said = str(self.keys) if self.keys else ",".join(map(str, self.lengths)) or "/".join(self.blocks)
        return f"{self.kind}:{said}" if self.kind else ""

    @property
    def text(self) -> str:
        """In words, e.g. `prefix 512`, `3 documents of 100 to 300 (mean 170)`, `4 x 4 blocks, 62 % of them`."""
        if self.lengths:
            return f"{len(self.lengths)} documents of {words(self.lengths)}"
        if self.blocks:
            ones, rows, columns = sum(row.count("1") for row in self.blocks), len(self.blocks), len(self.blocks[0])
            return f"{rows} x {columns} blocks, {ones / (rows * columns):.0%} of them".replace("%", " %")
        return f"{self.kind} {self.keys}"

    @property
    def is_causal(self) -> bool:
        """Whether the mask is causal whatever else is asked."""
        return self.kind in ("prefix", "first")

    def check(self, m: int, n: int, *, causal: bool, window: int) -> None:
        """Raises: ValueError: it does not go with M queries and N keys, or with the rest of the mask."""
        mask = f"mask = {shown(self.name)}"
        if self.kind == "band" and causal:
            raise ValueError(f"{mask}: reaches to both sides of a query: leave out causal and window")
        if self.kind == "first" and not window:
            raise ValueError(f"{mask}: stands beside a window, and there is none: give window")
        if self.lengths and not sum(self.lengths) == m == n:
            raise ValueError(
                f"{mask}: {len(self.lengths)} documents have {sum(self.lengths)} queries and keys together: must be"
                f" seqlen_q = {m} and seqlen_k = {n}"
            )
        if self.blocks and (m % len(self.blocks) or n % len(self.blocks[0])):
            raise ValueError(
                f"{mask}: {len(self.blocks)} rows and {len(self.blocks[0])} columns of blocks: must divide"
                f" seqlen_q = {m} and seqlen_k = {n}"
            )


NO_PATTERN = Pattern()


@lru_cache(maxsize=64)
def pattern_of(text: str) -> Pattern:
    """The pattern that a text names; of an empty text nothing. Raises: ValueError: it names none; one line."""
    if not isinstance(text, str):
        raise ValueError(f"mask = {shown(text)}: must be a text: {ALLOWED}")
    if not text:
        return NO_PATTERN
    kind, _, rest = text.partition(":")
    if kind in COUNTED and rest.isdecimal() and int(rest):
        return Pattern(kind=kind, keys=int(rest))
    if kind == "documents" and rest:
        try:
            return Pattern(kind=kind, lengths=lengths_of(rest))
        except ValueError as error:
            raise ValueError(f"mask = {shown(text)}: {error}") from None
    if kind == "blocks" and rest:
        return Pattern(kind=kind, blocks=_rows(text, rest))
    lacks = f"{kind}: a number of keys of 1 or more" if kind in COUNTED else ALLOWED
    raise ValueError(f"mask = {shown(text)}: must be {lacks}")


def _rows(text: str, rest: str) -> tuple[str, ...]:
    """Rows of 0 and 1, between lines or slashes. Raises: ValueError: there are others, or of unlike widths."""
    rows = tuple(filter(None, (re.sub(r"[\s,;]+", "", row) for row in re.split(r"[\n/]", rest))))
    for number, row in enumerate(rows, 1):
        if set(row) - {"0", "1"}:
            raise ValueError(
                f"mask = {shown(text)}: row {number} is {shown(row)}: must be of 0 and 1, as in blocks:10/11, or a file"
                " of such rows"
            )
        if len(row) != len(rows[0]):
            raise ValueError(f"mask = {shown(text)}: row {number} has {len(row)} blocks: must have {len(rows[0])}")
    if not rows:
        raise ValueError(f"mask = {shown(text)}: has no rows of 0 and 1")
    return rows
