"""What one backward pass asks for, against numbers counted by hand."""

from dataclasses import asdict, replace

import pytest
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.attention_backward import AttentionBackwardProblem
from tilesight.simulator.schedules.registry import all_schedules, default_schedule

FORWARD = AttentionProblem(batch=2, heads=4, kv_heads=2, seqlen_q=8, seqlen_k=16, head_dim=32)
BACKWARD = AttentionBackwardProblem(**asdict(FORWARD))


def test_five_products_are_two_and_a_half_times_the_forward_pass() -> None:
    """Masked or not."""
    for changed in ({}, {"causal": True}, {"causal": True, "window": 3}):
        assert 2 * replace(BACKWARD, **changed).matmul_flop == 5 * replace(FORWARD, **changed).matmul_flop


def test_six_tensors_are_read_and_three_written() -> None:
    """Q, O and dO of 2048 elements, K and V of 2048, LSE of 64 in fp32; dQ, dK and dV."""
    assert BACKWARD.compulsory.read_bytes == 5 * 2048 * 2 + 64 * 4
    assert BACKWARD.compulsory.write_bytes == 3 * 2048 * 2


def test_the_two_passes_are_different_problems() -> None:
    """By value, by name, and for every schedule: none solves both."""
    assert BACKWARD != FORWARD and BACKWARD.key != FORWARD.key and "backward" in BACKWARD.text
    for schedule in all_schedules().values():
        assert schedule.why_not(BACKWARD) is None or schedule.problem is not AttentionBackwardProblem
        if schedule.problem is AttentionBackwardProblem:
            assert schedule.why_not(FORWARD) == "this schedule solves attention backward, not attention"
        else:
            assert schedule.why_not(BACKWARD)
    assert default_schedule(AttentionBackwardProblem) == "flash_backward"


def test_fields_are_checked_as_those_of_the_forward_pass() -> None:
    """A KV head for every query head at most."""
    with pytest.raises(ValueError, match="kv_heads = 3: must divide heads = 4"):
        replace(BACKWARD, kv_heads=3)
