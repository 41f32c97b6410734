"""The backward kernels on a GPU: right at a thousand points, and in a fixed order the same bits each time."""

from random import Random
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_gpu

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(missing_gpu() is not None, reason=str(missing_gpu()))]
if missing_gpu() is None:
    import torch
    from tilesight.kernels.backward.reference import gradients, judge_gradients, plain
    from tilesight.kernels.flash_backward import flash_backward
    from tilesight.kernels.launch.launch import TORCH_DTYPES
    from tilesight.kernels.naive_backward import naive_backward
    from tilesight.kernels.reference import attention
    from tilesight.simulator.schedules.config import Config
    from tilesight.validate.measure.oracle import TF32_SUM_EPS

SEEDS = 1000
REPEATS = 100
FORMS: tuple[dict[str, Any], ...] = (
    {"form": "two_kernels"},
    {"form": "one_pass"},
    {"form": "one_pass", "deterministic": 1},
    {},
)
"""The last: the naive schedule."""
BLOCKS = {"fp32": ((32, 32, 4, 1), (16, 64, 4, 2)), "fp16": ((64, 64, 4, 2), (64, 128, 8, 2), (32, 64, 4, 1))}
"""block_m, block_n, num_warps, num_stages; those of bf16 are fp16's."""
LENGTHS = (1, 77, 128, 129, 256, 301, 512, 600)


def tensors(seed: int) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """The mask of a point, and its Q, K, V, O, LSE and dO."""
    random = Random(seed)
    torch.manual_seed(seed)
    dtype, dim = random.choice(("fp16", "bf16", "fp32")), random.choice((64, 64, 128, 80))
    kv_heads, group, batch = random.choice((1, 2, 4)), random.choice((1, 2, 4)), random.choice((1, 2))
    rows, keys = random.choice(LENGTHS), random.choice(LENGTHS)
    causal = random.choice((False, True))
    mask = {"causal": causal, "window": random.choice((0, 0, 1, 100)) if causal else 0}
    shapes = [(batch, heads, length, dim) for heads, length in ((kv_heads * group, rows), *[(kv_heads, keys)] * 2)]
    q, k, v, do = (torch.randn(shape, device="cuda").to(TORCH_DTYPES[dtype]) for shape in (*shapes, shapes[0]))
    o, lse, _ = attention(q, k, v, **mask)
    return mask, (q, k, v, o.to(q.dtype), lse.float(), do)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_gradients_are_those_of_torch(form: dict[str, Any]) -> None:
    """Over seeds: dtypes, head dimensions, grouped heads, ragged lengths, M on either side of N, every mask."""
    wrong = []
    for seed in range(FORMS.index(form), SEEDS, len(FORMS)):
        mask, given = tensors(seed)
        q, k, v, *_, do = given
        tf32 = q.dtype == torch.float32
        names = ("block_m", "block_n", "num_warps", "num_stages")
        blocks = BLOCKS["fp32" if tf32 else "fp16"]
        config = Config(**dict(zip(names, blocks[seed % len(blocks)], strict=True)), **form)
        if form:
            actual = flash_backward(*given, **mask, config=config)
        else:
            mask["window"] = 0
            o, lse, _ = attention(q, k, v, causal=mask["causal"])
            given = (q, k, v, o.to(q.dtype), lse.float(), do)
            actual = naive_backward(*given, causal=mask["causal"], config=config)
        working = plain(*given, **mask, tf32=tf32, stored=not form)
        eps = TF32_SUM_EPS if tf32 else torch.finfo(torch.float32).eps
        verdicts = judge_gradients(actual, gradients(q, k, v, do, **mask), working, sum_eps=eps)
        wrong += [f"{seed} {name}: {verdict.text}" for name, verdict in verdicts.items() if not verdict.right]
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"


def test_a_fixed_order_gives_the_same_bits() -> None:
    """Of a causal problem with grouped heads, many more CTAs than a GPU holds at once; and it ends each time."""
    torch.manual_seed(0)
    q, do = (torch.randn(4, 32, 2048, 64, device="cuda", dtype=torch.float16) for _ in range(2))
    k, v = (torch.randn(4, 16, 2048, 64, device="cuda", dtype=torch.float16) for _ in range(2))
    o, lse, _ = attention(q, k, v, causal=True)
    given = (q, k, v, o.to(q.dtype), lse.float(), do)
    config = Config(form="one_pass", deterministic=1, block_m=64, block_n=64)
    first = flash_backward(*given, causal=True, config=config)
    for _ in range(REPEATS):
        again = flash_backward(*given, causal=True, config=config)
        assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))
