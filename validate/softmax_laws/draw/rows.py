"""Hypothesis strategies for one row of scores and one matrix of values: hard numbers that shrink to readable ones.

A row is drawn in runs of equal numbers (zeros, numbers about the overflow and underflow of exp in each format, +-0,
subnormals, the largest magnitude, -inf), far below what some mask with, or by a seed (normal, outliers, rising,
falling, partly masked).
Strategies are kept once made: making one takes longer than drawing from it.
"""

from functools import cache
from itertools import pairwise

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

from .arrays import FEW, Made, full, literal, made

SMALL = (0.0, 1.0, -1.0, 2.0, 0.5, -0.5, -4.0, 8.0, -0.0)
EXTREME = (
    100.0,
    -100.0,
    1e3,
    -1e3,
    1e4,
    -1e4,
    11.0,
    11.5,
    -17.5,
    88.5,
    89.5,
    -87.5,
    -104.0,
    709.5,
    710.5,
    -745.5,
    6e-8,
    -6e-8,
    1e-40,
    5e-324,
)
"""Round numbers, which counter-examples end at where they will do; those about the logarithms of the largest and least
of fp16, of fp32 and bf16, and of fp64; and subnormals."""
LOW = (-2e4, -2e6)
"""Beyond -1e4 and -1e6, which some mask with: where all that a row sees is lower, what it does not see shows."""
SIZES = (1.0, 0.01, 8.0, 50.0, 400.0)
OFFSETS = (100.0, -100.0, 1000.0, -1000.0, 1e4, -1e4)
MOST_RUNS = 5


@cache
def _scores(largest: float, hidden: bool) -> st.SearchStrategy[float]:
    numbers = [*SMALL, *(number for number in (*EXTREME, largest, -largest) if abs(number) <= largest)]
    return st.sampled_from(numbers + [-np.inf] * (5 if hidden else 0))


@cache
def _runs(keys: int, largest: float, hidden: bool) -> st.SearchStrategy[list[tuple[float, int]]]:
    run = st.tuples(_scores(largest, hidden), st.integers(1, keys))
    return st.lists(run, min_size=1, max_size=min(keys, MOST_RUNS))


def _of_runs(runs: list[tuple[float, int]], keys: int) -> Made:
    """Runs one after the other, each to its place, the last to the end; a row of -inf alone becomes a row of zeros."""
    edges = [0, *sorted(place for _, place in runs[1:]), keys]
    counts = [end - begin for begin, end in pairwise(edges)]
    kept = [(value, count) for (value, _), count in zip(runs, counts, strict=True) if count]
    if all(value == -np.inf for value, _ in kept):
        kept = [(0.0, count) for _, count in kept]
    array = np.repeat([value for value, _ in kept], [count for _, count in kept])
    words = ["-np.inf" if value == -np.inf else repr(value) for value, _ in kept]
    if len(kept) == 1:
        return full(keys, kept[0][0])
    return Made(array, f"np.repeat([{', '.join(words)}], {[count for _, count in kept]})")


@cache
def _by_seed(largest: float) -> st.SearchStrategy[tuple[str, int, float, float]]:
    sizes = [size for size in SIZES if size * 8 <= largest] or [largest / 8]
    offsets = [offset for offset in OFFSETS if abs(offset) + 8 * sizes[0] <= largest]
    kinds = [
        ("normal", 0.0),
        ("rising", 0.0),
        ("falling", 0.0),
        ("outliers", 0.0),
        *(("normal", offset) for offset in offsets),
    ]
    return st.tuples(st.sampled_from(kinds), st.integers(0, 999), st.sampled_from(sizes)).map(
        lambda drawn: (drawn[0][0], drawn[1], drawn[2], drawn[0][1])
    )


@cache
def _lows(keys: int, largest: float, hidden: bool) -> st.SearchStrategy[Made]:
    """Rows whose scores are all one low number, but for those at -inf."""
    numbers = [low for low in LOW if -low < largest]
    rows = st.sampled_from([*numbers, -largest]).map(lambda number: full(keys, number))
    if not hidden:
        return rows
    return st.one_of(rows, st.builds(lambda row, seed: made("masked", row, seed, 0.5), rows, st.integers(0, 9)))


def _of_seed(kind: str, seed: int, size: float, offset: float, keys: int, largest: float) -> Made:
    if kind in ("rising", "falling"):
        size = min(size, largest / (2.0 * keys))
    row = made(kind, seed, keys, size, offset) if offset else made(kind, seed, keys, size)
    if np.abs(row.array).max() > largest:
        reject()
    return row


KINDS = st.sampled_from(["runs", "runs", "low", "seed", "seed", "seed and mask"])
PLAIN_KINDS = st.sampled_from(["runs", "runs", "low"])
SHARES = st.sampled_from([0.5, 0.1, 0.9])


@cache
@st.composite
def scores_row(draw: st.DrawFn, keys: int, largest: float, hidden: bool, exact: float, plain: bool, low: bool) -> Made:
    """A row of scores with at least one that is not -inf.

    Args:
        largest: magnitude; hidden: whether -inf may occur; exact: if not 0, all scores are multiples of it.
        plain: whether to draw nothing by a seed; low: only rows of one low number.
    """
    kind = "low" if low else draw(PLAIN_KINDS if plain else KINDS)
    if kind in ("runs", "low"):
        row = _of_runs(draw(_runs(keys, largest, hidden)), keys)
        # Runs are drawn in vain, so that a counter-example shrinks to them where they will do: shorter draws win.
        row = draw(_lows(keys, largest, hidden)) if kind == "low" else row
    else:
        drawn = draw(_by_seed(largest))
        row = _of_seed(*drawn, keys, largest)
        if hidden and kind == "seed and mask":
            row = made("masked", row, drawn[1], draw(SHARES))
    if exact:
        return Made(np.round(row.array / exact) * exact, f"np.round({row.code} / {exact!r}) * {exact!r}")
    return row


@cache
def _kinds_of_values(largest: float, plain: bool) -> st.SearchStrategy[tuple[str, float, int]]:
    # How many times its size a matrix of this kind can reach.
    reach = {"one_hot": 1, "full": 1, "counting": 3} | ({} if plain else {"normal": 8, "abs": 8})
    sizes = (1.0, 2.0, 0.1, min(1000.0, largest / 16), largest / 2)
    chosen = [(kind, size if size < largest / 2 else size / most) for kind, most in reach.items() for size in sizes]
    return st.tuples(st.sampled_from(chosen), st.integers(0, 99)).map(lambda drawn: (*drawn[0], drawn[1]))


@cache
@st.composite
def values_matrix(draw: st.DrawFn, keys: int, dims: int, largest: float, plain: bool) -> Made:
    """V (N, D): one-hot columns, equal numbers, small whole numbers, normal or positive ones; small to large.

    Args:
        largest: magnitude; plain: whether to leave out what is drawn by a seed.
    """
    kind, size, seed = draw(_kinds_of_values(largest, plain))
    if kind in ("normal", "abs"):
        matrix = made("normal", seed, (keys, dims), size)
        matrix = matrix if kind == "normal" else Made(np.abs(matrix.array), f"np.abs({matrix.code})")
    elif kind == "full":
        matrix = full((keys, dims), size)
    else:
        matrix = made(kind, keys, dims, size)
    return Made(matrix.array, literal(matrix.array)) if matrix.array.size <= FEW else matrix
