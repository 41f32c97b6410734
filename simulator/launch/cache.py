"""Keys and values as a cache holds them: in one piece or in pages, all sequences of one length or each of its own."""

import numpy as np

from ..dtypes import DTYPES
from ..problems.attention import AttentionProblem
from ..problems.pages import Numbers, pages_of
from .program import Tensor


def cache_tensors(problem: AttentionProblem, names: str = "KV", splits: tuple[int, ...] = ()) -> tuple[Tensor, ...]:
    """K, V, and TABLE where sequences have pages or lengths of their own.

    In pages K and V are (pages, page, G, D), as vLLM keeps them; else (B, G, N, D).
    TABLE (B, 1 + most pages) int32 has the keys of each sequence, and then its pages; before them its splits, if any.

    Args:
        names: a letter for each tensor of the cache; splits: of each sequence, where they have their own.
    """
    kv_slabs, rows = problem.batch * problem.kv_heads, problem.seqlen_k
    if problem.page:
        kv_slabs = 1 + max(int(numbers.max()) for numbers in _pages(problem))
        rows = problem.page * problem.kv_heads
    tensors = tuple(
        Tensor(name=name, role="input", slabs=kv_slabs, rows=rows, cols=problem.head_dim, dtype=problem.kv_element)
        for name in names
    )
    return (*tensors, _table(problem, splits)) if problem.page or problem.lengths else tensors


def _table(problem: AttentionProblem, splits: tuple[int, ...]) -> Tensor:
    pages = _pages(problem) if problem.page else ()
    table = np.zeros((problem.batch, 1 + max(map(len, pages), default=0)), dtype=np.int32)
    table[:, 0] = problem.key_lengths
    for row, numbers in zip(table, pages, strict=False):
        row[1 : 1 + len(numbers)] = numbers
    if splits:
        table = np.column_stack([np.array(splits, dtype=np.int32), table])
    return Tensor(
        name="TABLE",
        role="input",
        slabs=1,
        rows=table.shape[0],
        cols=table.shape[1],
        dtype=DTYPES["i32"],
        values=table.tobytes(),
    )


def _pages(problem: AttentionProblem) -> tuple[Numbers, ...]:
    return pages_of(problem.page_order, problem.key_lengths, problem.page)
