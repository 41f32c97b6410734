"""Hypothesis strategies for cases: lengths about block edges, rows of hard scores, heads, masks and cuts.

Lengths are drawn apart from values, and easy values come first, so that counter-examples shrink to few keys.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

from ..declare.case import Case, case_of
from ..declare.declaration import Declaration
from ..declare.formats import rounded
from .arrays import FEW, Made, full, literal, made, stacked
from .rows import scores_row, values_matrix

EDGES = (15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257)
"""Lengths about the edges of the blocks that kernels have."""
LONG_EDGES = (511, 512, 513, 1023, 1024, 1025)
"""For softmax of rows, whose blocks are longer."""
LARGEST_VALUE = 2.0**17
MOST_CUTS = 6
MOST_ROWS = 3
"""Of scores that are given."""
STRETCH = 64.0
"""Queries so many times longer give scores that are out of reach of keys of the format alone."""


class Ease(IntEnum):
    """What is drawn: all there is; plain values alone, for readable counter-examples; few keys too, for short ones."""

    ALL = 0
    PLAIN = 1
    FEW = 2


def anything(_declaration: Declaration, _rows: int, _keys: int) -> bool:
    """Every number of rows and keys will do."""
    return True


def has_blind_rows(declaration: Declaration) -> bool:
    """Whether the first rows of attention may see no key: more rows than keys, under a mask aligned to the last key."""
    if declaration.causal != "last" or declaration.masking != "rows":
        return False
    return not declaration.shapes or any(rows > keys for rows, keys in declaration.shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a law wants of its cases.

    Args:
        causal: for attention: with a mask, without, or drawn where None.
        blind_rows: for attention: whether the first rows see no key, or drawn where None and the mask allows it.
        hidden: for given scores: whether some may be -inf.
        exact: if not 0, scores are multiples of it, and queries point at columns of K.
        only: which numbers of rows and keys will do.
        largest: magnitude of given scores and of values.
        low: whether all scores of a row are one low number.
        ease: whether all values will do, and any number of keys.
    """

    causal: bool | None = None
    blind_rows: bool | None = False
    hidden: bool = True
    exact: float = 0.0
    only: Callable[[Declaration, int, int], bool] = anything
    largest: float = np.inf
    low: bool = False
    ease: Ease = Ease.ALL

    @property
    def few(self) -> bool:
        """Whether a few keys are wanted."""
        return self.ease >= Ease.FEW

    @property
    def plain(self) -> bool:
        """Whether plain values are wanted."""
        return self.ease >= Ease.PLAIN


FEW_LENGTHS = tuple(range(1, 9))
FEW_KEYS = st.sampled_from(FEW_LENGTHS)


@cache
def _lengths(long: bool, few: bool) -> st.SearchStrategy[int]:
    if few:
        return FEW_KEYS
    return st.sampled_from((*FEW_LENGTHS, *EDGES, *(LONG_EDGES if long else ())))


@cache
def _cuts(keys: int) -> st.SearchStrategy[tuple[int, ...]]:
    if keys == 1:
        return st.just(())
    regular = st.sampled_from([1, 2, 4, 16, 64]).map(lambda step: tuple(range(step, keys, step)))
    anywhere = st.sets(st.integers(1, keys - 1), max_size=MOST_CUTS).map(lambda places: tuple(sorted(places)))
    return st.one_of(st.just(()), regular, anywhere)


def cuts(keys: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Where to cut keys into blocks: nowhere, every so many keys, or anywhere."""
    return _cuts(keys)


def _largest_score(declaration: Declaration, wanted: Wanted) -> float:
    """Magnitude of scores to draw; a quarter of what the format holds exactly in steps of `exact`, to leave room."""
    element = declaration.element
    largest = min(declaration.farthest_score, element.largest, wanted.largest)
    if rounded(np.array(largest), declaration.dtype or declaration.dtypes[0]) > largest:
        largest *= 1.0 - element.eps
    return min(largest, wanted.exact / element.eps / 4) if wanted.exact else largest


def _largest_value(declaration: Declaration, wanted: Wanted) -> float:
    return min(declaration.element.largest, LARGEST_VALUE, wanted.largest)


def _spelt_out(made: Made, declaration: Declaration) -> Made:
    """The same, rounded and written number by number where there are few."""
    if made.array.size > FEW:
        return made
    name = declaration.dtype or declaration.dtypes[0]
    array = rounded(made.array, name)
    return Made(array, literal(array, name))


def _shape(draw: st.DrawFn, declaration: Declaration, fits: Callable[[int, int], bool]) -> tuple[int, int] | None:
    """One of the pinned shapes; None where none are pinned."""
    if not declaration.shapes:
        return None
    allowed = [shape for shape in declaration.shapes if fits(*shape)]
    return draw(st.sampled_from(allowed)) if allowed else reject()


@st.composite
def _score_cases(draw: st.DrawFn, declaration: Declaration, wanted: Wanted) -> Case:
    softmax = declaration.adapter == "softmax"
    shape = _shape(draw, declaration, lambda rows, keys: wanted.only(declaration, rows, keys))
    rows, keys = shape or (draw(st.integers(1, MOST_ROWS)), draw(_lengths(softmax, wanted.few)))
    if not wanted.only(declaration, rows, keys):
        keys += 1
    hidden = wanted.hidden and declaration.masking != "none"
    row = scores_row(keys, _largest_score(declaration, wanted), hidden, wanted.exact, wanted.plain, wanted.low)
    x = _spelt_out(stacked([draw(row) for _ in range(rows)]), declaration)
    if softmax:
        return case_of(declaration, x=x)
    dims = draw(st.sampled_from((1, 2, 5)))
    v = draw(values_matrix(keys, dims, _largest_value(declaration, wanted), wanted.plain))
    return case_of(declaration, x=x, v=v, cuts=draw(_cuts(keys)))


@st.composite
def _attention_cases(draw: st.DrawFn, declaration: Declaration, wanted: Wanted) -> Case:
    masked = declaration.causal != "none" and (draw(st.booleans()) if wanted.causal is None else wanted.causal)

    blind = wanted.blind_rows
    if blind is None:
        blind = masked and has_blind_rows(declaration) and draw(st.booleans())

    def fits(rows: int, keys: int) -> bool:
        if blind:
            return rows > keys
        aligned = rows == keys or declaration.causal == "first" or (declaration.causal == "last" and rows < keys)
        return (aligned or not masked) and wanted.only(declaration, rows, keys)

    shape = _shape(draw, declaration, fits)
    if shape is None:
        keys = draw(_lengths(False, wanted.few))
        keys += not wanted.only(declaration, keys, keys)
        rows = draw(_lengths(False, wanted.few)) + (keys if blind else 0)
        shape = (rows, keys) if fits(rows, keys) else (keys, keys)
    dims = draw(st.sampled_from(declaration.head_dims))
    heads = 2 if declaration.shapes else draw(st.integers(1, 2))
    drawn = [draw(_heads(declaration, *shape, dims, wanted)) for _ in range(heads)]
    q, k, v = (stacked(part) for part in zip(*drawn, strict=True))
    case = case_of(declaration, q=q, k=k, v=v, causal=masked)
    scores = case.scores()
    if np.abs(np.where(scores > -np.inf, scores, 0.0)).max() > declaration.farthest_score:
        reject()
    return case


QUERIES = st.sampled_from(["pointers", "pointers", "equal", "normal", "outliers"])
STRETCHES = st.sampled_from([1.0, STRETCH])
SEEDS_AND_SIZES = st.tuples(st.integers(0, 999), st.sampled_from([1.0, 4.0, 0.1, 16.0]))


@cache
@st.composite
def _heads(
    draw: st.DrawFn, declaration: Declaration, rows: int, keys: int, dims: int, wanted: Wanted
) -> tuple[Made, Made, Made]:
    """Q, K and V of one head: queries that point at rows of scores in K, or numbers at random."""
    v = draw(values_matrix(keys, dims, _largest_value(declaration, wanted), wanted.plain))
    kind = "pointers" if wanted.exact or wanted.plain or wanted.low else draw(QUERIES)
    if kind == "pointers":
        length = dims**0.5 if declaration.scale == "sqrt" else 1.0
        if min(declaration.farthest_score, wanted.largest) > declaration.element.largest and not wanted.exact:
            length *= draw(STRETCHES)
        count = draw(st.integers(1, min(3, dims, rows)))
        row = scores_row(keys, _largest_score(declaration, wanted), False, wanted.exact, wanted.plain, wanted.low)
        x = _spelt_out(stacked([draw(row) for _ in range(count)]), declaration)
        return made("pointers", rows, count, dims, length), made("keys_of", x, dims), v
    if kind == "equal":
        return full((rows, dims), 0.5), full((keys, dims), 0.5), v
    seed, size = draw(SEEDS_AND_SIZES)
    return made(kind, seed, (rows, dims), size), made(kind, seed + 1000, (keys, dims), size), v


@cache
def cases(declaration: Declaration, wanted: Wanted) -> st.SearchStrategy[Case]:
    """Cases for an implementation, as a law wants them."""
    if declaration.adapter == "attention":
        return _attention_cases(declaration, wanted)
    return _score_cases(declaration, wanted)
