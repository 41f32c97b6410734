"""Memory in training: what autograd keeps, at the published lengths, and where it ends."""

import pytest
from closed_forms.flash import flash1_backward, flash1_forward
from closed_forms.passes import matrix_bytes
from closed_forms.standard import Eager, standard_backward, standard_forward
from closed_forms.training_memory import kept_bytes, longest_seqlen, peak_bytes
from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator.problems.attention import AttentionProblem

TABLE_21_MIB = {128: 36, 256: 104, 512: 336, 1024: 1184, 2048: 4416, 4096: 17024}
"""PyTorch's row of FlashAttention (2022), Table 21: B = 16, H = 8, D = 64, fp16, neither dropout nor mask."""


def kernels(eager: Eager) -> tuple[tuple, tuple]:
    return standard_forward(eager), standard_backward(eager)


def square(seqlen: int) -> AttentionProblem:
    return AttentionProblem(batch=16, heads=8, seqlen_q=seqlen, seqlen_k=seqlen, head_dim=64)


@pytest.mark.parametrize("seqlen", TABLE_21_MIB)
def test_published_memory_is_four_score_matrices_and_ten_of_rows(seqlen: int) -> None:
    """P, dP, their product and dS live at once; with them the model has Q, K, V, O, dO and dV, the table ten."""
    problem = square(seqlen)
    scores, rows = matrix_bytes(problem, "S"), matrix_bytes(problem, "Q")
    peak = peak_bytes(problem, *kernels(Eager(product=True)))
    assert peak == max(4 * scores + 6 * rows, scores + 8 * rows)
    assert TABLE_21_MIB[seqlen] * 2**20 == 4 * scores + 10 * rows


def test_dropout_keeps_five_bytes_a_score_and_without_it_two() -> None:
    """Korthikanti et al. (2022), section 4.1: 5 a s^2 b; a mask keeps nothing."""
    problem = square(1024)
    scores, rows = matrix_bytes(problem, "Z"), matrix_bytes(problem, "Q")
    for eager, kept in ((Eager(mask="added", dropout=True), 5), (Eager(dropout=True), 5), (Eager(mask="filled"), 2)):
        assert kept_bytes(problem, *kernels(eager)) == kept * scores + 4 * rows


@given(st.integers(1, 2000), st.integers(1, 24))
def test_flash_keeps_rows_alone(seqlen: int, layers: int) -> None:
    """Q, K, V, O, l, m: 520 B a token and head at D = 64, whatever the length; at the peak dO and three gradients."""
    problem = square(seqlen)
    forward, backward = flash1_forward(problem, 256), flash1_backward(problem, 256)
    assert kept_bytes(problem, forward, backward) == 16 * 8 * seqlen * 520
    assert peak_bytes(problem, forward, backward, layers) == 16 * 8 * seqlen * (520 * layers + 512)


@given(st.integers(1, 10**12))
def test_one_token_more_is_out_of_memory(capacity_bytes: int) -> None:
    """Bisection ends on the edge."""

    def peak(problem: AttentionProblem) -> int:
        return peak_bytes(problem, *kernels(Eager(dropout=True)), layers=24)

    longest = longest_seqlen(square(1), capacity_bytes, peak)
    assert longest == 0 or peak(square(longest)) <= capacity_bytes < peak(square(longest + 1))


def test_no_layers_are_refused() -> None:
    """With what is allowed."""
    with pytest.raises(ValueError, match="layers = 0: must be an integer of 1 or more"):
        peak_bytes(square(1), *kernels(Eager()), layers=0)
