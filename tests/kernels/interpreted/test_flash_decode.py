"""flash_decode computes attention of few queries: O and LSE, judged against fp64.

Over splits, groups, masks, capped scores and sinks.
"""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.interpreted.inputs import INPUTS
from kernels.interpreted.right import right
from tilesight.kernels.flash_decode import flash_decode
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule

SHAPES = st.builds(
    lambda batch, kv_heads, group, rest: AttentionProblem(
        batch=batch, heads=kv_heads * group, kv_heads=kv_heads, **rest
    ),
    st.integers(1, 2),
    st.integers(1, 2),
    st.integers(1, 5),
    st.fixed_dictionaries(
        {
            "seqlen_q": st.integers(1, 6),
            "seqlen_k": st.integers(1, 200),
            "head_dim": st.sampled_from((16, 40, 64)),
            "dtype": st.sampled_from(("fp16", "fp32")),
            "causal": st.booleans(),
            "window": st.sampled_from((0, 0, 1, 20, 70)),
            "softcap": st.sampled_from((0.0, 0.0, 2.0, 50.0)),
            "sinks": st.booleans(),
        }
    ),
)


@settings(max_examples=60)
@given(problem=SHAPES, splits=st.integers(1, 7), block_n=st.sampled_from((16, 32)), kind=st.sampled_from(list(INPUTS)))
def test_splits_merge_to_the_whole(problem: AttentionProblem, splits: int, block_n: int, kind: str) -> None:
    """Whatever the group, the mask and the number of splits: also where a split sees no key that a query may see."""
    splits = min(splits, -(-problem.seqlen_k // block_n))
    right("flash_decode", problem, Config(splits=splits, block_n=block_n), kind)


def test_sinks_that_are_not_one_number_a_head_are_refused_in_one_line() -> None:
    """Three of four heads, and two bytes each."""
    q, k = torch.zeros((1, 4, 1, 16)), torch.zeros((1, 2, 32, 16))
    for sinks, text in ((torch.zeros(3), r"\(3,\) torch.float32"), (torch.zeros(4).half(), r"\(4,\) torch.float16")):
        with pytest.raises(ValueError, match=rf"^sinks is {text} on cpu: must be \(4,\) torch.float32"):
            flash_decode(q, k, k, sinks=sinks)


def test_queries_that_see_no_key_give_zero_and_minus_infinity() -> None:
    """M = N + 3 under a causal mask, in two splits."""
    problem = AttentionProblem(batch=1, heads=4, kv_heads=2, seqlen_q=23, seqlen_k=20, head_dim=32, causal=True)
    for splits in (1, 2):
        right("flash_decode", problem, Config(splits=splits, block_n=16))


def test_heads_of_512_are_computed_as_others_are() -> None:
    """The widest that there are; two queries of three heads, 70 keys."""
    problem = AttentionProblem(batch=1, heads=3, kv_heads=1, seqlen_q=2, seqlen_k=70, head_dim=512, causal=True)
    right("flash_decode", problem, Config(splits=2, block_n=32))


def test_what_is_beyond_a_tile_of_queries_or_a_split_a_tile_is_refused_in_one_line() -> None:
    """129 rows; three splits of two tiles."""
    problem = AttentionProblem(batch=1, heads=3, kv_heads=1, seqlen_q=43, seqlen_k=32, head_dim=32)
    assert "129 queries of a KV head" in (find_schedule("flash_decode").why_not(problem) or "")
    with pytest.raises(ValueError, match="splits = 3: 32 keys are 2 tiles of 16"):
        right("flash_decode", replace(problem, seqlen_q=1), Config(splits=3, block_n=16))
