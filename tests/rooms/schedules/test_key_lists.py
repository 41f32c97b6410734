"""Lists of key tiles, held against the definition of the mask."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mask_definitions import masked_lengths, seen_by_definition
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.masked_flash import mask_tensors

SHAPE = {"batch": 1, "heads": 1, "head_dim": 16}
BLOCKS = st.sampled_from((1, 2, 4))


@given(case=masked_lengths(4), block_m=BLOCKS, block_n=BLOCKS)
def test_lists_name_each_tile_of_which_a_query_sees_a_key(
    case: tuple[str, int, int, bool, int], block_m: int, block_n: int
) -> None:
    """Once and in order, no other tile; unmasked are tiles that all queries see whole, and no others."""
    pattern, m, n, causal, window = case
    problem = AttentionProblem(seqlen_q=m, seqlen_k=n, causal=causal, window=window, mask=pattern, **SHAPE)
    seen = seen_by_definition(pattern, m, n, causal=causal, window=window)
    entries = np.frombuffer(mask_tensors(problem, block_m, block_n)[1].values or b"", np.int32)
    for q_tile in range(-(-m // block_m)):
        begin, middle, end = entries[3 * q_tile : 3 * q_tile + 3]
        assert end < len(entries)  # a kernel reads one entry ahead
        rows = seen[q_tile * block_m : (q_tile + 1) * block_m]
        needed, whole = set(), set()
        for tile in range(-(-n // block_n)):
            keys = rows[:, tile * block_n : (tile + 1) * block_n]
            needed |= {tile} if keys.any() else set()
            whole |= {tile} if keys.all() and keys.shape[1] == block_n else set()
        unmasked, masked = entries[begin:middle].tolist(), entries[middle:end].tolist()
        assert unmasked == sorted(whole)
        assert masked == sorted(needed - whole)


def test_tiles_that_do_not_divide_blocks_and_lists_without_end_are_refused() -> None:
    """By option, with what they must divide; 2^24 queries in tiles of 16."""
    blocks = AttentionProblem(seqlen_q=96, seqlen_k=128, mask="blocks:10/11", **SHAPE)
    with pytest.raises(ValueError, match="block_m = 32: must divide the 48 of a block of the mask"):
        mask_tensors(blocks, 32, 64)
    with pytest.raises(ValueError, match=r"1048576 x 1048576 tiles of scores.*at most 67108864"):
        mask_tensors(AttentionProblem(seqlen_q=1 << 24, seqlen_k=1 << 24, **SHAPE), 16, 16)
