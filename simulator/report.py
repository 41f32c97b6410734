"""What all reports share: JSON that is the same bit for bit, aligned tables, words for problems and configurations."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from textwrap import wrap

from . import units
from .prediction import LaunchPrediction, Prediction
from .problem import AttentionProblem

RESOURCES = {
    "tensor": "the tensor cores",
    "mufu": "the exponentials (MUFU pipe)",
    "fma": "FP32 and integer arithmetic",
    "issue": "instruction issue",
    "smem": "shared-memory bandwidth",
    "l2": "the path from L2 to the SMs",
    "hbm": "HBM bandwidth",
    "wait": "waits for results and data that nothing hides",
    "tail": "SMs without a CTA: too few, or the last ones",
    "launch": "launch overhead",
}
"""Bottleneck -> its name in a sentence."""


def to_json(value: Mapping[str, object]) -> str:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table.

    Args:
        title: header; cells: texts, one a row.
        rank: columns of the highest rank are the first to go where the table is too wide; those of rank 0 stay.
        left: whether texts are aligned to the left (numbers are not).
    """

    title: str
    cells: Sequence[str]
    rank: int = 0
    left: bool = False

    @property
    def width(self) -> int:
        """Characters of the longest cell."""
        return max(map(len, (self.title, *self.cells)))


def table(columns: Sequence[Column], width: int, color: bool = False) -> str:
    """Columns side by side under a ruled header, none cut off; the least important left out where they are too many.

    Args:
        width: characters at most, as far as the columns of rank 0 allow; color: whether the header is bold.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    kept = [column for column in columns if column.cells]
    while sum(column.width + 2 for column in kept) > width and any(column.rank for column in kept):
        least = max(column.rank for column in kept)
        kept = [column for column in kept if column.rank < least]
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


def problem_text(problem: AttentionProblem) -> str:
    """A problem in one line, e.g. `B=4 H=32 M=N=4096 D=64 fp16 causal`."""
    kv_heads = f" G={problem.kv_heads}" if problem.kv_heads != problem.heads else ""
    if problem.seqlen_q == problem.seqlen_k:
        lengths = f"M=N={problem.seqlen_k}"
    else:
        lengths = f"M={problem.seqlen_q} N={problem.seqlen_k}"
    mask = "causal" if problem.causal else "no mask"
    dropout = f" dropout {problem.dropout:g}" if problem.dropout else ""
    return (
        f"B={problem.batch} H={problem.heads}{kv_heads} {lengths} D={problem.head_dim} {problem.dtype} {mask}{dropout}"
    )


def config_text(config: Mapping[str, object]) -> str:
    """A configuration in words, e.g. `128 x 64, 4 warps, 2 stages, m-fast`. Args: config: option -> value."""
    words = []
    rest = dict(config)
    if "block_m" in rest and "block_n" in rest:
        words.append(f"{rest.pop('block_m')} x {rest.pop('block_n')}")
    if "num_warps" in rest:
        words.append(plural(int(str(rest.pop("num_warps"))), "warp"))
    if "num_stages" in rest:
        words.append(plural(int(str(rest.pop("num_stages"))), "stage"))
    if not rest.get("persistent", 1):
        rest.pop("persistent")
    words += [f"{name.replace('_', ' ')} {value}" for name, value in rest.items()]
    return ", ".join(words)


def bound_text(one: LaunchPrediction | Prediction) -> str:
    """What binds a prediction, and its share of the time, e.g. `issue 95 %`."""
    return f"{one.bottleneck} {percent(one.bottleneck_share)}"


def plural(count: int, noun: str) -> str:
    """A count and its noun, e.g. `1 warp`, `4 warps`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def wrapped(lines: Sequence[str], width: int) -> list[str]:
    """Lines broken at spaces where they are too long; what follows a break is indented."""
    broken = (wrap(line, width, subsequent_indent="    ", break_long_words=False) or [""] for line in lines)
    return [piece for pieces in broken for piece in pieces]


def bar(fraction: float, length: int = 20) -> str:
    """A bar of blocks. Args: fraction: from 0 to 1, more counts as 1; length: characters of a full bar."""
    filled = round(min(1.0, max(0.0, fraction)) * length)
    return "█" * filled + "░" * (length - filled)


def flop(count: float) -> str:
    """A count of floating-point operations as text, e.g. `137 GFLOP`."""
    return units.rate(count).removesuffix("/s")


def percent(fraction: float) -> str:
    """A share as text: `52 %`, `0.4 %`."""
    value = 100 * fraction
    return f"{value:.1f} %" if 0 < value < 9.95 else f"{value:.0f} %"


def times(factor: float) -> str:
    """A ratio as text: `97x`, `1.31x`."""
    return f"{factor:,.0f}x" if factor >= 99.5 else f"{factor:.1f}x" if factor >= 9.95 else f"{factor:.2f}x"
