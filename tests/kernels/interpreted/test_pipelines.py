"""naive, unfused and flash1 compute attention, judged against fp64; dropout drops what its seed says."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.interpreted.inputs import INPUTS, OVERFLOWING, draw
from support.strategies import configs, long_row_problems, problems
from tilesight.kernels.flash1 import flash1
from tilesight.kernels.naive import naive
from tilesight.kernels.reference import Verdict, judge_attention
from tilesight.kernels.unfused import unfused
from tilesight.simulator.integers import cdiv
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule

# bf16 is silently wrong in the interpreter (see test_flash2.py) and is tested on a GPU.
DTYPES = ("fp16", "fp32")
SCHEDULES = ("naive", "unfused", "flash1")


def verdicts(name: str, problem: AttentionProblem, config: Config, kind: str, seed: int = 0) -> tuple[Verdict, ...]:
    q, k, v = draw(problem, kind, seed)
    causal = problem.causal
    if name == "naive":
        o = naive(q, k, v, causal=causal, config=config)
        return judge_attention(o, None, q, k, v, causal=causal, score_roundings=1)
    if name == "unfused":
        o, keep = unfused(q, k, v, causal=causal, dropout=problem.dropout, seed=seed, config=config)
        options = {"causal": causal, "dropout": problem.dropout, "keep": keep}
        # P is rounded once more after dropout than in the reference.
        return judge_attention(o, None, q, k, v, score_roundings=2, output_roundings=2, **options)
    o, lse = flash1(q, k, v, causal=causal, config=config.but(warp_split="q"))
    # O is stored once per key tile, in its dtype.
    roundings = 1 + cdiv(problem.seqlen_k, config.block_n)
    return judge_attention(o, lse, q, k, v, causal=causal, output_roundings=roundings)


def right(name: str, problem: AttentionProblem, config: Config, kind: str, seed: int = 0) -> None:
    for verdict in verdicts(name, problem, config, kind, seed):
        assert verdict.right, verdict.text


@pytest.mark.parametrize("name", SCHEDULES)
@settings(max_examples=12)
@given(data=st.data())
def test_output_is_right_for_every_option(name: str, data: st.DataObject) -> None:
    """Ragged and exact lengths, grouped heads, both masks, with dropout where there is one, all kinds of input."""
    problem = data.draw(problems(dtypes=DTYPES))
    # Scores that are stored in fp16 must fit into it.
    kinds = [kind for kind in INPUTS if name == "flash1" or kind != OVERFLOWING]
    right(name, problem, data.draw(configs(find_schedule(name))), data.draw(st.sampled_from(kinds)))


@pytest.mark.parametrize("name", ["naive", "unfused"])
@settings(max_examples=3)
@given(problem=long_row_problems())
def test_rows_that_are_swept_twice_are_right(name: str, problem: AttentionProblem) -> None:
    """More than 16384 keys: the softmax goes over a row in blocks, twice."""
    problem = replace(problem, dtype="fp32" if problem.dtype == "bf16" else problem.dtype)
    right(name, problem, find_schedule(name).default, "random")


@pytest.mark.parametrize("name", SCHEDULES)
def test_rows_that_see_no_key_give_zero(name: str) -> None:
    """M = N + 60 under a causal mask: the first 60 rows are exactly 0, and LSE -inf where there is one."""
    problem = AttentionProblem(batch=1, heads=2, seqlen_q=100, seqlen_k=40, head_dim=32, causal=True)
    right(name, problem, Config(block_m=32, block_n=16), "random")
    q, k, v = draw(problem)
    function: Callable[..., torch.Tensor | tuple[torch.Tensor, torch.Tensor]] = {
        "naive": naive,
        "unfused": unfused,
        "flash1": flash1,
    }[name]
    result = function(q, k, v, causal=True)
    o = result if isinstance(result, torch.Tensor) else result[0]
    assert (o[:, :, :60] == 0).all()
    if name == "flash1":
        assert (result[1][:, :, :60] == float("-inf")).all()


def test_dropout_follows_its_seed_and_its_probability() -> None:
    """The same seed drops the same elements under another tiling, another seed others, about `dropout` of them."""
    q, k, v = draw(AttentionProblem(batch=2, heads=2, seqlen_q=60, seqlen_k=90, head_dim=16))
    _, keep = unfused(q, k, v, dropout=0.3, seed=7)
    _, again = unfused(q, k, v, dropout=0.3, seed=7, config=Config(block_m=32, block_n=32))
    _, other = unfused(q, k, v, dropout=0.3, seed=8)
    assert torch.equal(keep, again)
    elements = keep.numel()
    deviation = (0.3 * 0.7 / elements) ** 0.5
    assert abs((keep == 0).double().mean().item() - 0.3) < 5 * deviation
    # Independent masks agree where both keep or both drop: 0.7^2 + 0.3^2.
    agree = (keep == other).double().mean().item()
    assert abs(agree - 0.58) < 5 * (0.58 * 0.42 / elements) ** 0.5
    rows = keep.double().mean(dim=(0, 1, 3))
    assert (rows - 0.7).abs().max() < 6 * (0.3 * 0.7 / (elements / 60)) ** 0.5


def test_without_dropout_everything_is_kept() -> None:
    """Probability 0 drops nothing."""
    q, k, v = draw(AttentionProblem(batch=1, heads=1, seqlen_q=20, seqlen_k=30, head_dim=16))
    assert unfused(q, k, v)[1].all()
