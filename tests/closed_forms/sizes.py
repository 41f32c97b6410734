"""Sizes of the tensors of attention, and traffic that no schedule avoids, by arithmetic alone."""

from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.problem import ReadWrite
from tilesight.simulator.schedules.tiles import STATISTIC_BYTES


def slabs(problem: AttentionProblem) -> int:
    """Matrices of queries: B H."""
    return problem.batch * problem.heads


def row_bytes(problem: AttentionProblem) -> int:
    """Size of a row of Q, K or V [B]."""
    return problem.head_dim * problem.element_bytes


def query_bytes(problem: AttentionProblem) -> int:
    """Size of Q [B]."""
    return slabs(problem) * problem.seqlen_q * row_bytes(problem)


def output_bytes(problem: AttentionProblem) -> int:
    """Size of O [B]."""
    return slabs(problem) * problem.seqlen_q * problem.head_dim * problem.output_bytes


def key_bytes(problem: AttentionProblem) -> int:
    """Size of K, and of V [B]."""
    return problem.batch * problem.kv_heads * problem.seqlen_k * row_bytes(problem)


def statistic_bytes(problem: AttentionProblem) -> int:
    """Size of one fp32 number per query row: l, m or LSE [B]."""
    return slabs(problem) * problem.seqlen_q * STATISTIC_BYTES


def score_matrix_bytes(problem: AttentionProblem) -> int:
    """Size of S, or of P, in the working type, rows packed [B].

    Source: Dao et al., FlashAttention (2022), section 2.2: standard attention takes O(N^2) memory.
    """
    return slabs(problem) * problem.seqlen_q * problem.seqlen_k * problem.element_bytes


def compulsory_hbm_bytes(problem: AttentionProblem, *, lse: bool = False) -> ReadWrite:
    """Q, K, V read once, O written once.

    Args:
        problem: every query row counts, also one that a causal mask leaves without keys.
        lse: whether the log-sum-exp of each row is written too.

    Source: Williams et al., Roofline (2009): compulsory misses; FlashAttention (2022), proof of Proposition 3.
    """
    write = output_bytes(problem) + (statistic_bytes(problem) if lse else 0)
    return ReadWrite(read_bytes=query_bytes(problem) + 2 * key_bytes(problem), write_bytes=write)
