"""FlashAttention-2 under any mask: each query tile goes through a list of the key tiles that it needs.

    for each item (head, q_tile), one CTA each:         grid
        where the tile's list ends;  the first and last key that each row sees
        load Q                                          (not of a tile whose list is empty)
        for j in the list, tiles that all rows see whole:      pipelined num_stages deep
            load K[j], V[j];  S = Q K^T;  online softmax;  O = O * alpha + P V
        for j in the list, the others:
            the same, with the mask
        O = O / l;  store O, LSE

| tensor | times read | times written |
|---|---|---|
| Q | 1 | 0 |
| K | listed key tiles * group | 0 |
| V | listed key tiles * group | 0 |
| SEEN | heads | 0 |
| TILES | heads | 0 |
| O | 0 | 1 |
| LSE | 0 | 1 |

(Lists are made on the host, one set for all heads and sequences: `mask_tensors`. Of K and V those tiles are read
that a list names, of TILES the lists of the tiles that are gone through. With sinks SINKS is read once a query tile.)

Source: Dao, FlashAttention-2 (2023), Algorithm 1; lists of full and of partial blocks: Dong et al., FlexAttention
(2024), section 4.2.
"""

import numpy as np

from ..device.device import Device
from ..dtypes import DTYPES
from ..integers import cdiv, next_power_of_two
from ..launch.outline import outlined_launch
from ..launch.program import Launch, Tensor
from ..problems.attention import AttentionProblem
from .config import Config
from .contract import Schedule
from .coverage import MASKED, Coverage
from .options import BLOCK_M, BLOCK_N, NUM_STAGES, NUM_WARPS, declared, tiled
from .tiles import (
    FP8_P_LOG2,
    LOG2_E,
    key_tensor,
    product_constants,
    query_tensor,
    score_arguments,
    sink_tensors,
    statistic_tensor,
    suited_to_wide_heads,
)

MOST_TILES = 1 << 26
"""Tiles of a score matrix, needed or not, that lists are made of."""


def launches(problem: AttentionProblem, config: Config, device: Device) -> tuple[Launch, ...]:
    """The one launch. Raises: ValueError: tiles that do not divide the mask's blocks, or too many."""
    block_m, block_n = config.block_m, config.block_n
    ctas = problem.batch * problem.heads * cdiv(problem.seqlen_q, block_m)
    tensors = (
        query_tensor(problem),
        key_tensor(problem, "K"),
        key_tensor(problem, "V"),
        *mask_tensors(problem, block_m, block_n),
        query_tensor(problem, "O", "output"),
        statistic_tensor(problem, "LSE"),
        *sink_tensors(problem),
    )
    launch = outlined_launch(
        "masked_flash",
        (ctas, 1, 1),
        tensors,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        dtype=problem.dtype,
        constants=dict(
            **product_constants(problem, block_m, block_n),
            value_dim=problem.value_dim,
            padded_value_dim=next_power_of_two(problem.value_dim),
            always=problem.whole_mask.always,
            p_log2=FP8_P_LOG2 if problem.dtype == "fp8" else 0,
        ),
        arguments=dict(
            heads=problem.heads,
            seqlen_q=problem.seqlen_q,
            seqlen_k=problem.seqlen_k,
            scale_log2=LOG2_E / problem.head_dim**0.5,
            **score_arguments(problem),
        ),
    )
    return (launch,)


SCHEDULE = Schedule(
    name="masked_flash",
    summary="FlashAttention-2 under any mask: query tiles go through lists of the key tiles that they need",
    source="Dong et al. 2024, FlexAttention, section 4.2",
    options=declared(
        tiled(BLOCK_M, 128, 64, 128),
        tiled(BLOCK_N, 64, 32, 64, 128),
        tiled(NUM_WARPS, 4, 4, 8),
        tiled(NUM_STAGES, 3, 2, 3, 4),
    ),
    launches=launches,
    suited=suited_to_wide_heads,
    reads=("head_dim_v", "causal", "window", "mask", "softcap", "sinks"),
    color="#56B4E9",
    outlined=True,
    coverage=Coverage(points=MASKED, shapes="masked"),
)


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
