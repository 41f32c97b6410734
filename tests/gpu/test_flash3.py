"""The flash3 kernel on a GPU: right at a thousand drawn problems, the same bits each time, NaN where it belongs."""

from random import Random
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_gpu

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(missing_gpu() is not None, reason=str(missing_gpu()))]
if missing_gpu() is None:
    import torch
    from tilesight.kernels.differentiable import attention
    from tilesight.kernels.flash3 import Options, flash3
    from tilesight.kernels.flash3.entry import DIMS, DTYPES, why_not
    from tilesight.kernels.flash3.options import check_fits
    from tilesight.kernels.reference import FP8_SUM_EPS, judge_attention
    from tilesight.kernels.reference import attention as exact
    from tilesight.simulator.schedules.config import Config

    lacking = why_not(*[torch.empty(1, 1, 1, 64, dtype=torch.float16, device="cuda")] * 2)
    pytestmark.append(pytest.mark.skipif(bool(lacking), reason=lacking))

SEEDS = 1000
REPEATS = 100
LENGTHS = (1, 5, 64, 77, 128, 129, 256, 300, 384, 512, 513, 640, 1000)
WINDOWS = (1, 17, 64, 128, 200, 500)
OPTIONS: tuple[dict[str, Any], ...] = (
    {"pingpong": False},
    {"persistent": False},
    {"overlap": False, "balanced": False, "pack": 1},
    {"block_n": 64, "stages": 3},
    {"block_m": 192},
    {"block_m": 192, "stages": 3, "balanced": False},
)


def options(seed: int, q: Any, k: Any, v: Any) -> "Options | None":
    """Options that there is room for; the usual ones now and then."""
    fitting: list[Options | None] = [None]
    for given in OPTIONS:
        chosen = Options(**given)
        try:
            check_fits(chosen, q.shape[-1], v.shape[-1], q.element_size())
        except ValueError:
            continue
        fitting.append(chosen)
    return fitting[seed // 12 % len(fitting)]


def tensors(seed: int, dims: tuple[int, int], dtype: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Mask and cap of a problem, and its Q, K and V."""
    random = Random(seed)
    torch.manual_seed(seed)
    kv_heads, batch, share = random.choice((1, 2)), random.choice((1, 2, 3)), random.choice((1, 1, 2, 3, 4, 8))
    rows, keys = random.choice(LENGTHS), random.choice(LENGTHS)
    if seed % 3 == 0:
        rows = keys
    if seed % 4 < 2:
        rows, keys = -(-rows // 128) * 128, -(-keys // 128) * 128
    causal, windowed, softcap = random.choice(((False, 0, 0.0), (True, 0, 0.0), (True, 1, 0.0), (True, 0, 20.0)))
    asked = {"causal": causal, "window": random.choice(WINDOWS) if windowed else 0, "softcap": softcap}
    shapes = (
        (batch, kv_heads * share, rows, dims[0]),
        (batch, kv_heads, keys, dims[0]),
        (batch, kv_heads, keys, dims[1]),
    )
    return asked, tuple(torch.randn(shape, device="cuda").to(dtype) for shape in shapes)


@pytest.mark.parametrize("part", range(12))
def test_attention_is_that_of_the_oracle(part: int) -> None:
    """Over seeds: lengths, grouped heads packed and not, masks, a cap, options; one head dimension and dtype a part."""
    dims, dtype = DIMS[part % 4], DTYPES[part // 4]
    wrong = []
    for seed in range(part, SEEDS, 12):
        asked, (q, k, v) = tensors(seed, dims, dtype)
        given = options(seed, q, k, v)
        o, lse = flash3(q, k, v, **asked, options=given)
        sum_eps = FP8_SUM_EPS if q.element_size() == 1 else torch.finfo(torch.float32).eps
        verdicts = judge_attention(o, lse, q, k, v, **asked, sum_eps=sum_eps)
        wrong += [f"{seed} {given}: {verdict.text}" for verdict in verdicts if not verdict.right]
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("fp8", [False, True])
def test_equal_runs_give_equal_bits(causal: bool, fp8: bool) -> None:
    """A hundred runs, of more tiles than SMs; and one with a CTA for each tile, whose order is another."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 16, 2000, 128, device="cuda").half() for _ in range(3))
    if fp8:
        q, k, v = (x.to(torch.float8_e4m3fn) for x in (q, k, v))
    first = flash3(q, k, v, causal=causal)
    for _ in range(REPEATS):
        assert all(torch.equal(x, y) for x, y in zip(first, flash3(q, k, v, causal=causal), strict=True))
    stages = 4 if fp8 else 2
    again = flash3(q, k, v, causal=causal, options=Options(persistent=False, stages=stages))
    assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))


@pytest.mark.parametrize(("causal", "softcap"), [(False, 0.0), (True, 0.0), (True, 5.0)])
def test_scales_of_blocks_are_multiplied_by(causal: bool, softcap: float) -> None:
    """Powers of two, which a tensor in fp32 holds exactly: a number, and a tensor of one for every 128 rows."""
    torch.manual_seed(1)
    q, k, v = (torch.randn(2, heads, 600, 128, device="cuda").to(torch.float8_e4m3fn) for heads in (4, 2, 2))
    blocks = [2.0 ** torch.randint(-2, 2, (*x.shape[:2], 5), device="cuda").float() for x in (q, k, v)]
    for scales in (tuple(blocks), (0.5, 2.0, 4.0)):
        whole = [
            x.float() * (s if isinstance(s, float) else s.repeat_interleave(128, 2)[:, :, :600, None])
            for x, s in zip((q, k, v), scales, strict=True)
        ]
        truth = exact(*whole, causal=causal, softcap=softcap)
        o, lse = flash3(q, k, v, causal=causal, softcap=softcap, scales=scales)
        assert float((o.double() - truth.o).norm() / truth.o.norm()) < 0.04
        assert float((lse.double() - truth.lse).abs().max()) < 1e-2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_nan_or_an_infinity_stays_in_its_rows(dtype: str) -> None:
    """In Q: its row alone, in O and LSE. In K or V under a causal mask: no row before its tile."""
    torch.manual_seed(2)
    q, k, v = (torch.randn(1, 2, 512, 128, device="cuda", dtype=getattr(torch, dtype)) for _ in range(3))
    sound, sound_lse = flash3(q, k, v, causal=True)
    for value in (float("nan"), float("inf")):
        spoilt = q.clone()
        spoilt[0, 0, 300, 5] = value
        o, lse = flash3(spoilt, k, v, causal=True)
        assert o[0, 0, 300].isnan().all() and lse[0, 0, 300].isnan()
        o[0, 0, 300], lse[0, 0, 300] = sound[0, 0, 300], sound_lse[0, 0, 300]
        assert torch.equal(o, sound) and torch.equal(lse, sound_lse)
        for place in (k, v):
            kept = place[0, 1, 400].clone()
            place[0, 1, 400] = value
            o, _ = flash3(q, k, v, causal=True)
            place[0, 1, 400] = kept
            assert torch.equal(o[0, 0], sound[0, 0]) and torch.equal(o[0, 1, :384], sound[0, 1, :384])
            if place is v or value != value:
                assert not o[0, 1, 400:].isfinite().any()


def test_softmax_laws_hold() -> None:
    """A key more for all rows changes nothing; of equal values O is that value; keys in another order give the same."""
    torch.manual_seed(3)
    q, k, v = (torch.randn(2, 4, 700, 128, device="cuda").half() for _ in range(3))
    k = (k * 64).round() / 64  # so that k + 4 is exact
    o, lse = flash3(q, k, v)
    shifted, shifted_lse = flash3(q, k + 4.0, v)
    shift = 4.0 * q.double().sum(-1) / 128**0.5
    assert float((shifted.double() - o.double()).norm() / o.double().norm()) < 1e-3
    assert float((shifted_lse.double() - lse.double() - shift).abs().max()) < 1e-3
    constant, _ = flash3(q, k, torch.full_like(v, 3.0))
    assert float((constant - 3.0).abs().max()) <= 3.0 * 2**-10
    order = torch.randperm(700, device="cuda")
    moved, _ = flash3(q, k[:, :, order], v[:, :, order])
    assert float((moved.double() - o.double()).norm() / o.double().norm()) < 1e-3


def test_torch_differentiates_it() -> None:
    """Gradients by way of flash3 are those by way of flash2 but for roundings of O and LSE."""
    torch.manual_seed(4)
    made = [torch.randn(2, 16, 1024, 64, device="cuda").half() for _ in range(4)]
    gradients = []
    for given in (Options(), Config()):
        leaves = [x.clone().requires_grad_() for x in made[:3]]
        (attention(*leaves, causal=True, config=given) * made[3]).sum().backward()
        gradients.append([x.grad for x in leaves])
    for x, y in zip(*gradients, strict=True):
        assert x is not None and float((x - y).float().norm() / y.float().norm()) < 2e-3
