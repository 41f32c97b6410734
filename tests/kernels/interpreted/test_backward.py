"""The backward kernels compute the gradients of attention: every form and mask, judged against torch's in fp64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.interpreted.inputs import INPUTS, OVERFLOWING, draw
from tilesight.kernels.backward.call import Gradients
from tilesight.kernels.backward.reference import gradients, judge_gradients, plain
from tilesight.kernels.differentiable import attention
from tilesight.kernels.flash_backward import flash_backward
from tilesight.kernels.naive_backward import naive_backward
from tilesight.kernels.reference import attention as exact
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config

FORMS = ({"form": "two_kernels"}, {"form": "one_pass"}, {"form": "one_pass", "deterministic": 1})
LENGTHS = st.one_of(st.integers(1, 20), st.integers(33, 80), st.sampled_from((16, 32, 64)))


@st.composite
def problems(draw: st.DrawFn) -> AttentionProblem:
    """One to three tiles of 16 or 32 each way, ragged or not, M on either side of N, grouped heads, every mask."""
    kv_heads = draw(st.integers(1, 2))
    causal = draw(st.booleans())
    return AttentionProblem(
        batch=3 - kv_heads,
        heads=kv_heads * draw(st.integers(1, 2)),
        kv_heads=kv_heads,
        seqlen_q=draw(LENGTHS),
        seqlen_k=draw(LENGTHS),
        head_dim=draw(st.sampled_from((16, 24))),
        dtype=draw(st.sampled_from(("fp16", "fp32"))),
        causal=causal,
        window=draw(st.sampled_from((0, 1, 20, 40))) if causal else 0,
    )


def inputs_of(problem: AttentionProblem, kind: str = "random") -> tuple[torch.Tensor, ...]:
    """Q, K, V, O, LSE and dO of a problem, O and LSE as a forward pass would leave them."""
    q, k, v = draw(problem, kind)
    o, lse, _ = exact(q, k, v, causal=problem.causal, window=problem.window)
    do = torch.randn(q.shape, generator=torch.Generator().manual_seed(1)).to(q.dtype)
    return q, k, v, o.to(q.dtype), lse.float(), do


def right(actual: Gradients, problem: AttentionProblem, given: tuple[torch.Tensor, ...], stored: bool = False) -> None:
    """See that gradients are those of torch. Args: given: by `inputs_of`; stored: as in `plain`."""
    mask = {"causal": problem.causal, "window": problem.window}
    q, k, v, *_, do = given
    verdicts = judge_gradients(actual, gradients(q, k, v, do, **mask), plain(*given, **mask, stored=stored))
    assert all(verdict.right for verdict in verdicts.values()), verdicts


@settings(max_examples=40)
@given(
    problem=problems(),
    kind=st.sampled_from([kind for kind in INPUTS if kind != OVERFLOWING]),
    form=st.sampled_from(FORMS),
    blocks=st.sampled_from(((16, 16), (32, 16), (16, 32))),
)
def test_gradients_are_those_of_torch(
    problem: AttentionProblem, kind: str, form: dict[str, int | str], blocks: tuple[int, int]
) -> None:
    """Both forms and the fixed order; that order ends where CTAs run one by one: none waits for one after it."""
    given = inputs_of(problem, kind)
    config = Config(block_m=blocks[0], block_n=blocks[1], **form)
    right(flash_backward(*given, causal=problem.causal, window=problem.window, config=config), problem, given)


@settings(max_examples=12)
@given(problem=problems().filter(lambda problem: not problem.window), keep=st.booleans())
def test_naive_gradients_are_those_of_torch(problem: AttentionProblem, keep: bool) -> None:
    """P kept by the forward pass, or made again."""
    given = inputs_of(problem)
    q, k, _, _, lse, _ = given
    p = None
    if keep:
        pitch = -(-problem.seqlen_k * q.element_size() // 128) * 128 // q.element_size()
        p = torch.full((problem.batch * problem.heads, problem.seqlen_q, pitch), float("nan"), dtype=q.dtype)
        row, key = torch.arange(problem.seqlen_q)[:, None], torch.arange(problem.seqlen_k)[None, :]
        seen = key <= row + problem.seqlen_k - problem.seqlen_q if problem.causal else key >= 0 * row
        keys = k.repeat_interleave(problem.head_group, 1).float()
        values = torch.exp(q.float() @ keys.mT * problem.head_dim**-0.5 - lse[..., None]).masked_fill(~seen, 0.0)
        p[..., : problem.seqlen_k] = values.reshape(-1, *values.shape[2:]).to(q.dtype)
    actual = naive_backward(*given, p, causal=problem.causal, config=Config(block_m=32, block_n=16))
    right(actual, problem, given, stored=True)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_rows_that_see_no_key_have_no_gradient(form: dict[str, int | str]) -> None:
    """M = N + 20 under a causal mask: 20 rows, in a tile of their own and in one shared with rows that see."""
    problem = AttentionProblem(batch=1, heads=2, kv_heads=1, seqlen_q=50, seqlen_k=30, head_dim=16, causal=True)
    given = inputs_of(problem)
    actual = flash_backward(*given, causal=True, config=Config(block_m=16, block_n=16, **form))
    right(actual, problem, given)
    assert (actual.dq[:, :, :20] == 0).all()


def test_torch_differentiates_attention() -> None:
    """Along a random direction the fp64 loss of a causal window grows as the gradient of `attention` says."""
    problem = AttentionProblem(
        batch=1, heads=4, kv_heads=2, seqlen_q=40, seqlen_k=50, head_dim=16, dtype="fp32", window=30
    )
    leaves = [x.requires_grad_() for x in draw(problem)]
    weights = torch.randn(leaves[0].shape)
    blocks = Config(block_m=16, block_n=16)
    o = attention(*leaves, causal=True, window=30, config=blocks, backward_config=blocks)
    (o * weights).sum().backward()
    directions = [torch.randn_like(x).double() for x in leaves]
    slope = sum((x.grad.double() * y).sum() for x, y in zip(leaves, directions, strict=True) if x.grad is not None)

    def loss(step: float) -> torch.Tensor:
        moved = (x.detach().double() + step * y for x, y in zip(leaves, directions, strict=True))
        return (exact(*moved, causal=True, window=30).o * weights.double()).sum()

    step = 1e-4
    assert float(slope) == pytest.approx(float((loss(step) - loss(-step)) / (2 * step)), rel=1e-4)


def test_a_wrong_gradient_is_seen() -> None:
    """A judge that passes all would pass unseen: each gradient off by two percent of its largest, or NaN."""
    problem = AttentionProblem(batch=1, heads=2, kv_heads=1, seqlen_q=40, seqlen_k=40, head_dim=16, causal=True)
    given = inputs_of(problem)
    q, k, v, *_, do = given
    working = plain(*given, causal=True)
    truth = gradients(q, k, v, do, causal=True)
    assert all(verdict.right for verdict in judge_gradients(working.values, truth, working).values())
    for name, value in zip(Gradients._fields, working.values, strict=True):
        for wrong in (value[0, 0, 30, 3] + 0.02 * value.abs().max(), float("nan")):
            spoilt = value.clone()
            spoilt[0, 0, 30, 3] = wrong
            assert not judge_gradients(working.values._replace(**{name: spoilt}), truth, working)[name].right


def test_tensors_that_do_not_fit_are_refused_by_name() -> None:
    """One line that names the tensor, what it is and what it must be; fp8 and a form without sums as well."""
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=16, seqlen_k=16, head_dim=16)
    q, k, v, o, lse, do = inputs_of(problem)
    for arguments, text in (
        ((q, k, v, o, lse, do[:, :, :8]), r"^do is not contiguous|^do is float16"),
        ((q, k, v, o.float(), lse, do), r"^o is float32"),
        ((q, k, v, o, lse.half(), do), r"^lse is float16 \(1, 1, 16\) on cpu: must be contiguous, float32"),
        ((*(x.to(torch.float8_e4m3fn) for x in (q, k, v, o)), lse, do.to(torch.float8_e4m3fn)), "fp8 is too"),
    ):
        with pytest.raises(ValueError, match=text):
            flash_backward(*arguments)
    with pytest.raises(ValueError, match="deterministic = 1"):
        flash_backward(q, k, v, o, lse, do, config=Config(form="two_kernels", deterministic=1))
    with pytest.raises(ValueError, match=r"^p is float16"):
        naive_backward(q, k, v, o, lse, do, q[0])
