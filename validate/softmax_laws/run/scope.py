"""What was promised, and what was looked at: the declaration that waives a law, and all that no input was drawn for."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..declare.case import Case
from ..declare.declaration import Declaration
from ..declare.formats import NUMPY_DTYPES
from ..draw.inputs import EDGES, LONG_EDGES, MOST_ROWS
from ..laws.law import Law

FAR, NEAR = 1e4, 1e3
"""An implementation that fails at scores this far may say that it answers nearer ones alone, as those of models are."""
WITHOUT_LAW = {
    "masked rows": "rows without keys",
    "low scores": "hidden keys beside low scores",
    "NaN and +inf": "NaN and +inf",
    "determinism": "whether equal inputs give equal bits",
    "gradients": "gradients",
    "LSE and output": "LSE",
}
"""Laws that may not apply, each with what is then not looked at."""


def waiver(law: Law, declaration: Declaration, case: Case | None) -> str:
    """The declaration by which an implementation does not promise what a counter-example asks; empty where none is.

    Args:
        case: the counter-example, where it is known.
    """
    if law.unless or case is None:
        blind = case is not None and case.causal and not case.visible().any(axis=1).all()
        return "masking=entries" if blind else law.unless
    scores = case.scores()
    if case.x is not None and (case.x == -np.inf).any():
        return "masking=none"
    largest = float(np.abs(np.where(np.isfinite(scores), scores, 0.0)).max())
    return f"largest_score={NEAR:g}" if largest >= FAR else ""


def not_tested(declaration: Mapping[str, Any] | None, tried: Mapping[str, bool], skipped: int) -> list[str]:
    """All that no law looked at, in a few words each.

    Args:
        declaration: complete, or None where nothing could be called; tried: law -> whether inputs were tried.
        skipped: how many laws were not asked for.
    """
    if declaration is None:
        return ["anything"]
    return [*([f"{skipped} other laws"] if skipped else []), *_untried(Declaration(**declaration), tried)]


def _untried(declaration: Declaration, tried: Mapping[str, bool]) -> Iterator[str]:
    adapter, numpy = declaration.adapter, declaration.arrays == "numpy"
    for law, what in WITHOUT_LAW.items():
        if not tried.get(law, True) and not (law == "gradients" and (numpy or adapter in ("merge", "streaming"))):
            yield what
    if adapter == "attention":
        if declaration.causal == "square":
            yield "causal masks of M other than N"
        yield "masks" if declaration.causal == "none" else "other masks"
        if tried.get("NaN and +inf"):
            yield "+inf"
    elif declaration.masking == "none":
        yield "scores of -inf"
    if adapter != "softmax":
        yield "NaN or inf in V"
    others = [
        dtype for dtype in declaration.dtypes if dtype != declaration.dtype and (dtype in NUMPY_DTYPES or not numpy)
    ]
    if adapter == "merge":
        others = [dtype for dtype in others if dtype in ("fp32", "fp64")]
    if others:
        yield f"{', '.join(others)} (--dtype)"
    yield f"scores beyond {declaration.farthest_score:g}"
    if declaration.shapes:
        yield "shapes that are not declared"
    else:
        yield f"more than {max(LONG_EDGES if adapter == 'softmax' else EDGES)} keys"
        if adapter != "attention":
            yield f"more than {MOST_ROWS} rows"
    if adapter == "attention":
        yield f"head dims but {', '.join(str(dims) for dims in declaration.head_dims)}"
