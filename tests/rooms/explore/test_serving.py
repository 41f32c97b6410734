"""A model on a device: layers times bytes, what fits beside the weights, and shapes that are unlucky."""

from dataclasses import replace
from functools import partial

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.explore.explore import explore
from tilesight.simulator.explore.serving import Serving, ServingAnswer, decode_schedules, prefill_schedules, serve
from tilesight.simulator.models.catalogue import load_model
from tilesight.simulator.models.config_json import model_of
from tilesight.simulator.models.model import Model
from tilesight.simulator.report.model import serving_text

H200 = load_device("h200")
CONFIG = {"block_m": 64, "block_n": 64, "num_warps": 4, "num_stages": 2, "workers": 1}


def _served(model: Model, **asked: int) -> ServingAnswer:
    prefill = partial(explore, device=H200, **CONFIG)
    return serve(Serving(model=model, **asked), H200, "h200", prefill, lambda problem: None)


def test_the_kv_cache_is_layers_times_bytes() -> None:
    """Two tensors, KV heads of a GPU, tokens or the window, head dimension, two bytes: of every layer."""
    asked = Serving(model=load_model("gemma-3-27b"), tp=4, batch=3, seqlen=8192)
    assert asked.kv_bytes == 2 * 4 * 128 * 2 * (10 * 8192 + 52 * 1024)
    assert Serving(model=load_model("llama-3-70b"), tp=8, seqlen=8192).kv_bytes == 80 * 2 * 8192 * 128 * 2
    assert replace(asked, kv_dtype="i8").kv_bytes == asked.kv_bytes // 2


def test_sequences_fit_beside_the_weights() -> None:
    """As many as leave room for one more no longer; none where weights alone are too large; unknown without weights."""
    asked = Serving(model=load_model("llama-3-70b"), tp=8, seqlen=8192)
    fit = asked.sequences_that_fit(H200)
    assert fit is not None
    held = [asked.shard_weight_bytes + count * asked.kv_bytes for count in (fit, fit + 1)]
    assert held[0] <= H200.hbm_bytes < held[1]
    assert replace(asked, tp=1, model=load_model("llama-3.1-405b")).sequences_that_fit(H200) == 0
    assert replace(asked, model=replace(asked.model, weight_bytes=0)).sequences_that_fit(H200) is None


def test_all_layers_take_what_each_kind_takes() -> None:
    """Prefill is a simulated layer of each kind times its count; a decode step reads each cache once."""
    answer = _served(load_model("gpt-oss-20b"), tp=8, batch=5, seqlen=1024)
    whole, local = answer.kinds
    assert (whole.layers, whole.count, local.layers, local.count) == ("global", 12, "local", 12)
    assert whole.prefill.problem.window == 0 and local.prefill.problem.window == 128
    assert answer.prefill_s == pytest.approx(12 * (whole.prefill_s + local.prefill_s))
    assert whole.prefill_s > local.prefill_s > 0
    assert answer.decode_s == pytest.approx(5 * answer.asked.kv_bytes / H200.hbm_read_bytes_per_s)
    assert answer.decode_is_bound


def test_a_step_of_decoding_is_a_query_over_the_keys_that_are_kept() -> None:
    """Of all sequences, none of whose keys is masked; the schedule for it takes no prefill; its time is the answer."""
    asked = Serving(model=load_model("gpt-oss-20b"), tp=8, batch=5, seqlen=1024)
    whole, local = (asked.decode_problem(kind) for kind in asked.model.kinds)
    assert (whole.seqlen_k, local.seqlen_k) == (1024, 128)
    assert (local.batch, local.seqlen_q, local.heads, local.kv_heads) == (5, 1, 8, 1)
    assert not local.causal and local.compulsory.read_bytes > 5 * asked.model.kv_bytes("local", 1024, 8)
    assert [schedule.name for schedule in decode_schedules(whole)] == ["flash_decode"]
    ranked = partial(explore, device=H200, **CONFIG)
    answer = serve(asked, H200, "h200", ranked, ranked)
    assert not answer.decode_is_bound
    predicted_s = [kind.best_decode.costs[0] for kind in answer.kinds if kind.best_decode]
    assert answer.decode_s == pytest.approx(12 * sum(predicted_s))
    assert all(kind.decode_s > kind.decode_bound_s for kind in answer.kinds)


def test_a_head_dimension_between_powers_of_two_and_a_ragged_tile_are_unlucky() -> None:
    """96 is padded to 128; 65 rows take two tiles of 64, half of which is padding."""
    shape = {"hidden_size": 768, "num_attention_heads": 8, "num_hidden_layers": 2, "torch_dtype": "bfloat16"}
    (layers,) = _served(model_of({**shape, "model_type": "llama"}, "it"), seqlen=65).kinds
    lines = {item.cause: f"{item.text}; {item.cure}" for item in layers.unlucky}
    assert "D = 96 is padded to 128: 1.33x" in lines["head_dim"] and "64 + 32" in lines["head_dim"]
    assert "ends 1 rows into a tile of 64: 49 % is padding" in lines["ragged_tile"]


def test_what_would_cure_idle_sms_is_simulated() -> None:
    """A few heads leave SMs idle; several sequences together take less each, and the line says how much."""
    (layers,) = _served(load_model("llama-3-8b"), tp=8, seqlen=1024).kinds
    (tail,) = [item for item in layers.unlucky if item.cause == "tail"]
    assert "0.24 waves of CTAs" in tail.text
    assert "8 sequences prefilled together take" in tail.cure and tail.cure.endswith("% less")


def test_copies_of_kv_heads_are_said() -> None:
    """Eight GPUs hold each of 4 KV heads twice."""
    notes = Serving(model=load_model("qwen-3-30b-a3b"), tp=8).notes
    assert len(notes) == 1 and "each is held 2 times" in notes[0]


def test_values_narrower_than_keys_are_prefilled_as_they_are_unless_padded() -> None:
    """DeepSeek-V3's of 128 beside keys of 192: by the schedule that takes them, else by the default one."""
    asked = Serving(model=load_model("deepseek-v3"), tp=8, padded=False)
    narrow = asked.prefill_problem(asked.model.kinds[0])
    assert (narrow.head_dim, narrow.head_dim_v) == (192, 128)
    assert [schedule.name for schedule in prefill_schedules(narrow)] == ["masked_flash"]
    padded = replace(asked, padded=True).prefill_problem(asked.model.kinds[0])
    assert (padded.head_dim, padded.head_dim_v) == (192, 0)
    assert [schedule.name for schedule in prefill_schedules(padded)] == ["flash2"]


def test_what_was_not_tried_in_time_is_said_first_and_in_the_heading() -> None:
    """Of prefill and of decode, in text and data; where all were tried there is nothing to say."""
    answer = _served(load_model("llama-3-8b"), tp=8, seqlen=256)
    (kind,) = answer.kinds
    tried = kind.prefill.candidates[0]
    late = replace(tried, prediction=None, reason="no time was left", kind="takes too long")
    decode = replace(kind.prefill, candidates=(tried, late, late))
    cut = replace(answer, kinds=(replace(kind, decode=decode),))
    said = "h200, global layers: no time was left for 2 of 3 configurations of decode: the fastest may be among them"
    assert any(note.startswith(said) for note in cut.to_dict()["notes"])
    heading = "attention, in the fastest configuration of those that were tried in time"
    assert heading in serving_text([cut]) and said.split(":")[0] in serving_text([cut]).splitlines()[1]
    whole = replace(answer, kinds=(replace(kind, decode=replace(decode, candidates=(tried,))),))
    assert heading not in serving_text([whole]) and not whole.missing
    none = replace(answer, kinds=(replace(kind, decode=replace(decode, candidates=(late,))),))
    assert "h200: no decode of global layers: no time was left" in none.missing
