"""Passes over matrices: they are the papers' formulas, and give the figures that the papers print."""

from collections import Counter
from itertools import product

import pytest
from closed_forms import papers
from closed_forms.flash import (
    flash1_backward,
    flash1_forward,
    flash1_kernels,
    flash2_backward,
    flash2_forward,
)
from closed_forms.passes import hbm_bytes, matrix_bytes, product_flop
from closed_forms.standard import Eager, standard_backward, standard_forward
from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator.problems.attention import AttentionProblem

GPT2 = AttentionProblem(batch=64, heads=16, seqlen_q=1024, seqlen_k=1024, head_dim=64)
"""GPT-2 medium, the problem of FlashAttention (2022), Figure 2."""
FIGURE_1 = Eager(mask="added", dropout=True)
SCORES = matrix_bytes(GPT2, "S")
ROWS = matrix_bytes(GPT2, "Q")
OPTIONS = [
    Eager(scale=scale, mask=mask, dropout=dropout, product=written)
    for mask in ("none", "added", "filled")
    for scale, dropout, written in product((False, True), repeat=3)
]


@given(
    problem=st.builds(
        AttentionProblem,
        batch=st.integers(1, 3),
        heads=st.sampled_from((4, 8)),
        kv_heads=st.sampled_from((1, 2, 4)),
        seqlen_q=st.integers(1, 600),
        seqlen_k=st.integers(1, 600),
        head_dim=st.sampled_from((16, 64, 128)),
        dtype=st.sampled_from(("fp8", "fp16", "fp32")),
    ),
    block=st.sampled_from((16, 64, 128)),
)
def test_passes_of_the_forward_algorithms_are_the_formulas(problem: AttentionProblem, block: int) -> None:
    """Algorithms 0 and 1 of FlashAttention, its zeros apart, and Algorithm 1 of FlashAttention-2, to the byte."""
    assert hbm_bytes(problem, standard_forward()) == papers.standard_hbm_bytes(problem)
    zeros, loop = flash1_forward(problem, block)
    assert hbm_bytes(problem, [loop]) == papers.flash1_hbm_bytes(problem, block)
    assert hbm_bytes(problem, [zeros]).total_bytes == papers.flash1_hbm_bytes(problem, problem.seqlen_k).write_bytes
    assert hbm_bytes(problem, flash2_forward(problem, block)) == papers.flash2_hbm_bytes(problem, block, block)


def test_standard_backward_makes_seven_passes_over_scores_and_eight_over_rows() -> None:
    """Algorithm 3: P twice, dP twice, dS three times; dO twice, Q, K, V and their gradients once."""
    backward = standard_backward()
    passes = sum((Counter(kernel.reads) + Counter(kernel.writes) for kernel in backward), Counter[str]())
    assert passes == Counter(P=2, dP=2, dS=3, dO=2, V=1, K=1, Q=1, dV=1, dQ=1, dK=1)
    assert hbm_bytes(GPT2, backward).total_bytes == 7 * SCORES + 8 * ROWS


def test_eighteen_passes_of_the_five_kernels_of_figure_1_are_40_3_gb() -> None:
    """Figure 1 shows matmul, mask, softmax, dropout, matmul; figure 2 says 40.3 GB of forward and backward together."""
    forward = standard_forward(FIGURE_1)
    assert [kernel.name for kernel in forward] == ["scores", "mask", "softmax", "dropout", "output"]
    moved = hbm_bytes(GPT2, forward + standard_backward(FIGURE_1)).total_bytes
    assert moved == 18 * SCORES + 12 * ROWS
    assert f"{moved / 1e9:.1f}" == "40.3"


def test_no_other_kernels_with_mask_and_dropout_move_40_3_gb() -> None:
    """Of 24 sets of kernels three come to it; two of these have no dropout, which figure 1 has."""
    fitting = [
        eager
        for eager in OPTIONS
        if f"{hbm_bytes(GPT2, standard_forward(eager) + standard_backward(eager)).total_bytes / 1e9:.1f}" == "40.3"
    ]
    assert len(fitting) == 3
    assert [eager for eager in fitting if eager.dropout] == [FIGURE_1]


@pytest.mark.parametrize(("block_n", "gigabytes"), [(64, "6.6"), (128, "3.4"), (256, "1.7"), (512, "0.9")])
def test_first_release_reads_what_the_middle_of_figure_2_shows(block_n: int, gigabytes: str) -> None:
    """K and V once, Q and O in each pass but the first, which reads no O: 3 T + 1 passes, numbers of rows set aside."""
    moved = hbm_bytes(GPT2, flash1_kernels(GPT2, block_n)[:1], statistics=False).total_bytes
    assert moved == (3 * 1024 // block_n + 1) * ROWS
    assert f"{moved / 1e9:.1f}" == gigabytes


def test_33_passes_over_rows_in_blocks_of_256_are_4_4_gb() -> None:
    """The release's block at D = 64; figure 2 says 4.4 GB of forward and backward together."""
    moved = hbm_bytes(GPT2, flash1_kernels(GPT2, 256), statistics=False).total_bytes
    assert moved == 33 * ROWS
    assert f"{moved / 1e9:.1f}" == "4.4"


def test_recomputed_scores_cost_a_seventh_product() -> None:
    """825 and 963 GFLOP: the author's count for figure 2 in Dao-AILab/flash-attention issue 741, from a rounded 275."""
    standard = product_flop(GPT2, standard_forward() + standard_backward())
    flash = product_flop(GPT2, flash1_kernels(GPT2, 256))
    assert flash == product_flop(GPT2, flash1_forward(GPT2, 64) + flash1_backward(GPT2, 64))
    assert flash == product_flop(GPT2, flash2_forward(GPT2, 64) + flash2_backward(GPT2, 64))
    assert (standard / 1e9, flash / 1e9) == (pytest.approx(825, abs=0.5), pytest.approx(963, abs=1))
    assert 6 * flash == 7 * standard


@given(st.sampled_from((16, 64, 128)), st.integers(1, 8))
def test_flash2_backward_saves_a_pass_over_o_a_block(block_n: int, blocks: int) -> None:
    """Algorithm 2 has rowsum(dO * O) ready where Algorithm 4 reads O each time; one number a row replaces two."""
    problem = AttentionProblem(batch=1, heads=2, seqlen_q=512, seqlen_k=blocks * block_n, head_dim=64)
    first, second = (
        hbm_bytes(problem, kernels(problem, block_n)[-1:], statistics=False)
        for kernels in (flash1_backward, flash2_backward)
    )
    assert first.read_bytes - second.read_bytes == blocks * matrix_bytes(problem, "O")
    assert first.write_bytes == second.write_bytes


def test_an_unknown_way_to_mask_is_named() -> None:
    """With what there is."""
    with pytest.raises(ValueError, match="mask = 'causal': must be none, added or filled"):
        Eager(mask="causal")  # type: ignore[arg-type]


@pytest.mark.parametrize("kernels", [flash1_forward, flash1_backward, flash1_kernels, flash2_backward])
def test_blocks_without_rows_are_refused(kernels) -> None:  # type: ignore[no-untyped-def]
    """In one line, with what is allowed."""
    with pytest.raises(ValueError, match="block_n = 0: must be an integer of 1 or more"):
        kernels(GPT2, 0)
