"""The papers' formulas: bytes, operations and memory of attention by arithmetic alone.

The engine must agree with these where caches play no part, and the two never import each other.
The *two-level model* is that of the papers: SRAM and HBM, with no cache between them,
so that a schedule reads from HBM whatever it loads.
"""

from dataclasses import dataclass
from functools import partial

from closed_forms import training_memory
from closed_forms.sizes import (
    compulsory_hbm_bytes,
    key_bytes,
    output_bytes,
    query_bytes,
    row_bytes,
    score_matrix_bytes,
    slabs,
    statistic_bytes,
)
from tilesight.simulator.integers import cdiv
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.problem import ReadWrite
from tilesight.simulator.residency.device_memory import allocated_bytes
from tilesight.simulator.schedules.tiles import SCORE_PITCH_BYTES

MASK_BYTES = 1
"""Size of an element of a mask [B]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """What a forward pass computes.

    Args:
        executed_flop: multiplications and additions of the two products, masked scores included [FLOP];
        other_flop: all others [FLOP].
        exp_count: exponentials, logarithms and reciprocals (the MUFU pipe).
    """

    executed_flop: int
    other_flop: int
    exp_count: int


def standard_hbm_bytes(problem: AttentionProblem) -> ReadWrite:
    """Traffic of standard attention: three operations, each of which reads its inputs and writes its output once.

    Q, K read and S written; S read and P written; P, V read and O written. A causal mask saves nothing.

    Source: FlashAttention (2022), Algorithm 0.
    """
    compulsory, scores = compulsory_hbm_bytes(problem), score_matrix_bytes(problem)
    return ReadWrite(
        read_bytes=compulsory.read_bytes + 2 * scores,
        write_bytes=compulsory.write_bytes + 2 * scores,
    )


def unfused_hbm_bytes(problem: AttentionProblem) -> ReadWrite:
    """Traffic of six operations: scores, scale, mask, softmax, dropout, output.

    Five score matrices are written and read again. The mask is read once per head, a dropout mask written,
    a byte an element each.

    Source: FlashAttention (2022), section 2.2 (masking applied to S, dropout to P), counted as its Algorithm 0.
    """
    compulsory, scores = compulsory_hbm_bytes(problem), score_matrix_bytes(problem)
    mask = scores // problem.element_bytes * MASK_BYTES
    return ReadWrite(
        read_bytes=compulsory.read_bytes + 5 * scores + mask,
        write_bytes=compulsory.write_bytes + 5 * scores + mask,
    )


def flash1_hbm_bytes(problem: AttentionProblem, block_n: int) -> ReadWrite:
    """Traffic of FlashAttention-1 in the two-level model.

    K and V are read once per query head. For every key block, Q, O and the fp32 statistics l and m are read,
    and O, l and m are written. Setting O, l and m at the start is left out, as is any causal skip.

    Args:
        block_n: B_c, rows of a key block; any positive number.

    Source: FlashAttention (2022), Algorithm 1, lines 5 to 13.
    """
    key_blocks = cdiv(problem.seqlen_k, block_n)
    both = output_bytes(problem) + 2 * statistic_bytes(problem)
    return ReadWrite(
        read_bytes=2 * key_bytes(problem) * problem.head_group + key_blocks * (query_bytes(problem) + both),
        write_bytes=key_blocks * both,
    )


def flash2_hbm_bytes(problem: AttentionProblem, block_m: int, block_n: int) -> ReadWrite:
    """Traffic of FlashAttention-2 in the two-level model: Q once, K and V once per query tile, O and LSE written once.

    Args:
        block_m: rows of a query tile; any positive number.
        block_n: rows of a key tile; counts only under a causal mask, which skips whole key tiles.

    Source: Dao, FlashAttention-2 (2023), Algorithm 1.
    """
    keys = sum(
        min(problem.seqlen_k, cdiv(seen, block_n) * block_n) for seen in keys_seen_by_query_tiles(problem, block_m)
    )
    return ReadWrite(
        read_bytes=query_bytes(problem) + 2 * slabs(problem) * keys * row_bytes(problem),
        write_bytes=output_bytes(problem) + statistic_bytes(problem),
    )


def peak_memory_bytes(problem: AttentionProblem, schedule: str) -> int:
    """Most device memory that a schedule holds at once [B].

    Q, K, V and O always; beside them naive holds S and P during its softmax; unfused the mask, P before and after
    dropout and the dropout mask during its dropout; flash1 l and m; flash2 and flash2_tma the log-sum-exp.
    In blocks of torch's allocator, in this order; without the descriptors of specialised warps.
    Scratch is freed after its last use; rows of M x N matrices start at line boundaries.
    online_softmax holds X and Y and nothing else, their rows packed.

    Args:
        schedule: naive, unfused, flash1, flash2, flash2_tma or online_softmax.

    Raises:
        ValueError: there is no formula for the schedule.

    Source: FlashAttention (2022), Algorithm 0, section 2.2 and Theorem 1 (O(N) beyond inputs and output);
    FlashAttention-2 (2023), section 3.1.1 (only the log-sum-exp is kept).
    """
    heads, statistic = slabs(problem), statistic_bytes(problem)
    scores, mask = (
        problem.seqlen_q * cdiv(problem.seqlen_k * element, SCORE_PITCH_BYTES) * SCORE_PITCH_BYTES
        for element in (problem.element_bytes, MASK_BYTES)
    )
    keys = key_bytes(problem)
    given = (query_bytes(problem), keys, keys, output_bytes(problem))
    held = {
        "naive": (*given, heads * scores, heads * scores),
        "unfused": (*given, mask, heads * scores, heads * scores, heads * mask),
        "flash1": (*given, statistic, statistic),
        "flash2": (*given, statistic),
        "flash2_tma": (*given, statistic),
        "online_softmax": (score_matrix_bytes(problem),) * 2,
    }
    if schedule not in held:
        raise ValueError(f"schedule = {schedule!r}: must be one of {', '.join(held)}")
    return allocated_bytes(held[schedule])


def longest_seqlen(problem: AttentionProblem, schedule: str, capacity_bytes: int) -> int:
    """Longest sequence (M = N) whose `peak_memory_bytes` fit.

    Args:
        problem: gives everything but M and N.
        schedule: naive, unfused, flash1 or flash2.
        capacity_bytes: device memory to fit into [B].

    Returns:
        Tokens, from 0 (nothing fits) to 2^24, the longest that a problem can have.

    Raises:
        ValueError: there is no formula for the schedule.

    Source: `peak_memory_bytes`, inverted by bisection.
    """
    return training_memory.longest_seqlen(problem, capacity_bytes, partial(peak_memory_bytes, schedule=schedule))


def benchmark_flop(problem: AttentionProblem) -> int:
    """Operations by which papers divide time: 4 M N D a head, half of it under a causal mask [FLOP].

    `problem.matmul_flop` counts the causal triangle exactly instead.

    Source: FlashAttention-2 (2023), section 4.1.
    """
    flop = 4 * slabs(problem) * problem.seqlen_q * problem.seqlen_k * problem.head_dim
    return flop // 2 if problem.causal else flop


def standard_operations(problem: AttentionProblem) -> Operations:
    """Operations of standard attention: every score scaled, reduced by its row's maximum, summed and divided.

    Source: FlashAttention (2022), Algorithm 0. Comparisons are no FLOP; a causal mask saves nothing, here and below.
    """
    scores = slabs(problem) * problem.seqlen_q * problem.seqlen_k
    return Operations(executed_flop=4 * scores * problem.head_dim, other_flop=4 * scores, exp_count=scores)


def flash1_operations(problem: AttentionProblem, block_n: int) -> Operations:
    """Operations of FlashAttention-1.

    For every score: scale, subtract the maximum, sum. For every key block and element of O: times its factor,
    plus a factor times P V (3). For every key block and row: two exponentials and a reciprocal, l_new (3), factors (2).

    Args:
        block_n: B_c, rows of a key block.

    Source: FlashAttention (2022), Algorithm 1, lines 9 to 13.
    """
    rows = slabs(problem) * problem.seqlen_q
    scores, key_blocks = rows * problem.seqlen_k, cdiv(problem.seqlen_k, block_n)
    return Operations(
        executed_flop=4 * scores * problem.head_dim,
        other_flop=3 * scores + key_blocks * rows * (3 * problem.head_dim + 5),
        exp_count=scores + 3 * key_blocks * rows,
    )


def flash2_operations(problem: AttentionProblem, block_n: int) -> Operations:
    """Operations of FlashAttention-2.

    For every score: scale, subtract the maximum, sum. For every key block: O rescaled (1 an element),
    l updated (2 a row), one exponential a row. At the end O divided by l, LSE = m + log(l).

    Args:
        block_n: B_c, rows of a key block.

    Source: FlashAttention-2 (2023), section 3.1 (fewer non-matmul FLOPs), Algorithm 1, lines 8 to 13.
    """
    rows = slabs(problem) * problem.seqlen_q
    scores, key_blocks = rows * problem.seqlen_k, cdiv(problem.seqlen_k, block_n)
    return Operations(
        executed_flop=4 * scores * problem.head_dim,
        other_flop=3 * scores + key_blocks * rows * (problem.head_dim + 2) + rows * (problem.head_dim + 1),
        exp_count=scores + key_blocks * rows + 2 * rows,
    )


def keys_seen_by_query_tiles(problem: AttentionProblem, block_m: int) -> list[int]:
    """How many keys the last row of each query tile sees; rows above it see no more."""
    m, n = problem.seqlen_q, problem.seqlen_k
    if not problem.causal:
        return [n] * cdiv(m, block_m)
    last_rows = (min(begin + block_m, m) - 1 for begin in range(0, m, block_m))
    return [max(0, row + 1 + n - m) for row in last_rows]
