"""Bytes that arrive at the SMs, by arithmetic alone: the companion of `closed_form`, tensor by tensor.

Loads are counted in whole sectors, ragged edges and causal tiles included, as the tile programs move them.
"""

from collections.abc import Callable
from types import MappingProxyType

from closed_forms.papers import MASK_BYTES, keys_seen_by_query_tiles
from closed_forms.sizes import score_matrix_bytes
from tilesight.simulator.integers import cdiv
from tilesight.simulator.limits import SECTOR_BYTES
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.problem import ReadWrite
from tilesight.simulator.schedules.tiles import LONGEST_REGISTER_ROW, STATISTIC_BYTES, strip_tiles

SOFTMAX_READS = MappingProxyType({"naive": 2, "safe": 3, "online": 2})
"""How often a row softmax reads each element: for its maximum, its sum, its output; it writes each once."""


def _slabs(problem: AttentionProblem) -> int:
    return problem.batch * problem.heads


def _row_bytes(problem: AttentionProblem) -> int:
    return problem.head_dim * problem.element_bytes


def _tiled(length: int, block: int, moved: Callable[[int], int]) -> int:
    """Sum of `moved(extent)` over the tiles of an axis, the last one clipped."""
    return length // block * moved(block) + moved(length % block)


def _sectors(count_bytes: int) -> int:
    return cdiv(count_bytes, SECTOR_BYTES) * SECTOR_BYTES


def naive_fill_bytes(problem: AttentionProblem, block_m: int, block_n: int, *, by_tma: bool = False) -> dict[str, int]:
    """Bytes that reach SRAM in naive attention, over its three launches, tensor by tensor [B].

    Q once per strip of key tiles, K and V once per query tile, P once, S once (twice where rows exceed the registers).

    Args:
        block_m, block_n: rows and columns of a score tile; by_tma: K comes in whole boxes, its ragged end filled up.

    Source: FlashAttention (2022), Algorithm 0, by blocks; whole sectors.
    """
    m, n, element, slabs = problem.seqlen_q, problem.seqlen_k, problem.element_bytes, _slabs(problem)
    queries, keys = _one_pass(problem, m, block_m), _one_pass(problem, n, block_n)
    boxes = _one_pass(problem, cdiv(n, block_n) * block_n, block_n) if by_tma else keys
    scores = slabs * m * _sectors(n * element)
    return {
        "Q": queries * cdiv(cdiv(n, block_n), strip_tiles(problem, block_m, block_n)),
        "K": boxes * cdiv(m, block_m),
        "S": scores * _softmax_sweeps(problem),
        "P": slabs * m * _tiled(n, block_n, lambda cols: _sectors(cols * element)),
        "V": keys * cdiv(m, block_m),
    }


def unfused_fill_bytes(
    problem: AttentionProblem, block_m: int, block_n: int, *, by_tma: bool = False
) -> dict[str, int]:
    """Bytes that reach SRAM in unfused attention, over its six launches, tensor by tensor [B].

    As naive, and each intermediate once more; the mask once per head.

    Args:
        block_m, block_n, by_tma: as for `naive_fill_bytes`.

    Source: FlashAttention (2022), section 2.2, by blocks; whole sectors.
    """
    fill = naive_fill_bytes(problem, block_m, block_n, by_tma=by_tma)
    scores = fill["S"] // _softmax_sweeps(problem)
    return {
        "Q": fill["Q"],
        "K": fill["K"],
        "S": scores,
        "S_scaled": scores,
        "MASK": _slabs(problem) * problem.seqlen_q * _sectors(problem.seqlen_k * MASK_BYTES),
        "S_masked": fill["S"],
        "P": scores,
        "P_dropped": fill["P"],
        "V": fill["V"],
    }


def flash1_fill_bytes(problem: AttentionProblem, block_m: int, block_n: int) -> dict[str, int]:
    """Bytes that reach SRAM in FlashAttention-1, tensor by tensor: Q, O, l and m once per key tile [B].

    Args:
        block_m, block_n: rows of a query tile and of a key tile.

    Source: FlashAttention (2022), Algorithm 1, lines 6 and 8; whole sectors.
    """
    m, key_tiles = problem.seqlen_q, cdiv(problem.seqlen_k, block_n)
    queries = _one_pass(problem, m, block_m) * key_tiles
    statistic = _slabs(problem) * key_tiles * _tiled(m, block_m, lambda rows: _sectors(rows * STATISTIC_BYTES))
    keys = _one_pass(problem, problem.seqlen_k, block_n)
    return {"Q": queries, "K": keys, "V": keys, "O": queries, "L": statistic, "MAX": statistic}


def flash2_fill_bytes(problem: AttentionProblem, block_m: int, block_n: int, *, by_tma: bool = False) -> dict[str, int]:
    """Bytes that reach SRAM in FlashAttention-2, tensor by tensor: K and V once per query tile that sees them [B].

    Args:
        block_m, block_n: rows of a query tile and of a key tile.
        by_tma: tiles come in whole boxes, ragged ends filled up (`flash2_tma`).

    Source: FlashAttention-2 (2023), Algorithm 1; section 3.1.1 (blocks above the diagonal are skipped).
    """
    boxed = [cdiv(seen, block_n) * block_n for seen in keys_seen_by_query_tiles(problem, block_m)]
    keys = sum(_one_pass(problem, rows if by_tma else min(problem.seqlen_k, rows), block_n) for rows in boxed)
    queries = cdiv(problem.seqlen_q, block_m) * block_m if by_tma else problem.seqlen_q
    return {"Q": _one_pass(problem, queries, block_m), "K": keys, "V": keys}


def softmax_hbm_bytes(problem: AttentionProblem, variant: str) -> ReadWrite:
    """Traffic of a row softmax in the two-level model: with the one write, 3, 4 or 3 accesses an element.

    Args:
        variant: naive, safe or online.

    Source: Milakov and Gimelshein, Online normalizer calculation for softmax (2018), sections 2 and 3.
    """
    scores = score_matrix_bytes(problem)
    return ReadWrite(read_bytes=SOFTMAX_READS[variant] * scores, write_bytes=scores)


def online_softmax_fill_bytes(
    problem: AttentionProblem, block_m: int, block_n: int, variant: str = "online"
) -> dict[str, int]:
    """Bytes that reach SRAM, or that L1 has, in a row softmax: the strip of a CTA once per pass over it [B].

    Args:
        block_m, block_n: rows and columns of a block; variant: naive, safe or online.

    Source: Milakov and Gimelshein (2018), Algorithms 1 to 3, by blocks; whole sectors.
    """
    m, n, element = problem.seqlen_q, problem.seqlen_k, problem.element_bytes
    if block_n >= n:
        # Rows are packed: a block of whole rows is one range.
        strips = _tiled(m, block_m, lambda rows: _sectors(rows * n * element))
    else:
        strips = m * _tiled(n, block_n, lambda cols: _sectors(cols * element))
    return {"X": SOFTMAX_READS[variant] * _slabs(problem) * strips}


def _one_pass(problem: AttentionProblem, rows: int, block: int) -> int:
    """Every query head reads a matrix of rows x D once, in tiles of whole rows [B]."""
    return _slabs(problem) * _tiled(rows, block, lambda extent: _sectors(extent * _row_bytes(problem)))


def _softmax_sweeps(problem: AttentionProblem) -> int:
    return 1 if problem.seqlen_k <= LONGEST_REGISTER_ROW else 2
