"""Which key tiles each query tile needs, as lists that kernels go through: of a mask, tensors with values."""

import numpy as np

from ..dtypes import DTYPES
from ..integers import cdiv
from ..problems.attention import AttentionProblem
from .program import Tensor

MOST_TILES = 1 << 26
"""Tiles of a score matrix, needed or not, that lists are made of."""


def mask_tensors(problem: AttentionProblem, block_m: int, block_n: int) -> tuple[Tensor, Tensor]:
    """SEEN and TILES of a problem's mask, for tiles of `block_m` queries and `block_n` keys.

    SEEN (M, 2) int32: the first key that each query sees, and the one after the last. TILES (1, entries) int32: three
    entries a query tile, where its list begins, where the tiles begin that need the mask, and where it ends; then the
    lists, numbers of key tiles, those that all queries see whole before those that need the mask.

    Raises:
        ValueError: tiles do not divide the blocks of the mask, or there are more than `MOST_TILES`.
    """
    needed, whole = key_tiles(problem, block_m, block_n)
    order = np.argwhere(needed)
    masked = ~whole[tuple(order.T)]
    order = order[np.lexsort((order[:, 1], masked, order[:, 0]))]
    ends = np.cumsum(needed.sum(axis=1))
    begins = ends - needed.sum(axis=1)
    header = 3 * len(needed) + np.stack((begins, begins + whole.sum(axis=1), ends), axis=1)
    entries = np.concatenate((header.ravel(), order[:, 1], [0])).astype(np.int32)
    rows = np.stack(problem.whole_mask.visible(np.arange(problem.seqlen_q), problem.seqlen_q, problem.seqlen_k), axis=1)
    return _tensor("SEEN", rows.astype(np.int32)), _tensor("TILES", entries[None])


def key_tiles(problem: AttentionProblem, block_m: int, block_n: int) -> tuple[np.ndarray, np.ndarray]:
    """Which tiles of scores any query sees a key of, and which all queries see whole: bool, (query, key tiles).

    Raises:
        ValueError: as `mask_tensors`.
    """
    m, n, mask = problem.seqlen_q, problem.seqlen_k, problem.whole_mask
    q_tiles, k_tiles = cdiv(m, block_m), cdiv(n, block_n)
    if q_tiles * k_tiles > MOST_TILES:
        raise ValueError(
            f"block_m = {block_m}, block_n = {block_n}: make {q_tiles} x {k_tiles} tiles of scores, of which lists are"
            f" made; must be at most {MOST_TILES} (2^26)"
        )
    blocks = mask.blocks
    for name, block, length, count in (("block_m", block_m, m, len(blocks)), ("block_n", block_n, n, len(blocks[0]))):
        if count > 1 and length // count % block:
            raise ValueError(f"{name} = {block}: must divide the {length // count} of a block of the mask")
    rows = np.arange(q_tiles) * block_m
    first, all_last = (edge[:, None] for edge in mask.visible(rows, m, n))
    all_first, last = (edge[:, None] for edge in mask.visible(np.minimum(rows + block_m, m) - 1, m, n))
    begin = np.arange(k_tiles) * block_n
    end = begin + block_n
    needed = (begin < last) & ((end > first) | (begin < mask.always))
    whole = (end <= all_last) & ((begin >= all_first) | (end <= mask.always) | (all_first <= mask.always))
    through = blocks[rows[:, None] * len(blocks) // m, begin * len(blocks[0]) // n]
    return needed & through, needed & whole & through


def _tensor(name: str, values: np.ndarray) -> Tensor:
    return Tensor(
        name=name,
        role="input",
        slabs=1,
        rows=values.shape[0],
        cols=values.shape[1],
        dtype=DTYPES["i32"],
        values=values.tobytes(),
    )
