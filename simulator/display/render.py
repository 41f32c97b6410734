"""What all reports share: JSON that is the same bit for bit, aligned tables, words for problems and configurations."""

import csv
import json
from collections.abc import Mapping, Sequence
from io import StringIO
from textwrap import wrap
from typing import Protocol

from .columns import Column as Column
from .words import config_text as config_text
from .words import percent as percent
from .words import plural as plural

RESOURCES = {
    "tensor": "tensor cores",
    "mufu": "exponentials on the MUFU pipe",
    "fma": "FP32 and integer arithmetic",
    "issue": "instruction issue",
    "smem": "L1 and shared memory, one pipe",
    "l2": "bandwidth from L2 to the SMs",
    "fabric": "link between the L2 partitions",
    "hbm": "HBM bandwidth",
    "wait": "exposed latency",
    "tail": "idle SMs: too few CTAs, or a partial last wave",
    "launch": "launch overhead",
}
"""Bottleneck -> its name in a sentence."""


def to_json(value: Mapping[str, object] | Sequence[Mapping[str, object]]) -> str:
    """A JSON text: keys in the order given, one space of indent, no NaN.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """A CSV text with a header; columns in the order of the first row, None as an empty cell."""
    stream = StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """The columns that a table shows: the least important are left out where they are too wide together.

    Args:
        width: characters at most, as far as the columns of rank 0 allow.
    """
    kept = [column for column in columns if column.cells]
    while sum(column.width + 2 for column in kept) > width and any(column.rank for column in kept):
        least = max(column.rank for column in kept)
        kept = [column for column in kept if column.rank < least]
    return kept


def table(columns: Sequence[Column], width: int, color: bool = False) -> str:
    """Columns side by side under a ruled header, none cut off. Args: width: as `fitting`; color: bold header."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    kept = fitting(columns, width)
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="bold")
    for column in kept:
        drawn.add_column(Text(column.title), justify="left" if column.left else "right", no_wrap=True)
    for row in zip(*(column.cells for column in kept), strict=True):
        drawn.add_row(*map(Text, row))
    stream = StringIO()
    needed = max(width, sum(column.width + 2 for column in kept))
    console = Console(file=stream, width=needed, force_terminal=color, no_color=not color, legacy_windows=False)
    console.print(drawn)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


class Bound(Protocol):
    """What is bound by something: a prediction, or that of a launch."""

    @property
    def bottleneck(self) -> str:
        """The largest of the causes."""

    @property
    def bottleneck_share(self) -> float:
        """Its share of the time."""


def bound_text(bound: Bound) -> str:
    """What binds a prediction, and its share of the time, e.g. `issue 95 %`."""
    return f"{bound.bottleneck} {percent(bound.bottleneck_share)}"


def wrapped(lines: Sequence[str], width: int) -> list[str]:
    """Lines broken at spaces where they are too long; what follows a break is indented."""
    broken = (wrap(line, width, subsequent_indent="    ", break_long_words=False) or [""] for line in lines)
    return [piece for pieces in broken for piece in pieces]


def bar(fraction: float, length: int = 20) -> str:
    """A bar of blocks. Args: fraction: from 0 to 1, more counts as 1; length: characters of a full bar."""
    filled = round(min(1.0, max(0.0, fraction)) * length)
    return "█" * filled + "░" * (length - filled)


def times(factor: float) -> str:
    """A ratio as text: `97x`, `1.31x`."""
    return f"{factor:,.0f}x" if factor >= 99.5 else f"{factor:.1f}x" if factor >= 9.95 else f"{factor:.2f}x"
