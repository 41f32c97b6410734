"""Public tables beside predictions, for people and programs."""

from collections.abc import Sequence
from typing import Any

from ...simulator.display.render import Column, table, wrapped
from ..compare.compare import Statistic
from ..tables.predicting import PredictedRow
from ..tables.scores import LONG_S, Score
from .text import error_text, size_text

SCHEMA = "tilesight.validate.table/1"


def tables_text(scores: Sequence[Score], predicted: Sequence[PredictedRow], said: str, width: int, color: bool) -> str:
    """What `tilesight validate --table` prints. Args: said: which rows; width: characters; color: whether bold."""
    priced = sum(score.rows - score.refused for score in scores)
    impossible = sum(score.impossible for score in scores)
    rows = sum(score.rows for score in scores)
    columns = [
        Column("GPU", [score.device for score in scores], left=True),
        Column("measured with", [score.framework for score in scores], left=True, rank=1),
        Column("kernel", [score.source for score in scores], left=True),
        Column("type", [score.dtype for score in scores], left=True),
        Column(f"from {1e6 * LONG_S:.0f} us", ["yes" if score.is_long else "no" for score in scores]),
        Column("rows", [str(score.rows) for score in scores]),
        Column("priced", [f"{1 - score.refused / score.rows:.0%}" for score in scores]),
        Column("mean", [_size(score.time, "mean") for score in scores]),
        Column("median", [_size(score.time, "median") for score in scores]),
        Column("bias", [error_text(score.time.bias) if score.time else "-" for score in scores]),
        Column("roofline", [_size(score.roofline, "mean") for score in scores]),
    ]
    reasons = list(dict.fromkeys(made.reason for made in predicted if made.reason))
    lines = [
        f"{said}: {priced} of {rows} rows priced ({priced / rows:.0%}); size of the relative error of time",
        *([f"Refused  {'; '.join(reasons)}"] if reasons else []),
        *([f"Left out {impossible} rows that were measured faster than the peaks allow"] if impossible else []),
    ]
    return "\n".join([*wrapped(lines[:1], width), "", table(columns, width, color), "", *wrapped(lines[1:], width)])


def _size(statistic: Statistic | None, name: str) -> str:
    return size_text(getattr(statistic, name)) if statistic else "-"


def tables_dict(scores: Sequence[Score], said: str) -> dict[str, Any]:
    """The object of `validate --table --json`, and the first line of its results."""
    return {"schema": SCHEMA, "rows": said, "scores": [score.to_dict() for score in scores]}


def row_dict(made: PredictedRow) -> dict[str, Any]:
    """A line of the results: a row beside its prediction."""
    row = made.row
    return {
        **{name: getattr(row, name) for name in ("device", "kind", "framework", "source", "dtype", "part")},
        **row.sizes,
        "time_s": made.pair.to_dict() if not made.reason else {"measured": row.time_s},
        "roofline_s": made.roofline_s,
        "impossible": made.impossible,
        "reason": made.reason,
    }
