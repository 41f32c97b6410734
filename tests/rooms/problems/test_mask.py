"""Masks: which keys a query sees, held against the definition written out score by score."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.mask import Mask

LENGTHS = st.integers(1, 70)
MASKS = st.one_of(
    st.just(Mask()), st.just(Mask(causal=True)), st.builds(Mask, causal=st.just(True), window=st.integers(1, 80))
)


def visible(mask: Mask, m: int, n: int) -> np.ndarray:
    """Row i stands at key i + N - M, sees none behind it, and as many before as the window says: bool (M, N)."""
    seen = np.zeros((m, n), bool)
    for row in range(m):
        diagonal = row + n - m
        for key in range(n):
            seen[row, key] = not mask.causal or (key <= diagonal and (not mask.window or key > diagonal - mask.window))
    return seen


@given(mask=MASKS, m=LENGTHS, n=LENGTHS)
@example(mask=Mask(causal=True, window=1), m=5, n=5)
def test_each_row_sees_the_interval_that_the_definition_gives(mask: Mask, m: int, n: int) -> None:
    """No key more, none less; an empty interval where it sees none."""
    first, end = mask.visible(np.arange(m), m, n)
    keys = np.arange(n)
    assert (((first[:, None] <= keys) & (keys < end[:, None])) == visible(mask, m, n)).all()
    assert (first <= end).all()


@given(mask=MASKS, m=LENGTHS, n=LENGTHS)
def test_visible_scores_are_counted_exactly(mask: Mask, m: int, n: int) -> None:
    """The closed form is the sum over all rows."""
    assert mask.visible_scores(m, n) == visible(mask, m, n).sum()


@given(mask=MASKS, m=LENGTHS, n=LENGTHS, block_m=st.sampled_from((1, 4, 16)), block_n=st.sampled_from((1, 4, 16)))
def test_key_tiles_hold_all_that_is_seen_and_full_ones_are_seen_whole(
    mask: Mask, m: int, n: int, block_m: int, block_n: int
) -> None:
    """From first to end lie all tiles of which a row sees a key; from full_first to full_end all rows see all keys."""
    seen = visible(mask, m, n)
    tiles = mask.key_tiles(np.arange(-(-m // block_m)), block_m, block_n, m, n)
    for tile in range(-(-m // block_m)):
        rows = seen[tile * block_m : (tile + 1) * block_m]
        first, full_first, full_end, end = (
            int(edge[tile]) for edge in (tiles.first, tiles.full_first, tiles.full_end, tiles.end)
        )
        assert 0 <= first <= full_first <= full_end <= end <= -(-n // block_n)
        for number in range(-(-n // block_n)):
            keys = rows[:, number * block_n : (number + 1) * block_n]
            inside = first <= number < end
            assert inside or not keys.any()
            if full_first <= number < full_end:
                assert keys.all() and keys.shape[1] == block_n
        if first < end and (tile + 1) * block_m <= m:
            # Of a whole query tile, the outermost tiles are needed: a row sees a key of each.
            assert rows[:, first * block_n : (first + 1) * block_n].any()
            assert rows[:, (end - 1) * block_n : end * block_n].any()


def test_a_window_is_a_causal_mask() -> None:
    """Whoever asks for one need not say so."""
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=64, seqlen_k=64, head_dim=64, window=16)
    assert problem.causal
    assert problem.text.endswith("fp16 window 16")
    assert problem.key.endswith("-causal-window16")
