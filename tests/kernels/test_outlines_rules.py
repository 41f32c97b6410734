"""Splits that differ from sequence to sequence: what the machine code then reads and writes, by the counts alone."""

from dataclasses import replace

import pytest
from schedules import contract
from support.outlines import followed
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.walk import tally
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.latent_attention import LatentAttentionProblem

import tilesight

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))

H200 = load_device("h200")
STEP = AttentionProblem(
    batch=3, heads=8, kv_heads=2, seqlen_q=1, seqlen_k=2048, head_dim=64, lengths=(2048, 400, 96), dtype="bf16"
)
SECTOR_BYTES = 32
COUNTS = {"vllm": (16, 7, 2), "sglang": (8, 2, 1), "flashinfer": (16, 4, 1)}
"""Of STEP in tiles of 64 keys: 16 segments, but no more than tiles; 256 keys a chunk; 128 keys a chunk."""


@pytest.mark.parametrize("rule", list(COUNTS))
@pytest.mark.parametrize("page", [0, 16])
def test_each_sequence_has_parts_of_its_own_splits(rule: str, page: int) -> None:
    """Keys are read once, queries and parts once a split of their sequence; other CTAs read their table alone."""
    problem, splits = replace(STEP, page=page), COUNTS[rule]
    split, merge = launches = followed(problem, "flash_decode", split_rule=rule, block_n=64, num_stages=2)
    contract.accesses_stay_inside(launches)
    contract.nothing_is_read_before_it_is_written(launches)
    read, written = tally(split.program).load_bytes, tally(split.program).store_bytes
    assert read["K"] == read["V"] == 2 * (2048 + 400 + 96) * 64 * 2
    assert read["Q"] == sum(splits) * 8 * 64 * 2
    assert written["O_parts"] == sum(splits) * 8 * 64 * 4
    assert written["LSE_parts"] == sum(splits) * 2 * SECTOR_BYTES  # four numbers of a group
    assert tally(merge.program).load_bytes["O_parts"] == written["O_parts"]
    assert tally(merge.program).store_bytes["O"] == 3 * 8 * 64 * 2


def test_explore_names_rules_by_which_sequences_have_splits_of_their_own() -> None:
    """SGLang's eight at most leave most SMs without a CTA; the best of 4 and 16 splits is ahead."""
    problem = replace(STEP, seqlen_k=16384, lengths=(16384, 400, 96))
    chosen = {"block_n": 64, "num_stages": 2, "splits": (4, 16)}
    explored = tilesight.explore(
        problem, schedule="flash_decode", resources_of=tilesight.compiler(problem), overhead="graph", **chosen
    )
    (note,) = (note for note in explored.notes if note.startswith("by the rules of other programs"))
    assert explored.ranked[0].config.splits == 16
    assert float(note.partition("SGLang Triton split_rule sglang (")[2].partition("x)")[0]) > 1.2
    assert "vLLM Triton split_rule vllm (" in note and "FlashInfer split_rule flashinfer (" in note


def test_latents_are_split_by_a_rule_as_keys_are() -> None:
    """SGLang's chunk of 256 keys, for 40 heads in three tiles."""
    problem = LatentAttentionProblem(batch=2, heads=40, seqlen_q=1, seqlen_k=2048, lengths=(2048, 500), dtype="bf16")
    split, merge = followed(problem, "mla_decode", split_rule="sglang", block_m=16, block_n=64)
    assert split.grid == (3, 8, 2)
    assert tally(split.program).load_bytes["C"] == 3 * (2048 + 500) * 576 * 2
    assert tally(split.program).store_bytes["O_parts"] == (8 + 2) * 40 * 512 * 4
    assert tally(merge.program).load_bytes["O_parts"] == (8 + 2) * 40 * 512 * 4


def test_a_chunk_is_split_as_flashinfer_plans_it() -> None:
    """96 queries of four heads are three tiles of 128; 264 CTAs for two heads leave 44 chunks a tile, of 128 keys."""
    problem = replace(STEP, seqlen_q=96, causal=True, lengths=(2048, 400, 200))
    split, _ = followed(problem, "chunked_flash", split_rule="flashinfer", block_m=64, block_n=64)
    assert split.grid == (6 * 16, 6, 1)
    assert tally(split.program).load_bytes["Q"] == (16 + 4 + 2) * 8 * 96 * 64 * 2
