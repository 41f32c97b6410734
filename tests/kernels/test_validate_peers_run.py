"""Peers on a CPU: what they compute is the problem, mask and grouped heads included."""

from dataclasses import replace

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.problems.attention import AttentionProblem

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from tilesight.kernels.reference import attention
from tilesight.validate.experiments.peers import runner
from tilesight.validate.measure.process import Unavailable

PROBLEM = AttentionProblem(batch=2, heads=4, seqlen_q=48, seqlen_k=80, head_dim=32, dtype="fp32")
SHAPES = {
    "plain": PROBLEM,
    "causal": replace(PROBLEM, seqlen_q=80, causal=True),
    "causal, fewer queries": replace(PROBLEM, causal=True),
    "grouped": replace(PROBLEM, kv_heads=2),
    "grouped, causal": replace(PROBLEM, kv_heads=1, causal=True),
}


def inputs(problem: AttentionProblem) -> list[torch.Tensor]:
    """Random Q, K, V."""
    generator = torch.Generator().manual_seed(7)
    shapes = [
        (problem.heads, problem.seqlen_q),
        (problem.kv_heads, problem.seqlen_k),
        (problem.kv_heads, problem.seqlen_k),
    ]
    return [torch.randn((problem.batch, *shape, problem.head_dim), generator=generator) for shape in shapes]


@pytest.mark.parametrize("shape", SHAPES)
def test_eager_computes_the_problem(shape: str) -> None:
    """Mask aligned to the last key, query heads sharing keys as the problem says."""
    problem = SHAPES[shape]
    tensors = inputs(problem)
    truth = attention(*tensors, causal=problem.causal).o
    assert (runner("eager", problem, *tensors)() - truth).abs().max() < 1e-5


@pytest.mark.parametrize("peer", ["sdpa", "sdpa-math"])
@pytest.mark.parametrize("shape", ["plain", "causal", "grouped"])
def test_sdpa_computes_the_problem(peer: str, shape: str) -> None:
    """With the backend that was asked for, or the one that torch takes."""
    problem = SHAPES[shape]
    tensors = inputs(problem)
    truth = attention(*tensors, causal=problem.causal).o
    assert (runner(peer, problem, *tensors)() - truth).abs().max() < 1e-5


def test_a_backend_that_refuses_is_unavailable() -> None:
    """cuDNN does not run on a CPU, and nothing else runs in its place."""
    with pytest.raises(Unavailable, match=r"^sdpa-cudnn: \w"):
        runner("sdpa-cudnn", PROBLEM, *inputs(PROBLEM))


@pytest.mark.parametrize("text", ["CUDA out of memory. Tried", "CUDA error: an illegal memory access was encountered"])
def test_what_breaks_is_no_refusal(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken context must not pass for a peer that politely declines."""

    def breaks(*arguments: object, **options: object) -> object:
        raise RuntimeError(text)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", breaks)
    with pytest.raises(RuntimeError, match=text):
        runner("sdpa", PROBLEM, *inputs(PROBLEM))


def test_dropout_drops() -> None:
    """An eager peer of a problem with dropout gives another result each time."""
    problem = replace(PROBLEM, dropout=0.5)
    run = runner("eager", problem, *inputs(problem))
    assert not torch.equal(run(), run())
