"""A whole model on GPUs that share it: what no GPU can beat, what each way sends, and a layer measured on two H200s."""

from dataclasses import replace

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.explore.serving import Serving
from tilesight.simulator.explore.splits import best, ways
from tilesight.simulator.models.catalogue import load_model
from tilesight.simulator.operations.cost_model import KernelCostModel
from tilesight.simulator.operations.families.collectives import protocols
from tilesight.simulator.operations.model_step import PARTS, ModelStep, Split, decode_step, prefill_step

H200 = load_device("h200")
LLAMA, MIXTRAL = load_model("llama-3-70b"), load_model("mixtral-8x7b")


def part(step: ModelStep, name: str) -> float:
    """Time of a part [s]."""
    return step.parts_s[PARTS.index(name)]


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_no_step_beats_its_flop_and_its_bytes(tp: int) -> None:
    """Prefill multiplies each token by each weight but the embedding's; decode reads all of a GPU's weights once."""
    split = Split(tp=tp)
    prefill = prefill_step(LLAMA, H200, split, 4096)
    multiplied = LLAMA.weight_bytes / 2 - 2 * LLAMA.vocabulary * LLAMA.width
    peak = H200.sms * H200.fastest_flop_per_cycle("bf16") * H200.boost_clock_hz
    assert part(prefill, "projections") + part(prefill, "MLP") > 2 * 4096 * multiplied / tp / peak
    decode = decode_step(LLAMA, H200, split, 16, 4096)
    read = (LLAMA.weight_bytes - 2 * LLAMA.vocabulary * LLAMA.width) / tp
    products_s = part(decode, "projections") + part(decode, "MLP") + part(decode, "vocabulary")
    assert products_s > read / H200.hbm_peak_bytes_per_s
    cache = Serving(model=LLAMA, tp=tp, batch=16, seqlen=4096).kv_bytes * 16
    assert part(decode, "attention") > cache / H200.hbm_peak_bytes_per_s
    assert decode.time_s == pytest.approx(sum(decode.parts_s) + decode.gaps_s) and decode.gaps_s > 0


def test_more_gpus_compute_less_and_send_more() -> None:
    """Every part that is shared shrinks; norms are of whole tokens on each GPU; of one GPU nothing is sent."""
    steps = [prefill_step(LLAMA, H200, Split(tp=tp), 2048) for tp in (1, 2, 4, 8)]
    for name in ("projections", "MLP", "vocabulary"):
        times = [part(step, name) for step in steps]
        assert times == sorted(times, reverse=True) and len(set(times)) == 4
    sent = [part(step, "communication") for step in steps]
    assert sent[0] == 0.0 and sent[1:] == sorted(sent[1:])


def test_two_all_reduces_a_layer_and_the_embedding_are_sent() -> None:
    """By the prices of collectives, and the logits of a sequence gathered."""
    gpu, tokens = KernelCostModel(H200), 4096
    (reduced_s, *_), (gathered_s, *_) = (
        min(protocols(kind, 4, size, gpu))
        for kind, size in (("all_reduce", tokens * 8192 * 2), ("all_gather", LLAMA.vocabulary * 2))
    )
    step = prefill_step(LLAMA, H200, Split(tp=4), tokens)
    assert part(step, "communication") == pytest.approx((2 * 80 + 1) * reduced_s + gathered_s)


def test_experts_on_gpus_with_sequences_of_their_own_send_their_tokens_there_and_back() -> None:
    """All-to-alls of the tokens of each expert; where all GPUs have the same tokens, what they make is added up."""
    tokens, layers = 2048, 32
    apart, together = (prefill_step(MIXTRAL, H200, Split(tp=tp, ep=8), tokens) for tp in (1, 8))
    sent_s = min(protocols("all_to_all", 8, tokens * 2 * 4096 * 2, KernelCostModel(H200)))[0]
    assert part(apart, "communication") == pytest.approx(2 * layers * sent_s)
    assert part(together, "communication") == pytest.approx(
        part(prefill_step(MIXTRAL, H200, Split(tp=8), tokens), "communication")
    )
    assert apart.tokens == 8 * tokens and together.tokens == tokens
    assert part(apart, "MLP") == pytest.approx(part(prefill_step(MIXTRAL, H200, Split(), tokens), "MLP"), rel=0.15)


def test_few_tokens_reach_few_experts() -> None:
    """One token reads two of eight; sixteen read nearly all."""
    single, many = (part(decode_step(MIXTRAL, H200, Split(), batch, 1024), "MLP") for batch in (1, 16))
    expert_s = 32 * 3 * 4096 * 14336 * 2 / H200.hbm_peak_bytes_per_s
    assert 2 * expert_s < single < 3 * expert_s and 7 * expert_s < many < 10 * expert_s


def test_a_window_costs_no_more_than_what_it_shows() -> None:
    """A layer of 1,024 keys takes as long at 16 and at 32 thousand tokens for each token, in decode as in prefill."""
    local = replace(load_model("gemma-3-27b"), global_layers=0, local_layers=62)
    short, long = (part(prefill_step(local, H200, Split(), tokens), "attention") for tokens in (16384, 32768))
    assert long == pytest.approx(2 * short, rel=0.05)
    decodes = [part(decode_step(local, H200, Split(), 8, tokens), "attention") for tokens in (2048, 32768)]
    assert decodes[0] == pytest.approx(decodes[1])


@pytest.mark.parametrize(
    ("tokens", "without_us", "with_us"), [(16, 184.5, 205.1), (256, 325.6, 348.3), (4096, 4643.8, 4807.7)]
)
def test_an_mlp_of_llama_on_two_h200s(tokens: int, without_us: float, with_us: float) -> None:
    """By 13 %: eager, its gate in two kernels; 11, 4 and 12 % too fast."""
    step = decode_step(LLAMA, H200, Split(tp=2), tokens, 16)
    mlp_us = 1e6 * part(step, "MLP") / 80
    reduced_us = 1e6 * min(protocols("all_reduce", 2, tokens * 8192 * 2, KernelCostModel(H200)))[0]
    assert mlp_us == pytest.approx(without_us, rel=0.16)
    assert mlp_us + reduced_us == pytest.approx(with_us, rel=0.13)


def test_ways_to_share_fill_their_gpus_once() -> None:
    """Up to eight of a host; each way takes 1, 2, 4 or 8, and none twice; copies make as many tokens more."""
    every = list(ways(MIXTRAL, 8))
    assert {split.gpus for split in every} == {1, 2, 4, 8} and len(set(every)) == len(every)
    assert {split.gpus for split in ways(MIXTRAL, 3)} == {1, 2}
    alone, copies = (prefill_step(LLAMA, H200, Split(tp=2, replicas=count), 1024) for count in (1, 4))
    assert copies.tokens_per_s == pytest.approx(4 * alone.tokens_per_s)


def test_stages_send_what_they_make_and_hold_their_layers() -> None:
    """A sequence takes as long as on one GPU and a transfer; two are under way; weights and caches are halved."""
    alone, staged = (prefill_step(LLAMA, H200, Split(tp=2, pp=pp), 4096) for pp in (1, 2))
    sent_s = min(protocols("transfer", 2, 4096 * 8192 * 2, KernelCostModel(H200)))[0]
    assert part(staged, "communication") == pytest.approx(part(alone, "communication") + sent_s)
    assert staged.tokens == 2 * alone.tokens and part(staged, "MLP") == pytest.approx(part(alone, "MLP"), rel=1e-4)
    halves = decode_step(LLAMA, H200, Split(tp=2, pp=2), 32, 4096)
    assert part(halves, "MLP") == pytest.approx(part(decode_step(LLAMA, H200, Split(tp=2), 16, 4096), "MLP"))
    whole, half = (Serving(model=LLAMA, tp=2, pp=pp, batch=8, seqlen=4096) for pp in (1, 2))
    assert half.kv_bytes == whole.kv_bytes // 2 and half.shard_weight_bytes == whole.shard_weight_bytes // 2


def test_the_best_way_is_one_that_fits() -> None:
    """Llama 70B with 16 sequences of 8,192 tokens needs two H200s; all eight for the first token, copies for many."""
    asked = Serving(model=LLAMA, batch=16, seqlen=8192)
    answers = [asked.shared(H200, split) for split in ways(LLAMA, 8)]
    assert not best(answers[:1])
    ways_by_aim = {what: answer.split for what, answer in best(answers).items()}
    assert ways_by_aim["first token"] == Split(tp=8)
    assert ways_by_aim["prefill tokens/s"].replicas > 1 and ways_by_aim["prefill tokens/s"].tp == 1


@pytest.mark.parametrize(
    ("name", "split", "said"),
    [
        ("llama-3-70b", {"tp": 16}, "tp = 16: must be at most 8, the GPUs of one host"),
        ("llama-3-70b", {"tp": 2, "replicas": 5}, "gpus = 10: must be at most 8"),
        ("llama-3-70b", {"tp": 3}, "tp = 3: cannot share"),
        ("mixtral-8x7b", {"ep": 3}, "ep = 3: must divide the 8 experts"),
        ("mixtral-8x7b", {"tp": 4, "ep": 2}, "ep = 2: must be a multiple of tp = 4"),
        ("llama-3-8b", {"ep": 2}, "ep = 2: there are no experts"),
        ("llama-3-70b", {"pp": 3}, "pp = 3: must divide the 80 layers"),
        ("llama-3-70b", {"tp": 4, "pp": 4}, "pp = 4: makes 16 GPUs: must be at most 8"),
    ],
)
def test_what_cannot_be_shared_is_refused(name: str, split: dict[str, int], said: str) -> None:
    """In one line that names the number."""
    with pytest.raises(ValueError, match=said):
        prefill_step(load_model(name), H200, Split(**split), 128)


@pytest.mark.parametrize(("name", "said"), [("gpt-oss-20b", "quantized"), ("deepseek-v3", "latent")])
def test_a_model_whose_products_are_not_known_has_no_time(name: str, said: str) -> None:
    """But a reason; its attention is answered elsewhere."""
    assert said in prefill_step(load_model(name), H200, Split(), 128).reason


def test_gpus_whose_links_are_not_known_have_no_time_together() -> None:
    """Alone they have; over PCIe a step says more communication than over NVLink."""
    l4 = load_device("l4")
    assert "without NVLink" in decode_step(load_model("llama-3-8b"), l4, Split(tp=2), 4, 512).reason
    assert decode_step(load_model("llama-3-8b"), l4, Split(), 4, 512).time_s > 0
    assert decode_step(load_model("llama-3-8b"), load_device("l40s"), Split(tp=2), 4, 512).time_s > 0
