"""FlashAttention-1: the outer loop over keys, and what it costs."""

from dataclasses import replace

import pytest
from schedules.contract import tensors_of
from support.strategies import TOY
from tilesight.simulator.launch.program import Launch, Step
from tilesight.simulator.launch.walk import accesses, steps, tally
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import find_schedule

FLASH1, FLASH2 = find_schedule("flash1"), find_schedule("flash2")
PROBLEM = AttentionProblem(batch=2, heads=4, kv_heads=2, seqlen_q=128, seqlen_k=256, head_dim=64)
BLOCKS = {"block_m": 64, "block_n": 64}


def _launch(problem: AttentionProblem = PROBLEM, **chosen: int | str) -> Launch:
    (launch,) = FLASH1.launches(problem, FLASH1.config(**BLOCKS | chosen), TOY)
    return launch


def _step(launch: Launch, name: str) -> Step:
    return next(step for step, _ in steps(launch.program.body) if step.name == name)


def test_one_cta_takes_a_whole_head() -> None:
    """B x H CTAs, all alike, however long the sequence is."""
    assert _launch().grid == _launch(replace(PROBLEM, seqlen_q=130)).grid == (8, 1, 1)
    assert _launch().program.period_items == 1


def test_state_is_initialised_then_read_and_written_for_every_key_tile() -> None:
    """The order of Algorithm 1: zeros, then per key tile K and V once, and Q with its state per query tile."""
    seen = [(access.kind, access.tensor, access.row) for access in accesses(_launch().program, 0)]
    state = ["O", "L", "MAX"]
    zeros = [("store", name, row) for row in (0, 64) for name in state]
    assert seen[:6] == zeros
    inner = [
        access
        for row in (0, 64)
        for access in [("load", name, row) for name in ["Q", *state]] + [("store", name, row) for name in state]
    ]
    for j in range(4):
        part = seen[6 + 16 * j : 22 + 16 * j]
        assert part == [("load", "K", 64 * j), ("load", "V", 64 * j), *inner]
    assert len(seen) == 6 + 4 * 16


def test_output_and_statistics_are_outputs() -> None:
    """O in the working dtype, sum and maximum in fp32."""
    tensors = tensors_of((_launch(),))
    assert {name: tensors[name].role for name in ("O", "L", "MAX")} == dict.fromkeys(("O", "L", "MAX"), "output")
    assert [tensors[name].element_bytes for name in ("O", "L", "MAX")] == [2, 4, 4]


def test_a_causal_mask_saves_no_byte_and_costs_comparisons() -> None:
    """Algorithm 2 masks and skips nothing."""
    full, causal = _launch(), _launch(replace(PROBLEM, causal=True))
    assert tally(full.program) == tally(causal.program)
    assert _step(causal, "inner").work.alu_count - _step(full, "inner").work.alu_count == 2 * 64 * 64


def test_copies_of_less_than_16_bytes_a_thread_pass_through_l1_or_are_plain_loads() -> None:
    """Triton cannot copy less than 4 B of a thread, and cp.async of less than 16 goes through L1."""
    paths = {}
    for head_dim in (16, 64, 128):
        launch = _launch(replace(PROBLEM, head_dim=head_dim), block_m=16, num_warps=8, num_stages=2)
        paths[head_dim] = {tile.tensor: tile.path for tile in _step(launch, "inner").loads}["Q"]
    assert paths == {16: "plain", 64: "cached", 128: "async"}


@pytest.mark.parametrize(("num_stages", "path"), [(1, "plain"), (2, "async")])
def test_only_q_is_copied_asynchronously(num_stages: int, path: str) -> None:
    """It alone feeds a product in the pipelined loop."""
    paths = {tile.tensor: tile.path for tile in _step(_launch(num_stages=num_stages), "inner").loads}
    assert paths == {"Q": path, "O": "plain", "L": "plain", "MAX": "plain"}


def test_dividing_in_every_iteration_costs_flop_that_flash2_saves() -> None:
    """FlashAttention-2, section 3.1: same products, fewer other operations, fewer exponentials."""
    (second,) = FLASH2.launches(PROBLEM, FLASH2.config(**BLOCKS), TOY)
    ours, theirs = _step(_launch(), "inner").work, _step(second, "inner").work
    assert ours.matmuls == theirs.matmuls
    assert ours.fma_flop - theirs.fma_flop == 2 * 64 * 64 + 3 * 64
    assert ours.exp_count - theirs.exp_count == 2 * 64


def test_warps_that_split_keys_exchange_partial_outputs() -> None:
    """FlashAttention-2, section 3.3: every warp's partial O goes through shared memory; split queries need none."""
    by_keys, by_queries = (_step(_launch(warp_split=split), "inner").work for split in "kq")
    exchange = 4 * 64 * (64 + 2) * 4
    assert by_keys.smem_write_bytes - by_queries.smem_write_bytes == exchange
    assert by_keys.smem_read_bytes - by_queries.smem_read_bytes == exchange
    assert by_keys.barriers > by_queries.barriers
    assert (_launch().warp_split, _launch(warp_split="q").warp_split) == ("k", "q")


def test_keys_and_values_stay_in_shared_memory() -> None:
    """Beside the stages of Q, or the exchange where that is larger."""
    kept = 2 * 64 * 64 * 2
    assert _launch(warp_split="q", num_stages=3).resources.smem_bytes_per_cta == kept + 2 * 64 * 64 * 2 + 64 * 64 * 2
    assert _launch(warp_split="k").resources.smem_bytes_per_cta == kept + 4 * 64 * 64 * 4
