"""Arrays that softmax implementations find hard, each made by a short expression that a counter-example can print."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..declare.formats import Array

FEW = 24
"""Arrays of so few elements are printed as they are."""


class Made(NamedTuple):
    """An array and the expression that makes it, in terms of numpy and of the functions below."""

    array: Array
    code: str


def normal(seed: int, shape: int | tuple[int, ...], size: float = 1.0, offset: float = 0.0) -> Array:
    """Normal numbers of a standard deviation (size) about a mean (offset)."""
    return size * np.random.default_rng(seed).standard_normal(shape) + offset


def outliers(seed: int, shape: int | tuple[int, ...], size: float = 1.0) -> Array:
    """N(0, 1) + N(0, 100) * Bernoulli(0.001), times size.

    Source: Shah et al., FlashAttention-3 (2024), section 4.3, which models the outliers of real activations so.
    """
    random = np.random.default_rng(seed)
    plain, wide = random.standard_normal(shape), 10.0 * random.standard_normal(shape)
    return size * np.asarray(plain + wide * (random.random(shape) < 0.001))


def rising(seed: int, count: int, size: float = 1.0) -> Array:
    """Numbers that never fall, so that every one is a new maximum."""
    return size * np.cumsum(np.abs(np.random.default_rng(seed).standard_normal(count)))


def falling(seed: int, count: int, size: float = 1.0) -> Array:
    """Numbers that never rise: the first is the maximum."""
    return -rising(seed, count, size)


def masked(row: Array, seed: int, share: float) -> Array:
    """The row with a share of its elements at -inf, at least one left."""
    random = np.random.default_rng(seed)
    hidden = random.random(len(row)) < share
    hidden[random.integers(len(row))] = False
    return np.where(hidden, -np.inf, row)


def counting(keys: int, dims: int, size: float = 1.0) -> Array:
    """Small whole numbers from -3 to 3, another sequence in every column."""
    return size * ((3 * np.arange(keys)[:, None] + 5 * np.arange(dims)[None, :]) % 7 - 3.0)


def one_hot(keys: int, dims: int, size: float = 1.0) -> Array:
    """Key j has its value in column j modulo D, so that outputs show weights."""
    return np.where(np.arange(keys)[:, None] % dims == np.arange(dims)[None, :], size, 0.0)


def pointers(rows: int, scores: int, dims: int, length: float) -> Array:
    """Queries that each pick one column of K: row i has `length` at i modulo scores, else 0."""
    return np.where(np.arange(rows)[:, None] % scores == np.arange(dims)[None, :], length, 0.0)


def keys_of(x: Array, dims: int) -> Array:
    """Keys (N, D) that give the rows of x (R, N) as scores to queries that point at their first R columns."""
    k = np.zeros((x.shape[1], dims))
    k[:, : x.shape[0]] = x.T
    return k


FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    function.__name__: function
    for function in (counting, falling, keys_of, masked, normal, one_hot, outliers, pointers, rising)
}
"""By name, as expressions use them."""


def made(name: str, *arguments: Any) -> Made:
    """What a function of FUNCTIONS makes of plain arguments, or of arrays that were made themselves."""
    values = [argument.array if isinstance(argument, Made) else argument for argument in arguments]
    texts = [argument.code if isinstance(argument, Made) else repr(argument) for argument in arguments]
    return Made(FUNCTIONS[name](*values), f"{name}({', '.join(texts)})")


def full(shape: int | tuple[int, ...], number: float) -> Made:
    """Equal numbers."""
    return Made(np.full(shape, number), f"np.full({shape}, {number!r})")


def literal(array: Array, name: str = "fp64") -> str:
    """An expression that spells out every element. Args: name: of their format, whose numbers take fewer digits."""
    # Infinities are larger than any number of a smaller format already.
    short = array.astype(np.float16 if name == "fp16" else np.float64 if name == "fp64" else np.float32)
    text = np.array2string(short, separator=", ", threshold=1 << 30, floatmode="unique", max_line_width=10**9)
    words = {"inf": "np.inf", "nan": "np.nan"}
    for word, name in words.items():
        text = text.replace(word, name)
    return f"np.array({' '.join(text.split())})"


def stacked(parts: Sequence[Made]) -> Made:
    """Arrays of one shape along a new first axis."""
    array = np.stack([part.array for part in parts])
    if array.size <= FEW:
        return Made(array, literal(array))
    if len({part.code for part in parts}) == 1 and len(parts) > 1:
        return Made(array, f"np.array([{parts[0].code}] * {len(parts)})")
    return Made(array, f"np.array([{', '.join(part.code for part in parts)}])")
