"""Device memory of attention in training: kernels of both passes go in, bytes kept and bytes at the peak come out.

A matrix lives from the kernel that writes it to the last one that reads it, backward pass included: that is what
autograd keeps. Q, K, V, O and all gradients of these stay. Everything else in a model, weights first, is left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from closed_forms.passes import Kernel, matrix_bytes
from tilesight.simulator.problems.attention import MAX_SEQLEN, AttentionProblem

Kernels = Sequence[Kernel]
INPUTS = ("Q", "K", "V")
STAY = frozenset({*INPUTS, "O", "dO", "dQ", "dK", "dV"})


def kept_bytes(problem: AttentionProblem, forward: Kernels, backward: Kernels) -> int:
    """What one layer holds between its forward and its backward pass: Q, K, V, O and what the backward pass reads [B].

    Source: Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models (2022), section 4.1:
    5 B a score with dropout in fp16, for P, what dropout leaves of it, and a byte that says which.
    """
    written = {matrix for kernel in forward for matrix in kernel.writes}
    read = {matrix for kernel in backward for matrix in kernel.reads}
    return sum(matrix_bytes(problem, matrix) for matrix in {*INPUTS, "O", *(written & read)})


def peak_bytes(problem: AttentionProblem, forward: Kernels, backward: Kernels, layers: int = 1) -> int:
    """Most that is held at once: in the last layer, while all the others keep theirs [B].

    Args:
        forward, backward: kernels of one layer.
        layers: attention layers of the model, 1 or more.

    Raises:
        ValueError: there is no layer.
    """
    if layers < 1:
        raise ValueError(f"layers = {layers}: must be an integer of 1 or more")
    kernels = (*forward, *backward)
    last_use = {name: place for place, kernel in enumerate(kernels) for name in (*kernel.reads, *kernel.writes)}
    alive, peak = set(INPUTS), 0
    for place, kernel in enumerate(kernels):
        alive |= {"dO"} if place == len(forward) else set()
        alive |= kernel.writes.keys()
        peak = max(peak, sum(matrix_bytes(problem, matrix) for matrix in alive))
        alive -= {matrix for matrix in alive - STAY if last_use[matrix] == place}
    return (layers - 1) * kept_bytes(problem, forward, backward) + peak


def longest_seqlen(problem: AttentionProblem, capacity_bytes: int, peak: Callable[[AttentionProblem], int]) -> int:
    """Longest sequence (M = N) that fits; the next one is out of memory.

    Args:
        problem: gives everything but M and N.
        capacity_bytes: device memory to fit into [B].
        peak: bytes at the peak of a problem; must not fall with its length.

    Returns:
        Tokens, from 0 (nothing fits) to 2^24, the longest that a problem can have.
    """
    fits, too_long = 0, MAX_SEQLEN + 1
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if peak(replace(problem, seqlen_q=middle, seqlen_k=middle)) <= capacity_bytes:
            fits = middle
        else:
            too_long = middle
    return fits
