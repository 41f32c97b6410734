"""Laws of one result: it is right, it is possible, and it says what the policies for -inf, NaN and +inf promise.

Policies. A row whose scores are all -inf has the output 0 and the LSE -inf. A row that sees a NaN has NaN for all
of its output and for LSE. Where a row sees +inf, each output is NaN or the limit, all weight on that key, and LSE is
NaN or +inf.
Other rows of the same call are as if it were not there. NaN in V is not part of any law.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from ..call.adapters import forward
from ..call.calls import Subject, Violation
from ..declare.case import Case
from ..declare.declaration import Declaration
from ..draw.inputs import has_blind_rows
from .law import Law, always, compare, lse_bound, near, needs_lse, no_knob, with_knob
from .oracle import truth

LARGEST_EXPONENT = 300.0
"""Keeps exp finite where LSE is off by thousands, as of scores in the tens of millions cut to tf32: 0 * exp is 0."""


def _oracle(subject: Subject, case: Case, _knob: Any) -> None:
    compare(forward(subject, case), truth(case, subject.declaration))


def _hides_nothing(declaration: Declaration) -> str | None:
    if declaration.adapter == "attention":
        return "it takes no causal mask, so it hides no key" if declaration.causal == "none" else None
    return "it declares masking=none" if declaration.masking == "none" else None


def _two_keys(_declaration: Declaration, _rows: int, keys: int) -> bool:
    return keys > 1


def _hull(subject: Subject, case: Case, _knob: Any) -> None:
    o, true, v = forward(subject, case).o, truth(case, subject.declaration), case.values()
    slack = true.rounding_bound
    if v is None:
        near(np.where(o < 0.0, o, 0.0), np.zeros_like(o), 0.0, "a negative weight")
        near(o.sum(axis=-1), np.ones(o.shape[:-1]), slack.sum(axis=-1), "sum of weights")
        return
    visible = (case.scores() > -np.inf)[..., None]
    low = np.where(visible, v[:, None], np.inf).min(axis=2)
    high = np.where(visible, v[:, None], -np.inf).max(axis=2)
    near(o, np.clip(np.where(np.isnan(o), low, o), low, high), slack, "output, outside the values that its row sees,")


def _lse_fits(subject: Subject, case: Case, _knob: Any) -> None:
    """O = sum of v exp(s - LSE), with the LSE that came with it: both must stem from one sum."""
    output, true, v = forward(subject, case), truth(case, subject.declaration), case.values()
    assert output.lse is not None
    weights = np.exp(np.minimum(case.scores() - output.lse[..., None], LARGEST_EXPONENT))
    exact = np.exp(case.scores() - true.lse[..., None])
    expected, size = (weights, exact) if v is None else (weights @ v, exact @ np.abs(v))
    factor = np.expm1(lse_bound(true, output) + true.weight_error.max(axis=-1))[..., None]
    bound = true.o_bound + factor * size
    near(output.o, expected, bound, "output, against weights from the LSE beside it,")


def _not_deterministic(declaration: Declaration) -> str | None:
    return None if declaration.deterministic else "it declares deterministic=false"


def _determinism(subject: Subject, case: Case, _knob: Any) -> None:
    first, second = forward(subject, case), forward(subject, case)
    for name, before, after in (("output", first.o, second.o), ("LSE", first.lse, second.lse)):
        if before is not None and after is not None and not np.array_equal(before, after, equal_nan=True):
            largest = np.nanmax(np.abs(before - after))
            raise Violation(f"{name} differs between two calls with the same input, by up to {largest:.2g}")


def _no_masked_rows(declaration: Declaration) -> str | None:
    if declaration.adapter == "attention":
        return None if has_blind_rows(declaration) else _EVERY_ROW_SEES[declaration.causal or "none"]
    return None if declaration.masking == "rows" else f"it declares masking={declaration.masking}"


_EVERY_ROW_SEES = {
    "none": "it takes no causal mask, so every row sees a key",
    "square": "its mask is for M = N, where every row sees a key (declare causal=last if not)",
    "first": "its mask lets every row see key 0",
    "last": "it declares that every row sees a key, by masking or by shapes",
}
"""By the alignment of the mask: why there are no rows without keys."""


def _draw_rows(_declaration: Declaration, case: Case) -> st.SearchStrategy[Any]:
    if case.x is None:
        return st.none()
    return st.lists(st.integers(0, len(case.x) - 1), min_size=1, max_size=len(case.x), unique=True)


def _masked_rows(subject: Subject, case: Case, knob: list[int] | None) -> None:
    if case.x is not None and knob is not None:
        x = case.x.copy()
        x[knob] = -np.inf
        case = replace(case, x=x)
    compare(forward(subject, case), truth(case, subject.declaration))


def _undefined(declaration: Declaration) -> str | None:
    return "it declares nonfinite=undefined" if declaration.nonfinite == "undefined" else None


def _draw_poison(declaration: Declaration, case: Case) -> st.SearchStrategy[Any]:
    kinds = ["nan"] if declaration.adapter == "attention" else ["nan", "inf"]
    assert case.x is not None or case.q is not None
    first = st.integers(0, len(case.x) - 1 if case.x is not None else 0)
    return st.tuples(st.sampled_from(kinds), first, st.integers(0, case.keys - 1)).map(list)


def _poisoned(case: Case, knob: list[Any]) -> tuple[Case, NDArray[np.bool_]]:
    """The case with one NaN or +inf, and which rows (H, M) see it."""
    kind, row, key = knob
    if case.k is not None:
        k = case.k.copy()
        k[:, key] = np.nan
        return replace(case, k=k), np.tile(case.visible()[:, key], (len(k), 1))
    assert case.x is not None
    x = case.x.copy()
    x[row, key] = float(kind)
    return replace(case, x=x), (np.arange(len(x)) == row)[None, :]


def _nonfinite(subject: Subject, case: Case, knob: list[Any]) -> None:
    kind, _, key = knob
    poisoned, hit = _poisoned(case, knob)
    output, true = forward(subject, poisoned), truth(case, subject.declaration)
    o = output.o[hit]
    right = np.isnan(o)
    if kind == "inf":
        limit = np.eye(case.keys)[key] if case.v is None else case.v[key]
        right |= np.abs(o - limit) <= (true.rounding_bound + true.o_bound)[hit].max(axis=-1, keepdims=True)
    if not right.all():
        row = int(np.argmin(right.all(axis=-1)))
        must = f"NaN or the limit {limit[:4]}" if kind == "inf" else "NaN all along"
        raise Violation(f"output of a row that sees {kind} begins {o[row][:4]}, must be {must}")
    if output.lse is not None:
        lse = output.lse[hit]
        wrong = ~(np.isnan(lse) | ((lse == np.inf) & (kind == "inf")))
        if wrong.any():
            must = "NaN or inf" if kind == "inf" else "NaN"
            raise Violation(f"LSE of a row that sees {kind} is {lse[wrong][0]:g}, must be {must}")
        near(output.lse[~hit], true.lse[~hit], lse_bound(true, output)[~hit], f"another row has {kind}, LSE")
    near(output.o[~hit], true.o[~hit], true.o_bound[~hit], f"another row has {kind}, output")


RESULT_LAWS = (
    Law(name="oracle", statement="output and LSE are those of softmax in fp64", missing=always, draw=no_knob(),
        check=_oracle),
    Law(name="convex hull", statement="outputs lie among the values seen; weights are >= 0 and add up to 1",
        missing=always, draw=no_knob(), check=_hull),
    Law(name="low scores", statement="what is hidden stays so, however low the scores of what is not",
        missing=_hides_nothing, draw=no_knob(low=True, causal=True, only=_two_keys), check=_oracle),
    Law(name="LSE and output", statement="the LSE gives the weights of the output beside it", missing=needs_lse,
        draw=no_knob(), check=_lse_fits),
    Law(name="determinism", statement="equal inputs give equal bits", missing=_not_deterministic, draw=no_knob(),
        check=_determinism, unless="deterministic=false"),
    Law(name="masked rows", statement="a row that sees no key gives 0, and LSE -inf", missing=_no_masked_rows,
        draw=with_knob(_draw_rows, causal=True, blind_rows=True), check=_masked_rows,
        unless="masking=entries"),
    Law(name="NaN and +inf", statement="NaN in a row gives NaN there and nowhere else; +inf NaN or the limit",
        missing=_undefined, draw=with_knob(_draw_poison, blind_rows=None), check=_nonfinite,
        unless="nonfinite=undefined"),
)  # fmt: skip
