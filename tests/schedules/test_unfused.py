"""Unfused attention: six kernels, whatever the problem."""

from dataclasses import replace

import pytest
from schedules.contract import tensors_of
from support.strategies import TOY
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.launch.walk import steps, tally
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import find_schedule

UNFUSED, NAIVE = find_schedule("unfused"), find_schedule("naive")
PROBLEM = AttentionProblem(batch=2, heads=2, seqlen_q=256, seqlen_k=512, head_dim=64)


def _launches(problem: AttentionProblem = PROBLEM) -> tuple[Launch, ...]:
    return UNFUSED.launches(problem, UNFUSED.default, TOY)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_all_six_kernels_always_run(causal: bool, dropout: float) -> None:
    """Masking and dropout too, where they change nothing."""
    launches = _launches(replace(PROBLEM, causal=causal, dropout=dropout))
    assert [launch.name for launch in launches] == ["scores", "scale", "mask", "softmax", "dropout", "output"]


def test_every_intermediate_is_a_tensor_of_its_own() -> None:
    """So that memory follows from what is alive."""
    scratch = [tensor.name for tensor in tensors_of(_launches()).values() if tensor.role == "scratch"]
    assert scratch == ["S", "S_scaled", "S_masked", "P", "P_dropped", "DROP_MASK"]


def test_the_mask_is_one_matrix_of_bytes_for_all_heads() -> None:
    """Read once a head; the dropout mask has one matrix a head."""
    tensors = tensors_of(_launches())
    assert (tensors["MASK"].role, tensors["MASK"].slabs, tensors["MASK"].element_bytes) == ("input", 1, 1)
    assert (tensors["DROP_MASK"].slabs, tensors["DROP_MASK"].element_bytes) == (4, 1)
    assert tally(_launches()[2].program).load_bytes["MASK"] == 4 * 256 * 512


def test_the_products_are_those_of_naive_attention() -> None:
    """Same tiles, same grid; only the scale moved to a kernel of its own."""
    unfused, naive = _launches(), NAIVE.launches(PROBLEM, UNFUSED.default, TOY)
    for ours, theirs in ((unfused[0], naive[0]), (unfused[5], naive[2])):
        assert (ours.grid, ours.num_warps, ours.resources) == (theirs.grid, theirs.num_warps, theirs.resources)
        assert tally(ours.program).executions == tally(theirs.program).executions
    assert [step.work.fma_flop for step, _ in steps(unfused[0].program.body)] == [0, 0]
    assert [step.work.fma_flop for step, _ in steps(naive[0].program.body)] == [0, 128 * 64]


def test_long_rows_are_cut_into_blocks_with_a_cta_each() -> None:
    """Elementwise kernels need no whole row; the softmax does."""
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=3, seqlen_k=20000, head_dim=16)
    grids = {launch.name: launch.grid[0] for launch in _launches(problem)}
    assert grids["scale"] == grids["mask"] == grids["dropout"] == 3 * 5
    assert grids["softmax"] == 3
