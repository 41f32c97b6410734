"""Tiles of attention: shared arithmetic of the schedules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import problems
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.integers import cdiv, next_power_of_two
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules import tiles

PROBLEM = AttentionProblem(batch=2, heads=6, kv_heads=3, seqlen_q=100, seqlen_k=200, head_dim=40)


def _with_keys(seqlen_k: int) -> AttentionProblem:
    return AttentionProblem(batch=1, heads=1, seqlen_q=8, seqlen_k=seqlen_k, head_dim=16)


@given(value=st.integers(1, 1 << 30))
def test_the_next_power_of_two_is_the_smallest_one_above(value: int) -> None:
    """At least the value, and below its double."""
    power = next_power_of_two(value)
    assert power.bit_count() == 1
    assert value <= power < 2 * value


@given(dividend=st.integers(0, 1000), divisor=st.integers(1, 50))
def test_cdiv_rounds_up(dividend: int, divisor: int) -> None:
    """The fewest tiles that cover the length."""
    count = cdiv(dividend, divisor)
    assert (count - 1) * divisor < dividend <= count * divisor or dividend == count == 0


def test_tensors_have_the_shapes_of_the_formula() -> None:
    """Q and O per query head, K and V per KV head, statistics one fp32 a row."""
    q, k = tiles.query_tensor(PROBLEM), tiles.key_tensor(PROBLEM, "K")
    assert (q.slabs, q.rows, q.cols, q.element_bytes) == (12, 100, 40, 2)
    assert (k.slabs, k.rows, k.cols, k.element_bytes) == (6, 200, 40, 2)
    lse = tiles.statistic_tensor(PROBLEM, "LSE")
    assert (lse.slabs, lse.rows, lse.cols, lse.element_bytes, lse.role) == (12, 100, 1, 4, "output")


@given(problem=problems(), element=st.sampled_from((None, "u8", "fp32")))
def test_rows_of_score_tensors_start_at_lines(problem: AttentionProblem, element: str | None) -> None:
    """The pitch is a multiple of 128 bytes, with less than a line of padding."""
    tensor = tiles.score_tensor(problem, "S", dtype=DTYPES[element] if element else None)
    assert tensor.pitch_bytes % 128 == 0
    assert 0 <= tensor.pitch_bytes - tensor.row_bytes < 128
    assert tensor.row_bytes == problem.seqlen_k * (DTYPES[element].size_bytes if element else problem.element_bytes)
    assert tensor.slabs == problem.batch * problem.heads
    assert tiles.score_tensor(problem, "MASK", "input", slabs=1).slabs == 1


@pytest.mark.parametrize(
    ("seqlen_k", "rows", "cols", "blocks", "num_warps"),
    [
        (1, 4096, 1, 1, 8),
        (500, 8, 512, 1, 8),
        (4096, 1, 4096, 1, 8),
        (4097, 1, 8192, 1, 16),
        (8193, 1, 16384, 1, 16),
        (16384, 1, 16384, 1, 16),
        (16385, 1, 4096, 5, 8),
        (20480, 1, 4096, 5, 8),
    ],
)
def test_a_row_tile_holds_whole_rows_until_they_are_too_long(
    seqlen_k: int, rows: int, cols: int, blocks: int, num_warps: int
) -> None:
    """4096 elements of short rows; one row up to 16384; then blocks of a row."""
    cut = tiles.row_tiling(_with_keys(seqlen_k))
    assert (cut.rows, cut.cols, cut.blocks, cut.num_warps) == (rows, cols, blocks, num_warps)
    assert cut.elements == rows * cols


def test_tile_items_walk_key_tiles_fastest() -> None:
    """Then query tiles, then heads; heads of a group share their KV slab."""
    table = tiles.tile_items(PROBLEM, 64, 128, 64, np.arange(9))
    columns = dict(zip(tiles.TILE_VARIABLES, table.T.tolist(), strict=True))
    assert columns["k_tile"] == [0, 1, 0, 1, 0, 1, 0, 1, 0]
    assert columns["q_tile"] == [0, 0, 1, 1, 0, 0, 1, 1, 0]
    assert columns["slab"] == [0, 0, 0, 0, 1, 1, 1, 1, 2]
    assert columns["kv_slab"] == [0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert columns["shared_slab"] == [0] * 9
    assert columns["inner_tiles"] == [2, -(-(PROBLEM.seqlen_k - 128) // 64)] * 4 + [2]


@given(problem=problems(), rows=st.sampled_from((16, 64, 256)), cols=st.sampled_from((16, 64, 256)))
def test_the_tile_period_is_the_smallest_true_one(problem: AttentionProblem, rows: int, cols: int) -> None:
    """Extents of tiles repeat with it, and with no smaller divisor of the number of tiles."""
    m, n = problem.seqlen_q, problem.seqlen_k
    count = problem.batch * problem.heads * -(-m // rows) * -(-n // cols)
    table = tiles.tile_items(problem, rows, cols, cols, np.arange(count))
    high = np.minimum(rows, m - rows * table[:, 3])
    wide = np.minimum(cols, n - cols * table[:, 4])
    extents = np.stack((high, wide))
    true_periods = [
        period
        for period in range(1, count + 1)
        if count % period == 0 and (extents[:, period:] == extents[:, : count - period]).all()
    ]
    assert tiles.tile_period(problem, rows, cols) == min(true_periods)
