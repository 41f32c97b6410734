"""How traffic grows: a problem and the size of SRAM go in, blocks and elements moved, without constants, come out.

The paper's M is the SRAM of one SM in elements; here it is `sram_elements`, as M is the query length.
"""

from tilesight.simulator.integers import cdiv
from tilesight.simulator.problems.attention import AttentionProblem


def flash_block_rows(problem: AttentionProblem, sram_elements: int) -> tuple[int, int]:
    """Block sizes that FlashAttention-1 derives from the size of SRAM.

    Args:
        sram_elements: the paper's M, SRAM of one SM in elements (not bytes); at least D.

    Returns:
        (B_r, B_c), rows of a query and of a key block: min(ceil(M / 4D), D) and ceil(M / 4D).

    Raises:
        ValueError: SRAM does not hold one row.

    Source: FlashAttention (2022), Algorithm 1, line 1; Theorem 2 assumes D <= M <= N D.
    """
    if sram_elements < problem.head_dim:
        raise ValueError(f"sram_elements = {sram_elements}: must be at least head_dim = {problem.head_dim} (elements)")
    key_rows = cdiv(sram_elements, 4 * problem.head_dim)
    return min(key_rows, problem.head_dim), key_rows


def flash_io_elements(problem: AttentionProblem, sram_elements: int) -> float:
    """Growth of FlashAttention-1's traffic, Theta(N^2 D^2 / M), in either direction of training [elements].

    Args:
        sram_elements: the paper's M, SRAM of one SM [elements].

    Source: FlashAttention (2022), Theorems 2 and 5.
    """
    slabs = problem.batch * problem.heads
    return slabs * problem.seqlen_q * problem.seqlen_k * problem.head_dim**2 / sram_elements


def standard_io_elements(problem: AttentionProblem) -> int:
    """Growth of standard attention's traffic, Theta(N D + N^2), in either direction of training [elements].

    Source: FlashAttention (2022), Theorems 2 and 5. Where M != N, N D becomes the mean of M D and N D, rounded down.
    """
    m, n = problem.seqlen_q, problem.seqlen_k
    return problem.batch * problem.heads * ((m + n) * problem.head_dim // 2 + m * n)


def least_io_elements(problem: AttentionProblem) -> int:
    """What no exact attention goes below, however large SRAM is: Q, K, V read, O written [elements].

    With SRAM for all of K, N D elements, Theorem 2 has no more than this to offer: Theta(N D). So no algorithm beats
    N^2 D^2 / M for every M.

    Source: FlashAttention (2022), Proposition 3 and its proof.
    """
    queries, keys = problem.heads * problem.seqlen_q, problem.kv_heads * problem.seqlen_k
    return 2 * problem.batch * (queries + keys) * problem.head_dim
