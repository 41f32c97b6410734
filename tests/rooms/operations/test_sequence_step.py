"""Attention to sequences that GPUs share: every score once, bytes over links by closed forms, memory, refusals."""

from collections import Counter
from dataclasses import replace

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.cost_model import KernelCostModel
from tilesight.simulator.operations.families.collectives import protocols
from tilesight.simulator.operations.priced import KernelEstimate
from tilesight.simulator.operations.sequence_step import SequenceStep, check_shares, sequence_step, ways, why_not
from tilesight.simulator.problems.attention import AttentionProblem

H200 = load_device("h200")
TOKENS = 32768
LONG = AttentionProblem(batch=1, heads=32, seqlen_q=TOKENS, seqlen_k=TOKENS, head_dim=128, dtype="bf16", causal=True)
DECODE = replace(LONG, seqlen_q=1, kv_heads=8)
Q_BYTES = TOKENS * 32 * 128 * 2
RATE = 5e14
PREFILL = ("ring", "gather", "heads")


def step_of(problem: AttentionProblem, way: str, gpus: int, rank: int = 0) -> tuple[SequenceStep, list[int]]:
    """A step whose attention runs at a fixed rate, and the FLOP of each part."""
    flop = []

    def attend(part: AttentionProblem) -> KernelEstimate:
        flop.append(part.matmul_flop)
        return KernelEstimate(name="a", source="simulated", time_s=flop[-1] / RATE, bound_by="tensor cores")

    return sequence_step(problem, way, gpus, rank, H200, attend), flop


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("gpus", [2, 4, 8])
@pytest.mark.parametrize("way", PREFILL)
def test_all_gpus_together_compute_every_score_once(way: str, gpus: int, causal: bool) -> None:
    """A ring whose causal parts are whole blocks and triangles, gathered keys, heads: the FLOP of one GPU."""
    problem = replace(LONG, causal=causal)
    shares = [sum(step_of(problem, way, gpus, rank)[1]) for rank in range(gpus)]
    assert sum(shares) == problem.matmul_flop
    assert max(shares) <= min(shares) * 1.001


@pytest.mark.parametrize("gpus", [2, 4, 8])
@pytest.mark.parametrize("kv_heads", [32, 8, 2])
def test_bytes_over_links_are_those_of_the_papers(gpus: int, kv_heads: int) -> None:
    """All others' K and V; or what is exchanged of Q, K, V and O, K and V of each head once a GPU that needs it."""
    problem = replace(LONG, kv_heads=kv_heads)
    kv_bytes, others = 2 * Q_BYTES * kv_heads // 32, gpus - 1
    sent = {way: step_of(problem, way, gpus)[0].link_bytes for way in PREFILL}
    assert sent["ring"] == sent["gather"] == others * kv_bytes / gpus
    repeated = max(gpus // kv_heads, 1)
    assert sent["heads"] == others / gpus * (2 * Q_BYTES + repeated * kv_bytes) / gpus


@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_few_queries_send_their_outputs_alone(gpus: int) -> None:
    """O and a sum of each row where keys are split; O of its heads else; the cache is read where it lies."""
    (keys, _), (heads, _) = (step_of(DECODE, way, gpus) for way in ways(DECODE))
    assert keys.link_bytes == (gpus - 1) * 32 * (128 * 2 + 4)
    assert heads.link_bytes == (gpus - 1) * 32 // gpus * 128 * 2
    cache = 2 * TOKENS * 8 * 128 * 2 // gpus
    for step in (keys, heads):
        assert cache < step.peak_bytes < 1.01 * cache


@pytest.mark.parametrize("way", PREFILL)
def test_communication_takes_what_its_collectives_do(way: str) -> None:
    """No price of its own; nothing is hidden behind attention, whose CTAs fill the GPU; and no step beats its parts."""
    step, flop = step_of(LONG, way, 8)
    share = Q_BYTES / 8
    kind, sizes = {
        "ring": ("transfer", [2 * share] * 7),
        "gather": ("all_gather", [2 * Q_BYTES]),
        "heads": ("all_to_all", [3 * share, share]),
    }[way]
    alone_s = sum(min(protocols(kind, 8, size, KernelCostModel(H200)))[0] for size in sizes)
    busy_s = step.timeline.communication_s
    assert 0.999 * alone_s <= busy_s <= (1.4 if way == "ring" else 1.001) * alone_s  # a ring sends and receives at once
    assert step.timeline.exposed_s <= 1.001 * busy_s
    assert step.timeline.end_s > sum(flop) / RATE + step.timeline.exposed_s


def test_a_ring_holds_two_shares_and_a_gather_all() -> None:
    """K and V of the own tokens and those that come and go; all of them, before and after their order."""
    share = Q_BYTES / 8
    peaks = {way: step_of(LONG, way, 8)[0].peak_bytes for way in PREFILL}
    assert 2 * Q_BYTES > peaks["ring"] > (1 + 2 + 2 * 2) * share
    assert peaks["gather"] > 2 * 2 * Q_BYTES
    assert peaks["heads"] == 9 * share


def test_the_last_gpu_attends_to_first_chunks_and_the_first_to_all_of_later_ones() -> None:
    """Of a ring: half as many keys, or half as many queries; as much work."""
    (first, ours), (last, others) = (step_of(LONG, "ring", 4, rank) for rank in (0, 3))
    assert ours == others
    shapes = [
        Counter((it.inputs[0].shape[2], it.inputs[1].shape[2]) for it in step.operations if it.kind == "triton")
        for step in (first, last)
    ]
    tokens = TOKENS // 4
    assert shapes[0] == {(tokens, tokens): 1, (tokens // 2, tokens): 3}
    assert shapes[1] == {(tokens, tokens): 1, (tokens, tokens // 2): 3}


def test_what_is_not_shared_evenly_is_named() -> None:
    """Heads, of one way; keys, of all; and what no way shares."""
    assert why_not(replace(LONG, heads=12, kv_heads=12), "heads", 8) == "12 heads are not shared evenly by 8 GPUs"
    assert "of 6 KV heads" in why_not(replace(LONG, heads=24, kv_heads=6), "heads", 4)
    assert not why_not(replace(LONG, heads=12, kv_heads=12), "ring", 8)
    with pytest.raises(ValueError, match=r"seqlens = 1000: must be a multiple of 16, .* two a GPU"):
        check_shares(replace(LONG, seqlen_q=1000, seqlen_k=1000), 8)
    check_shares(replace(LONG, seqlen_q=1000, seqlen_k=1000, causal=False), 8)
    with pytest.raises(ValueError, match="window = 128: must be left out"):
        ways(replace(LONG, window=128))
