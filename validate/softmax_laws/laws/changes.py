"""Laws of blocks, parts, shifts and scales: how a result stays, or moves, when scores, values or blocks change.

None of them looks at the oracle's answer; they take from it only how far rounding may move a result.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..call.adapters import forward
from ..call.calls import Subject
from ..declare.case import Case
from ..declare.declaration import Declaration
from ..draw.inputs import cuts
from .law import Law, always, lse_bound, near, needs_lse, same, with_knob
from .oracle import truth

EXACT = 0.5
"""Scores that are shifted are multiples of this, so that shifting rounds nothing."""


def _no_blocks(declaration: Declaration) -> str | None:
    blocked = declaration.block or declaration.adapter in ("merge", "streaming")
    return None if blocked else "it has no block size (declare block=NAME of the parameter)"


def _draw_blocks(declaration: Declaration, case: Case) -> st.SearchStrategy[Any]:
    if declaration.block:
        return st.lists(st.sampled_from(declaration.blocks), min_size=2, max_size=2, unique=len(declaration.blocks) > 1)
    return cuts(case.keys).map(list)


def _block_size(subject: Subject, case: Case, knob: list[int]) -> None:
    if subject.declaration.block:
        after, before = (forward(subject, case, block=block) for block in knob)
        what = f"blocks of {knob[0]} in place of {knob[1]}"
    else:
        after, before = forward(subject, replace(case, cuts=tuple(knob))), forward(subject, case)
        what = f"cut at {knob} in place of {list(case.cuts)}"
    true = truth(case, subject.declaration)
    same(after, before, 2 * true.o_bound, 2 * lse_bound(true, before), what)


def _draw_shift(declaration: Declaration, case: Case) -> st.SearchStrategy[Any]:
    x = case.x if case.x is not None else case.k
    assert x is not None
    size = float(np.abs(x[np.isfinite(x)]).max(initial=0.0))
    limit = min(EXACT / declaration.element.eps, declaration.farthest_score)
    shifts = (1.0, -1.0, 16.0, -16.0, 100.0, -100.0, 1000.0, -1000.0, 0.0)
    return st.sampled_from([shift for shift in shifts if size + abs(shift) <= limit] or [0.0])


def _shift(subject: Subject, case: Case, knob: float) -> None:
    moved = case.shifted(knob)
    before, after = forward(subject, case), forward(subject, moved)
    old, new = truth(case, subject.declaration), truth(moved, subject.declaration)
    if before.lse is not None:
        by = np.where(old.seen, new.lse - np.where(old.seen, old.lse, 0.0), 0.0)
        before = replace(before, lse=before.lse + by)
    within = lse_bound(old, before) + lse_bound(new, after)
    same(after, before, old.o_bound + new.o_bound, within, f"scores shifted by {knob:g}")


def _no_values(declaration: Declaration) -> str | None:
    return "it takes no V" if declaration.adapter == "softmax" else None


def _draw_factor(declaration: Declaration, case: Case) -> st.SearchStrategy[Any]:
    assert case.v is not None
    largest = declaration.element.largest / max(1.0, float(np.abs(case.v).max()))
    return st.sampled_from([factor for factor in (-1.0, 0.0, 0.5, 4.0, -64.0) if abs(factor) <= largest])


def _scaling(subject: Subject, case: Case, knob: float) -> None:
    assert case.v is not None
    scaled = replace(case, v=case.v * knob)
    before, after = forward(subject, case), forward(subject, scaled)
    old, new = truth(case, subject.declaration), truth(scaled, subject.declaration)
    before = replace(before, o=before.o * knob)
    same(after, before, new.o_bound + abs(knob) * old.o_bound, 2 * lse_bound(old, before), f"V times {knob:g}")


def _cuts(rows: int, keys: int, declaration: Declaration) -> list[int]:
    """Where keys can be cut in two within the shapes that the implementation takes."""
    return [cut for cut in range(1, keys) if declaration.allows(rows, cut) and declaration.allows(rows, keys - cut)]


def _draw_cut(declaration: Declaration, case: Case) -> st.SearchStrategy[Any]:
    return st.sampled_from(_cuts(case.rows, case.keys, declaration))


def _divisible(declaration: Declaration, rows: int, keys: int) -> bool:
    return bool(_cuts(rows, keys, declaration))


def _no_parts(declaration: Declaration) -> str | None:
    possible = not declaration.shapes or any(_divisible(declaration, *shape) for shape in declaration.shapes)
    return needs_lse(declaration) or (None if possible else "no length among its shapes is the sum of two others")


def _parts(subject: Subject, case: Case, knob: int) -> None:
    """O = sum of o_i exp(LSE_i - LSE); an error d of LSE_i weighs its part wrongly by exp(d) - 1."""
    whole, true = forward(subject, case), truth(case, subject.declaration)
    cut = [range(knob), range(knob, case.keys)]
    outputs = [forward(subject, case.take(keys)) for keys in cut]
    truths = [truth(case.take(keys), subject.declaration) for keys in cut]
    assert whole.lse is not None
    every = np.stack([output.lse for output in outputs if output.lse is not None])
    top = every.max(axis=0)
    shares = np.exp(every - top)
    lse = top + np.log(shares.sum(axis=0))
    shares /= shares.sum(axis=0)
    errors = np.stack([np.expm1(lse_bound(part, out)) for part, out in zip(truths, outputs, strict=True)])
    # By more than that the parts' shares are anybody's guess.
    errors = np.where(errors < 0.5, errors, np.inf)
    mean = (shares * errors).sum(axis=0)
    o = [share[..., None] * out.o for share, out in zip(shares, outputs, strict=True)]
    bound = [
        share[..., None] * (part.o_bound + (error + mean)[..., None] * np.abs(out.o))
        for share, error, part, out in zip(shares, errors, truths, outputs, strict=True)
    ]
    # The outputs of softmax are weights, a part has those of its own keys; else parts add up.
    join = (lambda parts: np.concatenate(parts, axis=-1)) if case.v is None else sum
    near(join(o), whole.o, np.asarray(join(bound)) * (1 + 1e-9) + true.o_bound, "merged from two parts, output")
    near(lse, whole.lse, mean + lse_bound(true, whole), "merged from two parts, LSE")


CHANGE_LAWS = (
    Law(name="block size", statement="the size of blocks does not change the result", missing=_no_blocks,
        draw=with_knob(_draw_blocks), check=_block_size),
    Law(name="split and merge", statement="two parts, merged by their LSE, give the whole", missing=_no_parts,
        draw=with_knob(_draw_cut, hidden=False, causal=False, only=_divisible), check=_parts),
    Law(name="shift", statement="a constant on all scores of a row moves LSE alone", missing=always,
        draw=with_knob(_draw_shift, exact=EXACT), check=_shift),
    Law(name="scaling of V", statement="V times a factor is the output times it", missing=_no_values,
        draw=with_knob(_draw_factor), check=_scaling),
)  # fmt: skip
