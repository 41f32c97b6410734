"""The problem: shape, mask, and the work that the formula asks for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import all_schedules

SHAPE = {"batch": 2, "heads": 4, "seqlen_q": 100, "seqlen_k": 60, "head_dim": 64}


@given(m=st.integers(1, 40), n=st.integers(1, 40), causal=st.booleans())
def test_scores_are_the_elements_that_the_mask_lets_through(m: int, n: int, causal: bool) -> None:
    """Row i sees the keys 0 .. i + N - M."""
    problem = AttentionProblem(batch=2, heads=3, seqlen_q=m, seqlen_k=n, head_dim=16, causal=causal)
    visible = np.tri(m, n, n - m) if causal else np.ones((m, n))
    assert problem.scores == 2 * 3 * visible.sum()


def test_a_causal_mask_is_aligned_to_the_last_key() -> None:
    """One query over N keys sees them all; of two queries and one key only the last sees it."""
    decode = AttentionProblem(**SHAPE | {"seqlen_q": 1, "seqlen_k": 60}, causal=True)
    assert decode.scores == 2 * 4 * 60
    tall = AttentionProblem(**SHAPE | {"seqlen_q": 2, "seqlen_k": 1}, causal=True)
    assert tall.scores == 2 * 4


def test_matmul_flop_counts_both_products() -> None:
    """Two products, a multiplication and an addition each: 4 B H M N D."""
    assert AttentionProblem(**SHAPE).matmul_flop == 4 * 2 * 4 * 100 * 60 * 64


def test_kv_heads_default_to_the_query_heads() -> None:
    """Without GQA every query head has its own keys."""
    assert AttentionProblem(**SHAPE).kv_heads == 4
    assert AttentionProblem(**SHAPE).head_group == 1
    assert AttentionProblem(**SHAPE, kv_heads=2).head_group == 2


@pytest.mark.parametrize(("dtype", "size"), [("fp32", 4), ("fp16", 2), ("bf16", 2), ("fp8", 1)])
def test_elements_have_the_size_of_their_type(dtype: str, size: int) -> None:
    """Bytes of an element."""
    assert AttentionProblem(**SHAPE, dtype=dtype).element_bytes == size


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch", 0),
        ("heads", -1),
        ("seqlen_q", 1.5),
        ("seqlen_k", True),
        ("seqlen_k", (1 << 24) + 1),
        ("batch", 1 << 20),
        ("head_dim", 20),
        ("head_dim", 8),
        ("head_dim", 520),
        ("kv_heads", 3),
        ("kv_heads", -2),
        ("dtype", "int8"),
        ("dropout", 1.0),
        ("dropout", -0.1),
        ("dropout", float("nan")),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(field: str, value: object) -> None:
    """The message names the field and the value."""
    with pytest.raises(ValueError, match=field.split("_")[0]) as error:
        AttentionProblem(**SHAPE | {field: value})
    assert str(value) in str(error.value) or field == "batch"


def test_problems_are_values() -> None:
    """Equal fields make equal, hashable problems."""
    assert AttentionProblem(**SHAPE) == AttentionProblem(**SHAPE, kv_heads=4)
    assert hash(AttentionProblem(**SHAPE)) == hash(AttentionProblem(**SHAPE, kv_heads=4))


def test_values_may_be_of_another_width_than_keys() -> None:
    """192 and 128: operations, compulsory bytes and names; the same width is none of its own; who has none refuses."""
    shape = {"batch": 2, "heads": 4, "kv_heads": 2, "seqlen_q": 10, "seqlen_k": 30, "head_dim": 192}
    problem = AttentionProblem(**shape, head_dim_v=128)
    assert problem.matmul_flop == 2 * 4 * 10 * 30 * 2 * (192 + 128)
    assert problem.compulsory.read_bytes == 2 * 2 * (4 * 10 * 192 + 2 * 30 * (192 + 128))
    assert problem.compulsory.write_bytes == 2 * 2 * 4 * 10 * 128
    assert problem.key.endswith("D192-fp16-V128") and " D=192/128 fp16" in problem.text
    assert AttentionProblem(**shape, head_dim_v=192) == AttentionProblem(**shape)
    with pytest.raises(ValueError, match="head_dim_v = 130: must be a multiple of 8 from 16 to 512, or 0 for head_dim"):
        AttentionProblem(**shape, head_dim_v=130)
    takers = {name for name, schedule in all_schedules().items() if schedule.why_not(problem) is None}
    assert takers == {"masked_flash"}
