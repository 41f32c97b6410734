"""Keys and values as a cache holds them: in one piece or in pages, all sequences of one length or each of its own."""

import numpy as np

from ..dtypes import DTYPES
from ..integers import cdiv
from ..problems.attention import AttentionProblem
from .program import Tensor

SEED = 0
"""Of the order of random pages: a pool in use has them anywhere."""


def cache_tensors(problem: AttentionProblem, names: str = "KV") -> tuple[Tensor, ...]:
    """K, V, and TABLE where sequences have pages or lengths of their own.

    In pages K and V are (pages, page, G, D), as vLLM keeps them; else (B, G, N, D).
    TABLE (B, 1 + most pages) int32 has the keys of each sequence, and then its pages.

    Args:
        names: a letter for each tensor of the cache.
    """
    kv_slabs, rows = problem.batch * problem.kv_heads, problem.seqlen_k
    if problem.page:
        kv_slabs = sum(cdiv(length, problem.page) for length in problem.key_lengths)
        rows = problem.page * problem.kv_heads
    tensors = tuple(
        Tensor(name=name, role="input", slabs=kv_slabs, rows=rows, cols=problem.head_dim, dtype=problem.kv_element)
        for name in names
    )
    return (*tensors, _table(problem)) if problem.page or problem.lengths else tensors


def _table(problem: AttentionProblem) -> Tensor:
    lengths = np.array(problem.key_lengths, dtype=np.int32)
    pages = -(-lengths // problem.page) if problem.page else np.zeros_like(lengths)
    numbers = np.arange(pages.sum(), dtype=np.int32)
    if problem.page_order == "random":
        numbers = np.random.default_rng(SEED).permutation(numbers)
    table = np.zeros((len(lengths), 1 + pages.max()), dtype=np.int32)
    table[:, 0] = lengths
    table[:, 1:][np.arange(pages.max()) < pages[:, None]] = numbers
    return Tensor(
        name="TABLE",
        role="input",
        slabs=1,
        rows=table.shape[0],
        cols=table.shape[1],
        dtype=DTYPES["i32"],
        values=table.tobytes(),
    )
