"""Rules for splits of a decode, against values that sources and reports state, or worked out from them by hand."""

import pytest
from tilesight.simulator.launch.split_rules import (
    Decode,
    flash_attention_3_splits,
    flashinfer_splits,
    sglang_triton_splits,
    vllm_triton_mla_splits,
    vllm_triton_splits,
)

ROW_BYTES = 2 * 128 * 2
"""K and V of one key, fp16, D = 128."""


def decode(batch: int, kv_heads: int, seqlen_k: int, rows: int = 4, sms: int = 132) -> Decode:
    return Decode(batch=batch, kv_heads=kv_heads, rows=rows, seqlen_k=seqlen_k, sms=sms)


@pytest.mark.parametrize(
    ("batch", "kv_heads", "seqlen_k", "sms", "splits"),
    [
        (6, 8, 8192, 108, 2),  # its comment: of 48 tiles on 108 SMs two splits fill 0.89, three 0.67; nine fill all
        (1, 8, 8192, 132, 15),  # 33 x 8 fill two waves; 15 x 8 fill 0.909 of one, 14 x 8 only 0.848
        (1, 8, 512, 132, 1),  # four tiles of keys
        (1, 8, 513, 132, 5),  # five tiles: every count up to five fills less of its wave than the next
        (53, 2, 8192, 132, 1),  # 106 tiles are 80 % of 132
        (105, 1, 8192, 132, 5),  # 525 fill 0.994 of four waves, 105 to 420 fill 0.795 of one to four
    ],
)
def test_flash_attention_3_fills_85_percent_of_the_best_waves(
    batch: int, kv_heads: int, seqlen_k: int, sms: int, splits: int
) -> None:
    """The fewest splits within 85 % of the best, in tiles of 128 keys."""
    shape = decode(batch, kv_heads, seqlen_k, sms=sms)
    assert flash_attention_3_splits(shape, block_m=64, block_n=128, kv_row_bytes=ROW_BYTES) == splits


@pytest.mark.parametrize(
    ("rows", "causal", "splits"), [(264 * 128, False, 3), (263 * 128, False, 1), (264 * 128, True, 1)]
)
def test_flash_attention_3_cuts_a_head_larger_than_l2_for_many_queries(rows: int, causal: bool, splits: int) -> None:
    """256 Ki keys are 128 MiB, three times 50; from two tiles of queries an SM on, and never causal."""
    shape = decode(1, 1, 1 << 18, rows=rows)
    assert flash_attention_3_splits(shape, block_m=128, block_n=128, kv_row_bytes=ROW_BYTES, causal=causal) == splits


@pytest.mark.parametrize(
    ("batch", "kv_heads", "seqlen_q", "sizes", "segments"),
    [
        (16, 8, 1, (), 16),  # 128 // 8
        (17, 8, 1, (), 1),
        (11, 10, 1, (8, 16), 1),  # 12 is as near to 8 as to 16; the first wins
        (16, 8, 2, (), 1),  # a query more in any sequence
    ],
)
def test_vllm_takes_sixteen_segments_or_none(
    batch: int, kv_heads: int, seqlen_q: int, sizes: tuple[int, ...], segments: int
) -> None:
    """By sequences and KV heads alone: batch >= 17 loses all splits at eight KV heads, whatever the length."""
    for seqlen_k in (100, 200_000):
        shape = decode(batch, kv_heads, seqlen_k)
        assert vllm_triton_splits(shape, seqlen_q=seqlen_q, capture_sizes=sizes) == segments


@pytest.mark.parametrize(
    ("batch", "seqlen_k", "sms", "max_splits", "splits"),
    [
        (1, 256, 114, 32, 29),  # sgl-project/sglang pull request 35801: 29 splits for 256 tokens on 114 SMs
        (1, 8192, 132, 8, 8),  # 7 x 132 SMs for 8 CTAs: 116, above the cap
        (64, 8192, 132, 8, 2),  # 924 for 512 CTAs
        (1, 100, 132, 16, 15),  # 132 for 8: 17, above the cap; chunks of 7 keys
    ],
)
def test_sglang_grows_splits_with_the_logarithm_of_the_length(
    batch: int, seqlen_k: int, sms: int, max_splits: int, splits: int
) -> None:
    """32 heads in groups of four are eight CTAs a sequence."""
    assert sglang_triton_splits(decode(batch, 8, seqlen_k, sms=sms), max_splits=max_splits) == splits


@pytest.mark.parametrize(
    ("batch", "seqlen_k", "ctas_per_sm", "splits"),
    [
        (4, 8192, 2, 8),  # 264 CTAs for 32 heads: eight chunks of 64 pages
        (1, 8192, 8, 64),  # room for 132 chunks, but of 128 keys at least
        (33, 8192, 2, 1),  # 264 heads fill the GPU
        (1, 100, 2, 1),  # less than a chunk
    ],
)
def test_flashinfer_takes_the_shortest_chunk_that_runs_at_once(
    batch: int, seqlen_k: int, ctas_per_sm: int, splits: int
) -> None:
    """Eight KV heads, pages of sixteen keys."""
    assert flashinfer_splits(decode(batch, 8, seqlen_k), ctas_per_sm=ctas_per_sm, page_size=16) == splits


def test_a_decode_without_keys_is_refused() -> None:
    """Named, with what is allowed."""
    with pytest.raises(ValueError, match="seqlen_k = 0: must be an integer of 1 or more"):
        decode(1, 8, 0)


@pytest.mark.parametrize(("seqlen_k", "splits"), [(100, 1), (1023, 1), (8192, 16), (10_000, 32), (1 << 20, 264)])
def test_vllm_splits_latents_by_their_length_alone(seqlen_k: int, splits: int) -> None:
    """A split for 512 keys, rounded up to a power of two, at most two an SM; the same for one sequence and for 64."""
    assert {vllm_triton_mla_splits(decode(batch, 1, seqlen_k)) for batch in (1, 64)} == {splits}
