"""The judge itself: what passes, what does not."""

import pytest
import torch
from kernels.interpreted.inputs import INPUTS, draw
from tilesight.kernels.reference import FP8_SUM_EPS, attention, judge, judge_attention, operand_of
from tilesight.simulator.problems.attention import AttentionProblem

PROBLEM = AttentionProblem(batch=1, heads=2, kv_heads=1, seqlen_q=40, seqlen_k=30, head_dim=32, causal=True)


def test_the_reference_agrees_with_torch() -> None:
    """fp64, no mask, grouped heads: scaled_dot_product_attention gives the same."""
    problem = AttentionProblem(batch=2, heads=4, kv_heads=2, seqlen_q=20, seqlen_k=30, head_dim=32, dtype="fp32")
    q, k, v = (x.double() for x in draw(problem))
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    ours = attention(q, k, v)
    assert torch.allclose(ours.o, theirs, rtol=1e-12, atol=1e-14)


def test_rows_that_see_no_key_are_zero() -> None:
    """M = N + 10 under a causal mask: the first ten rows."""
    o, lse, _ = attention(*draw(PROBLEM), causal=True)
    assert (o[:, :, :10] == 0).all()
    assert (lse[:, :, :10] == float("-inf")).all()
    assert torch.isfinite(lse[:, :, 10:]).all()


@pytest.mark.parametrize("kind", INPUTS)
def test_the_plain_computation_passes(kind: str) -> None:
    """The working-precision reference is within twice its own error."""
    q, k, v = draw(PROBLEM, kind)
    plain = attention(q, k, v, causal=True, working=True)
    assert all(verdict.right for verdict in judge_attention(plain.o, plain.lse, q, k, v, causal=True))


@pytest.mark.parametrize("kind", INPUTS)
def test_a_wrong_element_does_not_pass(kind: str) -> None:
    """A NaN, an infinity, a finite LSE of an empty row, and an element off by five percent of the largest."""
    q, k, v = draw(PROBLEM, kind)
    plain = attention(q, k, v, causal=True, working=True)
    assert torch.isfinite(plain.o).all()
    for value in (float("nan"), float("inf"), plain.o[0, 1, 20, 3].item() + 0.05 * plain.o.abs().max().item()):
        o = plain.o.clone()
        o[0, 1, 20, 3] = value
        assert not judge_attention(o, plain.lse, q, k, v, causal=True)[0].right
    lse = plain.lse.clone()
    lse[0, 0, 0] = 0.0
    assert not judge_attention(plain.o, lse, q, k, v, causal=True)[1].right


def test_another_shape_does_not_pass() -> None:
    """Nothing is broadcast."""
    q, k, v = draw(PROBLEM)
    truth = attention(q, k, v)
    assert not judge(truth.o[:, :1], truth.o, truth.o, ulps=1).right


def test_tf32_drops_thirteen_bits_towards_zero() -> None:
    """1 + 2^-10 is kept; what lies between it and 1 becomes 1, with either sign."""
    x = torch.tensor([1 + 2**-11, 1 + 2**-10, 1 + 2**-11 + 2**-20, -1 - 2**-11 - 2**-20])
    expected = torch.tensor([1.0, 1 + 2**-10, 1.0, -1.0])
    assert torch.equal(operand_of(x, torch.float32, True), expected)


def test_fp8_is_rounded_before_it_is_divided() -> None:
    """4096 equal weights: a share of 2^-12 each would be 0 in e4m3, and so would the output."""
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=2, seqlen_k=4096, head_dim=16, dtype="fp8")
    q, k, v = draw(problem, "all equal")
    plain = attention(q, k, v, working=True)
    assert plain.o.dtype == torch.bfloat16
    assert (plain.o == 0.5).all()
    assert all(verdict.right for verdict in judge_attention(plain.o, plain.lse, q, k, v))


def test_coarse_sums_of_products_are_allowed_for_by_name_only() -> None:
    """An LSE off by as much as 14-bit sums make it: wrong, unless the judge is told of such sums; not twice as much."""
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=16, seqlen_k=64, head_dim=32, dtype="fp8")
    q, k, v = draw(problem)
    plain = attention(q, k, v, working=True)
    off = plain.largest_score.item() * FP8_SUM_EPS

    def lse_is_right(error: float, **options: float) -> bool:
        return judge_attention(plain.o, plain.lse + error, q, k, v, **options)[1].right

    assert lse_is_right(0.0)
    assert not lse_is_right(0.9 * off)
    assert lse_is_right(0.9 * off, sum_eps=FP8_SUM_EPS)
    assert not lse_is_right(2.0 * off, sum_eps=FP8_SUM_EPS)
