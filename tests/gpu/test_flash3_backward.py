"""The gradients of flash3_backward on a GPU: right at hundreds of drawn problems, and those that `attention` takes."""

from random import Random
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_gpu

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(missing_gpu() is not None, reason=str(missing_gpu()))]
if missing_gpu() is None:
    import torch
    from tilesight.kernels.backward.reference import gradients, judge_gradients, plain
    from tilesight.kernels.differentiable import attention
    from tilesight.kernels.flash3_backward import flash3_backward
    from tilesight.kernels.flash3_backward.entry import why_not
    from tilesight.kernels.reference import attention as exact

    lacking = why_not(torch.empty(1, 1, 1, 64, dtype=torch.float16, device="cuda"))
    pytestmark.append(pytest.mark.skipif(bool(lacking), reason=lacking))

SEEDS = 600
REPEATS = 50
LENGTHS = (1, 63, 64, 77, 128, 129, 256, 301, 512, 600, 1000)


def tensors(seed: int, dim: int, dtype: Any) -> tuple[bool, tuple[Any, ...]]:
    """Whether a problem is causal, and its Q, K, V, O, LSE and dO."""
    random = Random(seed)
    torch.manual_seed(seed)
    kv_heads, share, batch = random.choice((1, 2, 3)), random.choice((1, 1, 2, 3, 4)), random.choice((1, 2))
    rows, keys, causal = random.choice(LENGTHS), random.choice(LENGTHS), random.choice((False, True))
    if seed % 3 == 0:
        rows = keys
    shapes = [(batch, heads, length, dim) for heads, length in ((kv_heads * share, rows), *[(kv_heads, keys)] * 2)]
    q, k, v, do = (torch.randn(shape, device="cuda").to(dtype) for shape in (*shapes, shapes[0]))
    o, lse, _ = exact(q, k, v, causal=causal)
    return causal, (q, k, v, o.to(q.dtype), lse.float(), do)


@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_are_those_of_torch(dim: int, dtype: str) -> None:
    """Over seeds: grouped heads, ragged lengths, M on either side of N, with and without a causal mask."""
    wrong = []
    for seed in range(SEEDS // 4):
        causal, given = tensors(seed, dim, getattr(torch, dtype))
        q, k, v, *_, do = given
        actual = flash3_backward(*given, causal=causal)
        truth, working = gradients(q, k, v, do, causal=causal), plain(*given, causal=causal)
        verdicts = judge_gradients(actual, truth, working)
        wrong += [f"{seed} {name}: {verdict.text}" for name, verdict in verdicts.items() if not verdict.right]
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"


@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_only_dq_depends_on_the_order_of_additions(dim: int, causal: bool) -> None:
    """Of many more CTAs than SMs: dK and dV have the same bits each time, dQ is off by roundings of its sum in fp32."""
    torch.manual_seed(0)
    q, do = (torch.randn(2, 16, 2000, dim, device="cuda", dtype=torch.float16) for _ in range(2))
    k, v = (torch.randn(2, 8, 2000, dim, device="cuda", dtype=torch.float16) for _ in range(2))
    o, lse, _ = exact(q, k, v, causal=causal)
    given = (q, k, v, o.to(q.dtype), lse.float(), do)
    first = flash3_backward(*given, causal=causal)
    for _ in range(REPEATS):
        again = flash3_backward(*given, causal=causal)
        assert torch.equal(first.dk, again.dk) and torch.equal(first.dv, again.dv)
        assert float((first.dq.float() - again.dq.float()).abs().max()) <= 2e-3 * float(first.dq.abs().max())


@pytest.mark.parametrize("causal", [False, True])
def test_a_nan_stays_in_what_it_goes_into(causal: bool) -> None:
    """In dO of a head: no other head has one, of Q or of K and V; and its own has."""
    torch.manual_seed(1)
    q, k, v, do = (torch.randn(1, 4, 700, 64, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    do[0, 1, 300] = float("nan")
    o, lse, _ = exact(q, k, v, causal=causal)
    for x in flash3_backward(q, k, v, o.to(q.dtype), lse.float(), do, causal=causal):
        spoilt = x.isnan().any(3).any(2)[0].tolist()
        assert spoilt == [False, True, False, False]


def test_attention_differentiates_by_it() -> None:
    """Where there are tiles for every SM: the gradients of torch's own attention."""
    torch.manual_seed(2)
    leaves = [torch.randn(2, 16, 1024, 128, device="cuda", dtype=torch.float16).requires_grad_() for _ in range(3)]
    do = torch.randn_like(leaves[0])
    ours = torch.autograd.grad(attention(*leaves, causal=True), leaves, do)
    for x, y in zip(ours, gradients(*(x.detach() for x in leaves), do, causal=True), strict=True):
        assert float((x.double() - y).norm() / y.norm()) < 1e-3
