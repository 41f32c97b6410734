"""A chunk of queries over a cache: tiles of the packed queries of a KV head, judged against fp64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.interpreted.inputs import INPUTS, SPARE, paged
from kernels.interpreted.right import right
from kernels.interpreted.test_flash_decode_cache import expected
from tilesight.kernels.chunked_flash import chunked_flash_cache
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config

CHUNKS = st.builds(
    lambda queries, before, rest: AttentionProblem(
        batch=1, heads=6, kv_heads=2, seqlen_q=queries, seqlen_k=queries + before, **rest
    ),
    st.integers(43, 90),
    st.integers(1, 120),
    st.fixed_dictionaries(
        {
            "head_dim": st.sampled_from((16, 40)),
            "causal": st.booleans(),
            "window": st.sampled_from((0, 0, 1, 20, 70)),
            "softcap": st.sampled_from((0.0, 0.0, 2.0)),
            "sinks": st.booleans(),
        }
    ),
)


@settings(max_examples=10)
@given(problem=CHUNKS, splits=st.integers(1, 3), block_m=st.sampled_from((32, 64)), kind=st.sampled_from(list(INPUTS)))
def test_tiles_of_packed_queries_are_the_whole(problem: AttentionProblem, splits: int, block_m: int, kind: str) -> None:
    """Groups of three that no tile divides, so that heads of a query fall into two tiles; with masks, and splits."""
    right("chunked_flash", problem, Config(splits=splits, block_m=block_m, block_n=16), kind)


@settings(max_examples=8)
@given(
    lengths=st.lists(st.integers(1, 120), min_size=1, max_size=3),
    page=st.sampled_from((0, 8, 16, 32)),
    window=st.sampled_from((None, 0, 30)),
    splits=st.sampled_from((1, 2, 3, "flashinfer")),
    seed=st.integers(0, 99),
)
def test_each_sequence_has_its_chunk_after_its_own_keys(
    lengths: list[int], page: int, window: int | None, splits: int | str, seed: int
) -> None:
    """Also one that has fewer keys than queries, whose first rows see none: 0 and -inf."""
    random, queries = torch.Generator().manual_seed(seed), 70
    longest = max(lengths)
    q = torch.randn((len(lengths), 4, queries, 16), generator=random).half()
    k, v = (torch.randn((len(lengths), 2, longest, 16), generator=random).half() for _ in "kv")
    caches, pages = (k, v), None
    if page:
        order = torch.randperm(sum(-(-length // page) for length in lengths) + SPARE, generator=random).tolist()
        (keys, pages), (values, _) = (paged(cache, lengths, page, order) for cache in (k, v))
        caches = keys, values
    o, lse = chunked_flash_cache(
        q,
        *caches,
        torch.tensor(lengths, dtype=torch.int32),
        pages,
        causal=window is not None,
        window=window or 0,
        config=Config(
            block_m=64,
            block_n=16,
            **{"split_rule": splits} if isinstance(splits, str) else {"splits": min(splits, -(-longest // 16))},
        ),
    )
    for number, length in enumerate(lengths):
        counted = (cache[number, :, :length].double() for cache in (k, v))
        right_o, right_lse = expected(q[number], *counted, window is not None, window or 0)
        assert torch.allclose(o[number].double(), right_o, atol=5e-3, rtol=5e-3)
        assert torch.allclose(lse[number].double(), right_lse, atol=5e-3, rtol=5e-3)


def test_a_chunk_without_a_cache_is_refused_in_one_line() -> None:
    """As many queries as keys, in one piece: with the kernels that do that."""
    problem = AttentionProblem(batch=1, heads=8, kv_heads=2, seqlen_q=64, seqlen_k=64, head_dim=16)
    with pytest.raises(ValueError, match=r"no keys before those of the queries .* try a schedule of prefill"):
        right("chunked_flash", problem, Config())
