"""flash_decode over a cache: sequences of their own lengths, pages in any order, keys and values in 8 bits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.interpreted.inputs import SPARE, paged
from tilesight.kernels.flash_decode import flash_decode_cache
from tilesight.simulator.schedules.config import Config

SCALES = {torch.float16: (1.0, 1.0), torch.int8: (0.03, 0.02)}
"""Element type of the cache -> what keys and values are multiplied by."""


def expected(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, window: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """O and LSE of a sequence in fp64. Args: q: (H, M, D); k, v: (G, N, D), as they count."""
    group = q.shape[0] // k.shape[0]
    keys, values = (cache.repeat_interleave(group, 0) for cache in (k, v))
    scores = q.double() @ keys.transpose(-1, -2) / q.shape[-1] ** 0.5
    row = torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1]
    key = torch.arange(k.shape[1])[None, :]
    hidden = (key > row) & causal | ((key <= row - window) if window else torch.zeros_like(key > row))
    scores = scores.masked_fill(hidden, float("-inf"))
    lse = torch.logsumexp(scores, -1)
    return torch.nan_to_num(torch.exp(scores - lse[..., None])) @ values, lse


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 150), min_size=1, max_size=3),
    kv_heads=st.integers(1, 2),
    group=st.integers(1, 4),
    queries=st.integers(1, 4),
    page=st.sampled_from((0, 1, 8, 16, 32, 64)),
    stored=st.sampled_from(list(SCALES)),
    window=st.sampled_from((None, 0, 5, 40)),
    splits=st.sampled_from((1, 2, 3, 5, "vllm", "sglang", "flashinfer")),
    head_dim=st.sampled_from((16, 72)),
    seed=st.integers(0, 99),
)
def test_each_sequence_sees_its_keys_wherever_they_lie(
    lengths: list[int],
    kv_heads: int,
    group: int,
    queries: int,
    page: int,
    stored: torch.dtype,
    window: int | None,
    splits: int | str,
    head_dim: int,
    seed: int,
) -> None:
    """Judged against fp64 of the sequence alone, in splits of all or its own; no key gives 0 and -inf."""
    random = torch.Generator().manual_seed(seed)
    longest, (k_scale, v_scale) = max(lengths), SCALES[stored]
    q = torch.randn((len(lengths), kv_heads * group, queries, head_dim), generator=random).half()
    k, v = (
        (torch.randn((len(lengths), kv_heads, longest, head_dim), generator=random) / scale).clamp(-127, 127)
        for scale in (k_scale, v_scale)
    )
    k, v = (cache.round().to(stored) if stored == torch.int8 else cache.to(stored) for cache in (k, v))
    caches, pages = (k, v), None
    if page:
        order = torch.randperm(sum(-(-length // page) for length in lengths) + SPARE, generator=random).tolist()
        (keys, pages), (values, _) = (paged(cache, lengths, page, order) for cache in (k, v))
        caches = keys, values
    block_n = 32
    o, lse = flash_decode_cache(
        q,
        *caches,
        torch.tensor(lengths, dtype=torch.int32),
        pages,
        k_scale=k_scale,
        v_scale=v_scale,
        causal=window is not None,
        window=window or 0,
        config=Config(
            block_n=block_n,
            **{"split_rule": splits} if isinstance(splits, str) else {"splits": min(splits, -(-longest // block_n))},
        ),
    )
    for number, length in enumerate(lengths):
        counted = (cache[number, :, :length].double() * scale for cache, scale in ((k, k_scale), (v, v_scale)))
        right_o, right_lse = expected(q[number], *counted, window is not None, window or 0)
        assert torch.allclose(o[number].double(), right_o, atol=5e-3, rtol=5e-3)
        assert torch.allclose(lse[number].double(), right_lse, atol=5e-3, rtol=5e-3)


def test_pages_beyond_the_pool_and_too_few_of_them_are_refused_in_one_line() -> None:
    """By number, with what there is."""
    q, pool = torch.zeros((1, 1, 1, 16)).half(), torch.zeros((2, 16, 1, 16)).half()
    lengths = torch.tensor([20], dtype=torch.int32)
    with pytest.raises(ValueError, match="pages has 0 to 2: k has 0 to 1"):
        flash_decode_cache(q, pool, pool, lengths, torch.tensor([[0, 2]]))
    with pytest.raises(ValueError, match="pages has 1 of 16 keys a sequence: lengths has 20"):
        flash_decode_cache(q, pool, pool, lengths, torch.tensor([[0]]))
