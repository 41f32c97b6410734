"""mla_decode computes attention over latents: O and LSE, over splits, masks, lengths and pages, held to fp64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.interpreted.inputs import SPARE, paged
from tilesight.kernels.mla_decode import mla_decode
from tilesight.simulator.schedules.config import Config

BLOCK_N = 16
SCALE = 0.3


def expected(q: torch.Tensor, cache: torch.Tensor, latent_dim: int, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """O and LSE of a sequence in fp64. Args: q: (H, M, L + R); cache: (N, L + R)."""
    scores = SCALE * q.double() @ cache.double().T
    row = torch.arange(q.shape[1])[:, None] + len(cache) - q.shape[1]
    scores = scores.masked_fill((torch.arange(len(cache))[None, :] > row) & causal, float("-inf"))
    lse = torch.logsumexp(scores, -1)
    return torch.nan_to_num(torch.exp(scores - lse[..., None])) @ cache[:, :latent_dim].double(), lse


@settings(max_examples=80)
@given(
    lengths=st.lists(st.integers(1, 120), min_size=1, max_size=3),
    alike=st.booleans(),
    heads=st.integers(1, 40),
    queries=st.integers(1, 3),
    dims=st.sampled_from(((32, 16), (16, 32), (64, 16))),
    causal=st.booleans(),
    page=st.sampled_from((0, 0, 1, 8, 16, 32)),
    splits=st.sampled_from((1, 2, 3, 5, "vllm", "sglang")),
    block_m=st.sampled_from((16, 32, 64)),
    seed=st.integers(0, 99),
)
def test_every_head_sees_the_latents_of_its_sequence(
    lengths: list[int],
    alike: bool,
    heads: int,
    queries: int,
    dims: tuple[int, int],
    causal: bool,
    page: int,
    splits: int | str,
    block_m: int,
    seed: int,
) -> None:
    """Whatever the tile of heads, and wherever its keys lie; a query that sees nothing gives 0 and -inf."""
    random = torch.Generator().manual_seed(seed)
    latent_dim, rope_dim = dims
    lengths = [max(lengths)] * len(lengths) if alike else lengths
    longest, rows = max(lengths), heads * queries
    q = torch.randn((len(lengths), heads, queries, latent_dim + rope_dim), generator=random).half()
    latents = torch.randn((len(lengths), 1, longest, latent_dim + rope_dim), generator=random).half()
    where: dict[str, torch.Tensor] = {}
    cache = latents
    if page or not alike:
        where = {"lengths": torch.tensor(lengths, dtype=torch.int32)}
    if page:
        order = torch.randperm(sum(-(-length // page) for length in lengths) + SPARE, generator=random).tolist()
        cache, where["pages"] = paged(latents, lengths, page, order)
    o, lse = mla_decode(
        q,
        cache,
        **where,
        scale=SCALE,
        latent_dim=latent_dim,
        causal=causal,
        config=Config(
            **{"split_rule": splits} if isinstance(splits, str) else {"splits": min(splits, -(-longest // BLOCK_N))},
            block_n=BLOCK_N,
            block_m=min(block_m, max(16, 1 << (rows - 1).bit_length())),
            num_warps=8,
        ),
    )
    assert (o.shape, lse.shape) == ((*q.shape[:3], latent_dim), q.shape[:3])
    allowed = 4 * torch.finfo(q.dtype).eps
    for number, length in enumerate(lengths):
        right_o, right_lse = expected(q[number], latents[number, 0, :length], latent_dim, causal)
        assert torch.allclose(o[number].double(), right_o, atol=allowed, rtol=allowed)
        assert torch.allclose(lse[number].double(), right_lse, atol=1e-4, rtol=1e-5)


def test_tensors_that_do_not_fit_are_refused_in_one_line() -> None:
    """Widths, heads of the cache, lengths; a tile of more rows than there are."""
    q, cache = torch.zeros((1, 4, 1, 48)).half(), torch.zeros((1, 1, 20, 48)).half()
    asked = {"scale": SCALE, "latent_dim": 32}
    with pytest.raises(ValueError, match=r"cache has 32 elements a key of torch.float16 .* must have those of q, 48"):
        mla_decode(q, cache[..., :32].contiguous(), **asked)
    with pytest.raises(ValueError, match="must have one head, which all heads of q share"):
        mla_decode(q, cache.expand(1, 2, 20, 48).contiguous(), **asked)
    with pytest.raises(ValueError, match="lengths is None: with pages, or 1 sequences for 2, give lengths"):
        mla_decode(q.expand(2, 4, 1, 48).contiguous(), cache, **asked)
    with pytest.raises(ValueError, match=r"block_m = 32: 4 queries of a sequence .*: must be at most 16"):
        mla_decode(q, cache, **asked, config=Config(block_m=32))
    with pytest.raises(ValueError, match="latent_dim = 48: must be one of 16"):
        mla_decode(q, cache, scale=SCALE, latent_dim=48)
