"""FlashAttention-2: query tiles outside, key tiles skipped under a causal mask, orders of CTAs and keys."""

from dataclasses import replace

import pytest
from support.strategies import TOY
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.launch.walk import accesses, tally
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import find_schedule

FLASH2 = find_schedule("flash2")
PROBLEM = AttentionProblem(batch=1, heads=4, kv_heads=2, seqlen_q=256, seqlen_k=256, head_dim=64)


def _launch(problem: AttentionProblem = PROBLEM, **chosen: int | str) -> Launch:
    (launch,) = FLASH2.launches(problem, FLASH2.config(**{"block_m": 64, "block_n": 64} | chosen), TOY)
    return launch


def _first_rows(launch: Launch, tensor: str) -> list[tuple[int, int]]:
    """(slab, row) of the first access to a tensor, item by item."""
    rows = []
    for item in range(launch.program.item_count):
        access = next(access for access in accesses(launch.program, item) if access.tensor == tensor)
        rows.append((access.slab, access.row))
    return rows


def test_one_cta_takes_a_query_tile_of_a_head() -> None:
    """Parallel over query tiles: short grids of few heads still fill a GPU."""
    assert _launch().grid == (4 * 4, 1, 1)


def test_a_causal_mask_skips_the_key_tiles_above_the_diagonal() -> None:
    """Query tile i needs i + 1 key tiles, of which the last needs the mask."""
    executions = tally(_launch(replace(PROBLEM, causal=True)).program).executions
    assert executions["inner"] == 4 * (0 + 1 + 2 + 3)
    assert executions["masked"] == 4 * 4


def test_only_a_ragged_last_key_tile_is_masked_without_causality() -> None:
    """Tiles that lie inside need no comparison."""
    assert tally(_launch().program).executions["masked"] == 0
    executions = tally(_launch(replace(PROBLEM, seqlen_k=250)).program).executions
    assert (executions["inner"], executions["masked"]) == (16 * 3, 16)


def test_each_order_puts_other_ctas_side_by_side() -> None:
    """Query tiles of a head, heads of a query tile, or the latter with the longest rows first."""
    causal = replace(PROBLEM, causal=True)
    by_order = {
        order: _first_rows(_launch(causal, cta_order=order), "Q")[:5]
        for order in ("m-fast", "m-reversed", "head-fast", "longest-first")
    }
    assert by_order["m-fast"] == [(0, 0), (0, 64), (0, 128), (0, 192), (1, 0)]
    assert by_order["head-fast"] == [(0, 0), (1, 0), (2, 0), (3, 0), (0, 64)]
    assert by_order["m-reversed"] == [(0, 192), (0, 128), (0, 64), (0, 0), (1, 192)]
    assert by_order["longest-first"] == [(0, 192), (1, 192), (2, 192), (3, 192), (0, 128)]


@pytest.mark.parametrize("causal", [False, True])
def test_sawtooth_walks_odd_query_tiles_backwards(causal: bool) -> None:
    """The keys that one tile read last, its neighbour reads first; bytes stay the same."""
    problem = replace(PROBLEM, causal=causal)
    sawtooth, forward = _launch(problem, kv_order="sawtooth"), _launch(problem)
    rows = [[access.row for access in accesses(sawtooth.program, item) if access.tensor == "K"] for item in range(4)]
    for q_tile, seen in enumerate(rows):
        expected = list(range(0, 64 * (q_tile + 1 if causal else 4), 64))
        assert seen == (expected[::-1] if q_tile % 2 else expected)
    assert tally(sawtooth.program).load_bytes == tally(forward.program).load_bytes


def test_a_persistent_grid_has_a_few_ctas_an_sm() -> None:
    """And never more than items."""
    assert _launch(persistent=3).grid == (3 * TOY.sms, 1, 1)
    assert _launch(persistent=32).grid == (16, 1, 1)


def test_rows_that_see_no_key_still_write_their_output() -> None:
    """More queries than keys under a causal mask: the first tiles load no key at all."""
    launch = _launch(replace(PROBLEM, seqlen_k=64, causal=True))
    seen = [access.tensor for access in accesses(launch.program, 0)]
    assert seen == ["Q", "O", "LSE"]
