"""Columns of figures: what tables of configurations and of launches have in common, as text and in notebooks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from .. import units
from .words import percent

if TYPE_CHECKING:
    from pandas import DataFrame

Row = Mapping[str, Any]
"""Figures by the names that JSON has for them, e.g. `Candidate.to_dict()` or `LaunchPrediction.to_dict()`."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Args:
        title: header; cells: texts, one a row.
        rank: columns of the highest rank are the first to go where the table is too wide; those of rank 0 stay.
        left: whether texts are aligned to the left (numbers are not).
        keys: of a page, what rows are sorted by in place of the texts: one a row, or none.
        kinds: of a page, classes of the cells in its style sheet: one a row, or none.
    """

    title: str
    cells: Sequence[str]
    rank: int = 0
    left: bool = False
    keys: Sequence[float | None] = ()
    kinds: Sequence[str] = ()

    @property
    def width(self) -> int:
        """Characters of the longest cell."""
        return max(map(len, (self.title, *self.cells)))


def time_column(rows: Sequence[Row]) -> Column:
    """Predicted times."""
    return Column("time", [units.duration(row["time_s"]) for row in rows])


def figure_columns(rows: Sequence[Row]) -> list[Column]:
    """Rates, bytes, occupancy and what binds; no column for what no row has."""

    def column(title: str, cell: Callable[[Row], str], rank: int = 0, left: bool = False) -> Column:
        return Column(title, [cell(row) for row in rows], rank=rank, left=left)

    columns = []
    if any(row["matmul_flop"] for row in rows):
        columns.append(column("TFLOP/s", lambda row: rate_text(row["matmul_flop_per_s"]), 1))
    columns += [
        column("SRAM fill", lambda row: units.traffic(row["smem_fill_bytes"]), 6),
        column("L2 read", lambda row: units.traffic(row["l2_read_bytes"]), 7),
        column("HBM", lambda row: units.traffic(row["hbm_read_bytes"] + row["hbm_write_bytes"]), 2),
    ]
    if any(row["l2_fit"] for row in rows):
        columns.append(column("K, V in L2", lambda row: row["l2_fit"], left=True))
    columns += [
        column("CTAs/SM", lambda row: str(row["ctas_per_sm"]), 4),
        column("occup.", lambda row: percent(row["occupancy_fraction"]), 5),
    ]
    if any(row["spilled_bytes_per_thread"] for row in rows):
        columns.append(column("spill", lambda row: f"{row['spilled_bytes_per_thread']} B"))
    columns.append(column("bound by", lambda row: f"{row['bottleneck']} {percent(row['bottleneck_share'])}", left=True))
    return columns


def rate_text(flop_per_s: float) -> str:
    """A rate in TFLOP/s, to the point where figures still differ: `655`, `10.2`, `0.81`."""
    value = flop_per_s / 1e12
    return f"{value:.0f}" if value >= 99.5 else f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def html_table(head: str, columns: Sequence[Column], notes: Sequence[str] = ()) -> str:
    """A small table for a notebook, without style sheet or script. Args: head: a line above; notes: lines below."""

    def cell(kind: str, column: Column, text: str) -> str:
        return f'<{kind} style="text-align: {"left" if column.left else "right"}">{escape(text)}</{kind}>'

    titles = "".join(cell("th", column, column.title) for column in columns)
    rows = (
        "".join(cell("td", column, text) for column, text in zip(columns, texts, strict=True))
        for texts in zip(*(column.cells for column in columns), strict=True)
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    remarks = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f"<p>{escape(head)}</p><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>{remarks}"


def frame(rows: Sequence[Mapping[str, Any]]) -> "DataFrame":
    """A data frame of rows with the same keys, which are its columns.

    Raises:
        ImportError: pandas is not installed; the text says how to.
    """
    try:
        from pandas import DataFrame
    except ImportError:
        raise ImportError("to_pandas needs pandas, which is not installed: pip install pandas") from None
    return DataFrame(list(rows))
