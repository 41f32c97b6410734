"""Laws of keys: in another order, come twice, hidden, gone, or in the future of a row.

None of them looks at the oracle's answer; they take from it only how far rounding may move a result.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from ..call.adapters import forward
from ..call.calls import Subject
from ..declare.case import Case
from ..declare.declaration import Declaration
from .law import Law, always, lse_bound, near, same, with_knob
from .oracle import truth

MOST_KEYS = 600
"""Repeating more often than twice stops here."""
MOST_HIDDEN = 4


def _draw_order(_declaration: Declaration, case: Case) -> st.SearchStrategy[Any]:
    turn = st.tuples(st.just("turn"), st.integers(1, max(1, case.keys - 1)))
    shuffle = st.tuples(st.just("shuffle"), st.integers(0, 99))
    return st.one_of(st.just(("reverse", 0)), turn, shuffle).map(list)


def _order(knob: list[Any], keys: int) -> NDArray[np.int64]:
    kind, number = knob
    order = np.arange(keys)
    if kind == "shuffle":
        return np.random.default_rng(number).permutation(keys)
    return np.asarray(order[::-1] if kind == "reverse" else np.roll(order, -number))


def _permutation(subject: Subject, case: Case, knob: list[Any]) -> None:
    order = _order(knob, case.keys)
    before, after, true = forward(subject, case), forward(subject, case.take(order)), truth(case, subject.declaration)
    bound = 2 * true.o_bound
    if case.v is None:
        before, bound = replace(before, o=before.o[..., order]), bound[..., order]
    same(after, before, bound, 2 * lse_bound(true, before), "keys in another order")


def _times(rows: int, keys: int, declaration: Declaration) -> list[int]:
    """How often every key can be repeated within the shapes that the implementation takes."""
    fitting = [times for times in (2, 3, 8) if times == 2 or times * keys <= MOST_KEYS]
    return [times for times in fitting if declaration.allows(rows, times * keys)]


def _draw_times(declaration: Declaration, case: Case) -> st.SearchStrategy[Any]:
    return st.sampled_from(_times(case.rows, case.keys, declaration))


def _repeatable(declaration: Declaration, rows: int, keys: int) -> bool:
    return bool(_times(rows, keys, declaration))


def _no_repeats(declaration: Declaration) -> str | None:
    possible = not declaration.shapes or any(_repeatable(declaration, *shape) for shape in declaration.shapes)
    return None if possible else "no length among its shapes is a multiple of another"


def _repeat(subject: Subject, case: Case, knob: int) -> None:
    repeated = case.take(np.tile(np.arange(case.keys), knob))
    before, after = forward(subject, case), forward(subject, repeated)
    old, new = truth(case, subject.declaration), truth(repeated, subject.declaration)
    bound = old.o_bound + new.o_bound if case.v is not None else np.tile(old.o_bound / knob, knob) + new.o_bound
    if case.v is None:
        before = replace(before, o=np.tile(before.o / knob, knob))
    if before.lse is not None:
        before = replace(before, lse=before.lse + np.log(knob))
    within = lse_bound(old, before) + lse_bound(new, after)
    same(after, before, bound, within, f"every key {knob} times")


def _no_hiding(declaration: Declaration) -> str | None:
    if declaration.adapter == "attention":
        return "scores of attention come from q and k, so none is -inf"
    if declaration.masking == "none":
        return "it declares masking=none"
    possible = not declaration.shapes or any(_can_hide(declaration, *shape) for shape in declaration.shapes)
    return None if possible else "no two of its shapes differ in keys alone"


def _counts(rows: int, keys: int, declaration: Declaration) -> list[int]:
    """How many keys can be taken away within the shapes that the implementation takes."""
    most = keys - 1 if declaration.shapes else min(MOST_HIDDEN, keys - 1)
    return [count for count in range(1, most + 1) if declaration.allows(rows, keys - count)]


def _draw_hidden(declaration: Declaration, case: Case) -> st.SearchStrategy[Any]:
    return st.tuples(st.sampled_from(_counts(case.rows, case.keys, declaration)), st.integers(0, 99)).map(list)


def _can_hide(declaration: Declaration, rows: int, keys: int) -> bool:
    return bool(_counts(rows, keys, declaration))


def _hidden_keys(subject: Subject, case: Case, knob: list[int]) -> None:
    """A number of keys, chosen by a seed, at -inf in place of gone."""
    assert case.x is not None
    count, seed = knob
    hidden = np.sort(np.random.default_rng(seed).permutation(case.keys)[:count])
    x = case.x.copy()
    x[:, hidden] = -np.inf
    kept = np.setdiff1d(np.arange(case.keys), hidden)
    hiding = replace(case, x=x)
    before, after = forward(subject, case.take(kept)), forward(subject, hiding)
    old, new = truth(case.take(kept), subject.declaration), truth(hiding, subject.declaration)
    bound, o = new.o_bound, before.o
    if case.v is None:
        o = np.zeros_like(after.o)
        o[..., kept] = before.o
        bound = bound.copy()
        bound[..., kept] += old.o_bound
    else:
        bound = bound + old.o_bound
    within = lse_bound(old, before) + lse_bound(new, after)
    same(after, replace(before, o=o), bound, within, f"keys {hidden[:MOST_HIDDEN]} at -inf in place of gone")


def _no_causal(declaration: Declaration) -> str | None:
    if declaration.adapter != "attention":
        return "only attention has a causal mask"
    return "it takes no causal mask" if declaration.causal == "none" else None


def _draw_future(_declaration: Declaration, case: Case) -> st.SearchStrategy[Any]:
    return st.tuples(st.integers(0, case.keys - 1), st.sampled_from([8.0, 100.0, 0.0, -4.0])).map(list)


def _causal(subject: Subject, case: Case, knob: list[float]) -> None:
    """Keys from the knob's on become others: rows that see none of them stay; a row that sees all needs no mask."""
    assert case.q is not None and case.k is not None and case.v is not None
    first, number = int(knob[0]), knob[1]
    k, v = case.k.copy(), case.v.copy()
    k[:, first:] = number
    v[:, first:] = -number
    before, after = forward(subject, case), forward(subject, replace(case, k=k, v=v))
    true = truth(case, subject.declaration)
    blind = ~case.visible()[:, first:].any(axis=1)
    if blind.any():
        past = replace(before, o=before.o[:, blind], lse=None if before.lse is None else before.lse[:, blind])
        other = replace(after, o=after.o[:, blind], lse=None if after.lse is None else after.lse[:, blind])
        same(
            other,
            past,
            2 * true.o_bound[:, blind],
            2 * lse_bound(true, before)[:, blind],
            f"keys from {first} on changed",
        )
    full = case.visible().all(axis=1)
    open_case = replace(case, causal=False)
    unmasked = forward(subject, open_case).o[:, full]
    bound = true.o_bound[:, full] + truth(open_case, subject.declaration).o_bound[:, full]
    near(before.o[:, full], unmasked, bound, "row that sees all keys, with a mask and without, output")


KEY_LAWS = (
    Law(name="key order", statement="the order of keys does not change the result", missing=always,
        draw=with_knob(_draw_order, causal=False), check=_permutation),
    Law(name="repeated keys", statement="every key k times leaves the output, adds log k to LSE",
        missing=_no_repeats, draw=with_knob(_draw_times, causal=False, only=_repeatable), check=_repeat),
    Law(name="hidden keys", statement="a key at -inf might as well be gone", missing=_no_hiding,
        draw=with_knob(_draw_hidden, hidden=False, only=_can_hide), check=_hidden_keys,
        unless="masking=none"),
    Law(name="causal prefix", statement="under a causal mask a row sees its prefix, all of it and no more",
        missing=_no_causal, draw=with_knob(_draw_future, causal=True), check=_causal),
)  # fmt: skip
