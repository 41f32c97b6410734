"""What attention over latents asks for, against numbers counted by hand."""

from dataclasses import replace

import pytest
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.latent_attention import LatentAttentionProblem
from tilesight.simulator.schedules.registry import all_schedules

STEP = LatentAttentionProblem(batch=2, heads=16, seqlen_q=1, seqlen_k=100, latent_dim=32, rope_dim=16, dtype="bf16")


def test_a_latent_is_read_once_as_key_and_as_value() -> None:
    """200 keys and 32 queries of 48 elements, 32 outputs of 32; no second read for values."""
    assert STEP.compulsory.read_bytes == (200 + 32) * 48 * 2
    assert STEP.compulsory.write_bytes == 32 * 32 * 2
    ragged = replace(STEP, lengths=(100, 7))
    assert ragged.compulsory.read_bytes == (107 + 32) * 48 * 2


def test_products_have_the_width_of_keys_and_of_latents() -> None:
    """3200 scores: 48 elements of K, 32 of V, and two operations for each."""
    assert STEP.scores == STEP.exp_count == 2 * 16 * 100
    assert STEP.matmul_flop == 2 * 3200 * (48 + 32)


def test_it_is_no_attention_of_heads() -> None:
    """By value, by name, and for every schedule: none solves both."""
    heads = AttentionProblem(batch=2, heads=16, kv_heads=1, seqlen_q=1, seqlen_k=100, head_dim=48)
    able = {schedule.name for schedule in all_schedules().values() if schedule.why_not(STEP) is None}
    assert able == {item.name for item in all_schedules().values() if item.problem is LatentAttentionProblem}
    assert not any(all_schedules()[name].why_not(heads) is None for name in able)
    assert len({problem.key for problem in (STEP, replace(STEP, latent_dim=16, rope_dim=32))}) == 2
    assert STEP.text.endswith("D=48 bf16 no mask, latent 32")


def test_what_cannot_be_is_refused_by_name() -> None:
    """Dimensions that no tile has; a type that the kernel does not take."""
    with pytest.raises(ValueError, match="latent_dim = 500: must be one of 16, 32"):
        replace(STEP, latent_dim=500)
    with pytest.raises(ValueError, match="rope_dim = 0: must be one of 16, 32"):
        replace(STEP, rope_dim=0)
    assert all_schedules()["mla_decode"].why_not(replace(STEP, dtype="fp8")) == "dtype = fp8: must be fp16 or bf16"
