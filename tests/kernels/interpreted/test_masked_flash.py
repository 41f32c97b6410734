"""masked_flash computes attention under any mask, with capped scores and sinks: O and LSE, judged against fp64."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.interpreted.inputs import INPUTS, draw
from kernels.interpreted.right import right
from support.mask_definitions import masked_lengths, seen_by_definition
from tilesight.kernels.masked_flash import masked_flash
from tilesight.kernels.reference import attention, visible_keys
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config

TILES = st.builds(Config, block_m=st.sampled_from((16, 32)), block_n=st.sampled_from((16, 32)))
REST = st.fixed_dictionaries(
    {
        "head_dim": st.sampled_from((16, 40)),
        "head_dim_v": st.sampled_from((0, 0, 16, 24, 64)),
        "dtype": st.sampled_from(("fp16", "fp32")),
        "softcap": st.sampled_from((0.0, 0.0, 2.0, 50.0)),
        "sinks": st.booleans(),
    }
)


@settings(max_examples=80)
@given(case=masked_lengths(32), config=TILES, rest=REST, group=st.integers(1, 2), kind=st.sampled_from(list(INPUTS)))
def test_any_mask_is_right(
    case: tuple[str, int, int, bool, int], config: Config, rest: dict[str, object], group: int, kind: str
) -> None:
    """Also of rows that see no key, of tiles of such rows, and of key tiles that some rows see nothing of."""
    pattern, m, n, causal, window = case
    lengths = {"seqlen_q": m, "seqlen_k": n, "causal": causal, "window": window, "mask": pattern}
    right("masked_flash", AttentionProblem(batch=1, heads=2 * group, kv_heads=2, **lengths, **rest), config, kind)


def test_rows_without_keys_give_zero_and_minus_infinity() -> None:
    """The second of two rows of blocks is empty, and so are the CTAs of its queries."""
    problem = AttentionProblem(batch=1, heads=2, seqlen_q=64, seqlen_k=64, head_dim=16, mask="blocks:11/00")
    o, lse = masked_flash(*draw(problem), mask=problem.mask, config=Config(block_m=16, block_n=16))
    assert (o[:, :, 32:] == 0).all() and (lse[:, :, 32:] == float("-inf")).all()
    assert torch.isfinite(lse[:, :, :32]).all()


@given(case=masked_lengths())
def test_the_oracle_sees_what_the_definition_says(case: tuple[str, int, int, bool, int]) -> None:
    """Score by score; and of equal scores the LSE is the logarithm of the number of keys that a row sees."""
    pattern, m, n, causal, window = case
    seen = torch.as_tensor(seen_by_definition(pattern, m, n, causal=causal, window=window))
    posed = AttentionProblem(
        batch=1, heads=1, seqlen_q=m, seqlen_k=n, head_dim=16, causal=causal, window=window, mask=pattern
    )
    assert torch.equal(visible_keys(posed.whole_mask, m, n, seen.device), seen)
    q, k = torch.zeros((1, 1, m, 16)), torch.zeros((1, 1, n, 16))
    lse = attention(q, k, k, causal=causal, window=window, mask=pattern).lse[0, 0]
    assert torch.allclose(lse, seen.sum(dim=1).double().log())
