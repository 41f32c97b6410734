"""Splits by the rules of other programs, as an option of schedules."""

import numpy as np
import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.latent_attention import LatentAttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.decode.rules import LATENT_RULES, RULES, SPLIT_RULE, TITLES, by_rules, splits_of
from tilesight.simulator.schedules.registry import find_schedule

H200 = load_device("h200")
ALIKE = AttentionProblem(batch=4, heads=32, kv_heads=8, seqlen_q=1, seqlen_k=8192, head_dim=128)
RAGGED = AttentionProblem(
    batch=4, heads=32, kv_heads=8, seqlen_q=1, seqlen_k=8192, head_dim=128, lengths=(8192, 8000, 100, 1)
)
DECODE, LATENTS = find_schedule("flash_decode"), find_schedule("mla_decode")


def test_every_rule_can_be_named() -> None:
    """And has a title in the notes."""
    assert set(SPLIT_RULE.values) == {"even", *RULES} == {"even", *TITLES}
    assert set(LATENT_RULES) < set(RULES)


def test_no_rule_splits_all_sequences_alike() -> None:
    """As `splits` says, also those that have less keys."""
    assert splits_of(RAGGED, DECODE.config(splits=8), H200) == (8, 8, 8, 8)
    with pytest.raises(ValueError, match="splits = 129: must be an integer from 1 to 128"):
        DECODE.config(splits=129)
    with pytest.raises(ValueError, match="splits = 128: 8192 keys are 64 tiles of 128: must be at most one split"):
        splits_of(RAGGED, DECODE.config(splits=128, block_n=128), H200)


@pytest.mark.parametrize("rule", list(RULES))
def test_no_split_is_without_a_tile_of_keys(rule: str) -> None:
    """Whatever a rule says of its own tiles."""
    assert splits_of(RAGGED, DECODE.config(split_rule=rule, block_n=128), H200)[2:] == (1, 1)


def test_a_rule_that_gives_all_sequences_as_many_is_that_many_splits() -> None:
    """The same launches, without a table."""
    eight = DECODE.launches(ALIKE, DECODE.config(split_rule="sglang"), H200)
    assert [launch.grid for launch in eight] == [(8, 32, 1), (1, 128, 1)]
    by_number = DECODE.launches(ALIKE, DECODE.config(splits=8), H200)
    assert [(launch.name, launch.constants, launch.arguments) for launch in eight] == [
        (launch.name, launch.constants, launch.arguments) for launch in by_number
    ]


def test_splits_that_differ_stand_before_the_keys_of_each_sequence() -> None:
    """In the table that both launches read; the grid has room for the most."""
    split, merge = DECODE.launches(RAGGED, DECODE.config(split_rule="sglang"), H200)
    table = np.frombuffer(split.program.tensor("TABLE").values or b"", np.int32).reshape(4, -1)
    assert table.tolist() == [[8, 8192], [8, 8000], [1, 100], [1, 1]]
    assert split.grid == (8, 32, 1)
    assert merge.program.tensor("TABLE") == split.program.tensor("TABLE")
    assert (split.constants["own_splits"], merge.arguments["heads"], merge.arguments["table_width"]) == (True, 32, 2)


def test_splits_beside_a_rule_are_refused() -> None:
    """And the default that suits a problem leaves its splits out."""
    with pytest.raises(ValueError, match="splits = 4: split_rule vllm says it; leave out one of them"):
        DECODE.config(splits=4, split_rule="vllm")
    wide = AttentionProblem(batch=1, heads=8, seqlen_q=1, seqlen_k=65536, head_dim=512)
    completed = DECODE.completed({"split_rule": "flashinfer"}, wide, H200)
    assert (completed.splits, completed.split_rule, completed.block_n) == (1, "flashinfer", 32)
    assert DECODE.completed({}, wide, H200).splits > 1
    assert {config.splits for config in DECODE.configs(split_rule="vllm")} == {1}


def test_a_rule_that_says_nothing_of_a_problem_is_refused_with_those_that_do() -> None:
    """FlashAttention-3's tiles of other heads are not told; FlashInfer's plan is not for latents."""
    narrow = AttentionProblem(batch=1, heads=8, seqlen_q=1, seqlen_k=8192, head_dim=64)
    with pytest.raises(ValueError, match="split_rule = flash-attention-3: known for heads of 128 elements"):
        DECODE.launches(narrow, Config(split_rule="flash-attention-3"), H200)
    latents = LatentAttentionProblem(batch=1, heads=16, seqlen_q=1, seqlen_k=8192, dtype="bf16")
    with pytest.raises(ValueError, match=r"split_rule = flashinfer: says nothing of latent attention: .* vllm, sglang"):
        LATENTS.launches(latents, Config(split_rule="flashinfer"), H200)


def test_notes_name_a_number_where_all_have_it_and_else_the_rule() -> None:
    """So that `explore` can try what each rule would have chosen."""
    assert by_rules(ALIKE, DECODE.default, H200) == {
        "vLLM Triton": {"splits": 16},
        "SGLang Triton": {"splits": 8},
        "FlashInfer": {"splits": 8},
        "FlashAttention-3": {"splits": 4},
    }
    assert by_rules(RAGGED, DECODE.default, H200)["SGLang Triton"] == {"split_rule": "sglang", "splits": 1}
