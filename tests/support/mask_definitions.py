"""Masks by their definitions, score by score: the oracle of `problems.mask`, of key lists and of kernels."""

import numpy as np
from hypothesis import strategies as st


def seen_by_definition(pattern: str, m: int, n: int, *, causal: bool = False, window: int = 0) -> np.ndarray:
    """Whether query i, which stands at key i + N - M, sees key j: bool (M, N)."""
    kind, _, rest = pattern.partition(":")
    i, j = np.arange(m)[:, None], np.arange(n)[None, :]
    place = i + n - m
    before = (j <= place) & (j > place - (window or n + m))
    plain = before if causal or window else np.ones((m, n), bool)
    if kind == "prefix":
        return before | (j < int(rest))
    if kind == "first":
        return before | (j < int(rest)) & (j <= place)
    if kind == "band":
        return abs(place - j) <= int(rest)
    if kind == "documents":
        document = np.repeat(np.arange(rest.count(",") + 1), [int(length) for length in rest.split(",")])
        return plain & (document[:, None] == document[None, :])
    if kind == "blocks":
        through = np.array([list(map(int, row)) for row in rest.split("/")], bool)
        return plain & np.kron(through, np.ones((m // through.shape[0], n // through.shape[1]), bool))
    return plain


@st.composite
def masked_lengths(draw: st.DrawFn, block: int = 1) -> tuple[str, int, int, bool, int]:
    """A pattern, M, N, whether the rest is causal, and its window. Args: block: divides blocks of scores."""
    kind = draw(st.sampled_from(("", "prefix", "first", "band", "documents", "blocks")))
    m, n, window = draw(st.integers(1, 90)), draw(st.integers(1, 90)), draw(st.sampled_from((0, 0, 1, 9, 40)))
    causal = draw(st.booleans()) or window > 0 or kind in ("prefix", "first")
    keys = draw(st.sampled_from((1, 5, 16, 33, 100)))
    if kind == "documents":
        lengths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=5))
        return f"documents:{','.join(map(str, lengths))}", sum(lengths), sum(lengths), causal, window
    if kind == "blocks":
        rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 4))
        words = ["".join(draw(st.sampled_from("01")) for _ in range(columns)) for _ in range(rows)]
        m, n = (count * block * draw(st.integers(1, 2)) for count in (rows, columns))
        return f"blocks:{'/'.join(words)}", m, n, causal, window
    if kind == "band":
        return f"band:{keys}", m, n, False, 0
    if kind == "first":
        return f"first:{keys}", m, n, True, window or 7
    return f"{kind}:{keys}" if kind else "", m, n, causal, window
