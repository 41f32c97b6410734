"""Rules for splits of a decode, against values that sources and reports state, or worked out from them by hand."""

import pytest
from tilesight.simulator.launch.split_rules import (
    Decode,
    flash_attention_3_splits,
    flashinfer_plan_splits,
    flashinfer_splits,
    sglang_triton_splits,
    vllm_triton_mla_splits,
    vllm_triton_splits,
)

ROW_BYTES = 2 * 128 * 2
"""K and V of one key, fp16, D = 128."""


def decode(batch: int, kv_heads: int, seqlen_k: int, rows: int = 4, sms: int = 132) -> Decode:
    """Sequences of one length."""
    return Decode(lengths=(seqlen_k,) * batch, kv_heads=kv_heads, rows=rows, sms=sms)


def ragged(*lengths: int, kv_heads: int = 8, rows: int = 4, window: int = 0) -> Decode:
    """Sequences of these lengths, on 132 SMs."""
    return Decode(lengths=lengths, kv_heads=kv_heads, rows=rows, sms=132, window=window)


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
    assert set(flash_attention_3_splits(shape, block_m=64, block_n=128, kv_row_bytes=ROW_BYTES)) == {splits}


@pytest.mark.parametrize(
    ("rows", "causal", "splits"), [(264 * 128, False, 3), (263 * 128, False, 1), (264 * 128, True, 1)]
)
def test_flash_attention_3_cuts_a_head_larger_than_l2_for_many_queries(rows: int, causal: bool, splits: int) -> None:
    """256 Ki keys are 128 MiB, three times 50; from two tiles of queries an SM on, and never causal."""
    shape = decode(1, 1, 1 << 18, rows=rows)
    counts = flash_attention_3_splits(shape, block_m=128, block_n=128, kv_row_bytes=ROW_BYTES, causal=causal)
    assert counts == (splits,)


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
    for seqlen_k in (256, 200_000):
        shape = decode(batch, kv_heads, seqlen_k)
        assert vllm_triton_splits(shape, seqlen_q=seqlen_q, capture_sizes=sizes) == (segments,) * batch


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
    counts = sglang_triton_splits(decode(batch, 8, seqlen_k, sms=sms), max_splits=max_splits)
    assert counts == (splits,) * batch


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
    counts = flashinfer_splits(decode(batch, 8, seqlen_k), ctas_per_sm=ctas_per_sm, page_size=16)
    assert counts == (splits,) * batch


def test_a_decode_without_keys_is_refused() -> None:
    """Named, with what is allowed."""
    with pytest.raises(ValueError, match="lengths = 0: must be an integer of 1 or more"):
        decode(1, 8, 0)
    with pytest.raises(ValueError, match=r"lengths = \(\): must hold the keys of one sequence at least"):
        decode(0, 8, 1)


@pytest.mark.parametrize(("seqlen_k", "splits"), [(100, 1), (1023, 1), (8192, 16), (10_000, 32), (1 << 20, 264)])
def test_vllm_splits_latents_by_their_length_alone(seqlen_k: int, splits: int) -> None:
    """A split for 512 keys, rounded up to a power of two, at most two an SM; the same for one sequence and for 64."""
    assert {vllm_triton_mla_splits(decode(batch, 1, seqlen_k))[-1] for batch in (1, 64)} == {splits}


def test_flash_attention_3_gives_each_sequence_what_an_sm_has_and_a_tenth() -> None:
    """Tiles of 128 keys: 256, 64 and 4 of eight heads are 2,592; 1.1 times that over 132 SMs is 21.6, so 22 a split."""
    counts = flash_attention_3_splits(ragged(32768, 8192, 512), block_m=64, block_n=128, kv_row_bytes=ROW_BYTES)
    assert counts == (12, 3, 1)
    # 17.1 an SM make 18 a split, and 15 of them are the most that the longest would have alone.
    assert flash_attention_3_splits(ragged(32768, 1), block_m=64, block_n=128, kv_row_bytes=ROW_BYTES) == (15, 1)


def test_vllm_has_segments_of_whole_tiles_of_each_sequence() -> None:
    """Of 16 keys: 100 are seven tiles, a segment each; 272 are 17, two a segment, so nine have keys."""
    assert vllm_triton_splits(ragged(4096, 272, 100, 1)) == (16, 9, 7, 1)
    assert vllm_triton_splits(ragged(4096, 272, 100, 1), seqlen_q=2) == (1, 1, 1, 1)


def test_sglang_splits_by_a_chunk_that_all_sequences_share() -> None:
    """Eight of the longest: 4,096 keys a chunk; where lengths are within 25 %, only SMs count."""
    assert sglang_triton_splits(ragged(32768, 8000, 1000)) == (8, 2, 1)
    # 11 x 132 SMs for 64 x 8 CTAs are three splits; but the longest is 32 times the shortest, so eight.
    assert sglang_triton_splits(ragged(32768, *[1024] * 63)) == (8, *[1] * 63)
    assert sglang_triton_splits(ragged(*[32768] * 63, 30000)) == (3,) * 64
    assert sglang_triton_splits(ragged(32768, 8000), seqlen_q=512) == (1, 1)


def test_flashinfer_shares_two_ctas_an_sm_among_chunks_of_all_sequences() -> None:
    """33 for each of eight heads: with chunks of 83 pages of 16 keys 25 + 7 + 1; of 82 they are 34."""
    assert flashinfer_plan_splits(ragged(32768, 8192, 1000), head_dim=128, page_size=16) == (25, 7, 1)
    assert flashinfer_splits(ragged(32768, 8192, 1000), ctas_per_sm=2, page_size=16) == (25, 7, 1)


def test_flashinfer_plans_tiles_of_queries_times_chunks() -> None:
    """512 queries of four heads are 16 tiles of 128: two chunks of 33 / 16; of width 256 tiles have 64 rows, so one."""
    chunk = ragged(32768, rows=2048)
    assert flashinfer_plan_splits(chunk, head_dim=128, page_size=16) == (2,)
    assert flashinfer_plan_splits(chunk, head_dim=256, page_size=16) == (1,)
    assert flashinfer_plan_splits(ragged(32768, rows=64), head_dim=128, page_size=16) == (33,)
    assert flashinfer_plan_splits(ragged(32768, rows=33 * 32, kv_heads=4), head_dim=512, page_size=16) == (2,)


def test_flashinfer_counts_keys_of_a_window_and_a_tile() -> None:
    """1,023 and 16 keys are 65 pages of 16, with 33 chunks allowed: nine of 128 keys."""
    assert flashinfer_plan_splits(ragged(32768, window=1024), head_dim=128, page_size=16) == (9,)
