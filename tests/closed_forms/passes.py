"""Passes over matrices in device memory: kernels go in, as lists of what they read and write; bytes and FLOP come out.

The model has two levels, as the papers have: whatever a kernel loads comes from device memory, once for each pass.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.problem import ReadWrite

QUERY_ROWS = frozenset({"Q", "dQ"})
OUTPUT_ROWS = frozenset({"O", "dO"})
KEY_ROWS = frozenset({"K", "V", "dK", "dV"})
VALUE_ROWS = frozenset({"V", "dV"})
"""Of the width of a value, which need not be that of a key."""
STATISTICS = frozenset({"l", "m", "LSE", "delta"})
"""An fp32 number a query row."""
DROPOUT_MASK = "Z"
"""A byte a score. Every other name is a matrix of scores in the working type."""
STATISTIC_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """What a kernel, or an operation of several, reads and writes.

    Args:
        name: in a word.
        reads, writes: matrix -> passes over it.
        products: matrix products of 2 M N D FLOP a head.
    """

    name: str
    reads: Mapping[str, int] = field(default_factory=dict)
    writes: Mapping[str, int] = field(default_factory=dict)
    products: int = 0


def matrix_bytes(problem: AttentionProblem, matrix: str) -> int:
    """Size of a matrix over all heads, rows packed [B].

    Args:
        problem: gives the shape and the types; gradients have those of what they are gradients of.
        matrix: Q, K, V, O or a gradient of one; l, m, LSE or delta; Z; any other name is a score matrix.
    """
    heads = problem.batch * problem.heads
    rows, element = heads * problem.seqlen_q, problem.element_bytes
    if matrix in QUERY_ROWS:
        return rows * problem.head_dim * element
    if matrix in OUTPUT_ROWS:
        return rows * problem.value_dim * problem.output_bytes
    if matrix in KEY_ROWS:
        cols = problem.value_dim if matrix in VALUE_ROWS else problem.head_dim
        return problem.batch * problem.kv_heads * problem.seqlen_k * cols * element
    if matrix in STATISTICS:
        return rows * STATISTIC_BYTES
    return rows * problem.seqlen_k * (1 if matrix == DROPOUT_MASK else element)


def hbm_bytes(problem: AttentionProblem, kernels: Iterable[Kernel], *, statistics: bool = True) -> ReadWrite:
    """Traffic with device memory where no cache serves any of it [B].

    Args:
        problem: full attention; a causal mask saves nothing here.
        kernels: one after the other.
        statistics: whether numbers of a row count, l, m, LSE and delta.
    """
    kernels = tuple(kernels)

    def moved(passes: Mapping[str, int]) -> int:
        counted = {matrix: times for matrix, times in passes.items() if statistics or matrix not in STATISTICS}
        return sum(times * matrix_bytes(problem, matrix) for matrix, times in counted.items())

    return ReadWrite(
        read_bytes=sum(moved(kernel.reads) for kernel in kernels),
        write_bytes=sum(moved(kernel.writes) for kernel in kernels),
    )


def product_flop(problem: AttentionProblem, kernels: Iterable[Kernel]) -> int:
    """Multiplications and additions of the matrix products [FLOP]; a causal mask saves nothing here."""
    product = 2 * problem.batch * problem.heads * problem.seqlen_q * problem.seqlen_k * problem.head_dim
    return product * sum(kernel.products for kernel in kernels)
