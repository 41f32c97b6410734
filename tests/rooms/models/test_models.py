"""Models: the catalogue against published tables, config.json of each kind, and heads shared by GPUs."""

import json
from pathlib import Path
from typing import Any

import pytest
from tilesight.simulator.models.catalogue import load_model, model_problem, models, source
from tilesight.simulator.models.config_json import model_of
from tilesight.simulator.models.model import Model

PUBLISHED = {
    "llama-3-8b": (32, 8, 128, 32, 0, 0),
    "llama-3-70b": (64, 8, 128, 80, 0, 0),
    "llama-3.1-405b": (128, 8, 128, 126, 0, 0),
    "qwen-2.5-7b": (28, 4, 128, 28, 0, 0),
    "qwen-2.5-72b": (64, 8, 128, 80, 0, 0),
    "qwen-3-8b": (32, 8, 128, 36, 0, 0),
    "qwen-3-32b": (64, 8, 128, 64, 0, 0),
    "mistral-7b": (32, 8, 128, 0, 32, 4096),
    "mixtral-8x7b": (32, 8, 128, 32, 0, 0),
    "qwen-3-30b-a3b": (32, 4, 128, 48, 0, 0),
    "gemma-3-27b": (32, 16, 128, 10, 52, 1024),
    "gpt-oss-20b": (64, 8, 64, 12, 12, 128),
    "gpt-oss-120b": (64, 8, 64, 18, 18, 128),
    "deepseek-v3": (128, 128, 192, 61, 0, 0),
}
"""Heads, KV heads, head dimension, global and local layers, window: model cards and technical reports."""
QWEN_25 = {
    "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "hidden_size": 3584, "max_window_layers": 28,
    "model_type": "qwen2", "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
    "sliding_window": 131072, "torch_dtype": "bfloat16", "use_sliding_window": False,
}  # fmt: skip
GPT_OSS = {
    "architectures": ["GptOssForCausalLM"], "attention_bias": True, "head_dim": 64, "hidden_size": 2880,
    "layer_types": ["sliding_attention", "full_attention"] * 12, "model_type": "gpt_oss", "num_attention_heads": 64,
    "num_hidden_layers": 24, "num_key_value_heads": 8, "sliding_window": 128,
}  # fmt: skip
GEMMA_3 = {
    "architectures": ["Gemma3ForConditionalGeneration"], "torch_dtype": "bfloat16", "vision_config": {"depth": 27},
    "text_config": {
        "head_dim": 128, "hidden_size": 5376, "model_type": "gemma3_text", "num_attention_heads": 32,
        "num_hidden_layers": 62, "num_key_value_heads": 16, "query_pre_attn_scalar": 168, "sliding_window": 1024,
    },
}  # fmt: skip
GEMMA_2 = {
    "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "head_dim": 128, "hidden_size": 4608,
    "model_type": "gemma2", "num_attention_heads": 32, "num_hidden_layers": 46, "num_key_value_heads": 16,
    "sliding_window": 4096, "torch_dtype": "float16",
}  # fmt: skip
LLAMA = {
    "hidden_size": 4096, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
    "torch_dtype": "float32",
}  # fmt: skip
LATENT = LLAMA | {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
INTERVAL = LLAMA | {"model_type": "qwen3_next", "head_dim": 256, "full_attention_interval": 4}
NEXT = LLAMA | {"layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 8, "linear_num_key_heads": 16}


def _shape(model: Model) -> tuple[int, ...]:
    return model.heads, model.kv_heads, model.head_dim, model.global_layers, model.local_layers, model.window


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_model_is_as_published(name: str) -> None:
    """Heads, layers and window of every model that is answered, in bf16, each with its source."""
    assert _shape(load_model(name)) == PUBLISHED[name]
    assert load_model(name).dtype == "bf16" and len(source(name)) > 40


def test_the_catalogue_holds_no_model_that_is_not_checked() -> None:
    """All of the table."""
    assert set(models()) == set(PUBLISHED)


@pytest.mark.parametrize(
    ("config", "shape", "dtype"),
    [
        (QWEN_25, (28, 4, 128, 28, 0, 0), "bf16"),
        (QWEN_25 | {"use_sliding_window": True, "max_window_layers": 20}, (28, 4, 128, 20, 8, 131072), "bf16"),
        (GPT_OSS, (64, 8, 64, 12, 12, 128), "bf16"),
        (GEMMA_3, (32, 16, 128, 10, 52, 1024), "bf16"),
        (GEMMA_2, (32, 16, 128, 23, 23, 4096), "fp16"),
        (LLAMA, (32, 32, 128, 32, 0, 0), "fp32"),
        (LLAMA | {"model_type": "mistral", "sliding_window": 4096}, (32, 32, 128, 0, 32, 4096), "fp32"),
        (NEXT, (32, 32, 128, 8, 0, 0), "fp32"),
        (INTERVAL, (32, 32, 256, 8, 0, 0), "fp32"),
    ],
)
def test_a_config_is_read_as_transformers_reads_it(config: dict[str, Any], shape: tuple[int, ...], dtype: str) -> None:
    """A window counts where the model type uses it; what the file leaves out is the model type's own."""
    model = model_of(config, "it")
    assert (_shape(model), model.dtype) == (shape, dtype)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (GPT_OSS, ["names no dtype", "attention sinks"]),
        (GEMMA_2, ["attn_logit_softcapping = 50.0"]),
        (GEMMA_3, ["vision_config"]),
        (NEXT, ["24 of 32 layers are linear_attention", "linear_num_key_heads = 16 is not looked at"]),
        (LLAMA | {"architectures": ["BertForMaskedLM"]}, ["its mask is taken as causal"]),
        (LLAMA | {"sliding_window": 512}, ["window of 512 is taken for all layers"]),
        (QWEN_25, []),
    ],
)
def test_what_is_left_out_of_attention_is_said(config: dict[str, Any], said: list[str]) -> None:
    """A note for each, and none where nothing is left out."""
    notes = model_of(config, "it").notes
    assert len(notes) == len(said)
    assert all(text in note for text, note in zip(said, notes, strict=True))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_attention_heads": None}, "num_attention_heads: is missing"),
        ({"num_key_value_heads": 5}, "num_key_value_heads = 5: must divide num_attention_heads = 32"),
        ({"hidden_size": 4100}, "hidden_size = 4100: must be a multiple of num_attention_heads = 32"),
        ({"model_type": "qwen3"}, "head_dim: is missing"),
        ({"kv_lora_rank": 512}, "qk_rope_head_dim: is missing"),
        ({"head_dim": 192, "v_head_dim": 128}, "v_head_dim = 128: must be head_dim = 192"),
        ({"global_head_dim": 512}, "global_head_dim = 512: layers with unlike heads"),
        ({"num_hidden_layers": 10**11}, "num_hidden_layers = 100000000000: must be at most 16777216"),
        ({"num_attention_heads": 10**11}, "num_attention_heads = 100000000000: must be at most 16777216"),
        ({"layer_types": ["full_attention"]}, "must be a list of num_hidden_layers = 32"),
        ({"layer_types": ["mamba"] * 32}, "no layer is full_attention"),
        ({"torch_dtype": "int4"}, "dtype = 'int4': must be one of bfloat16"),
    ],
)
def test_an_attention_that_is_not_answered_is_refused(changed: dict[str, Any], message: str) -> None:
    """In a line that names the key; no other shape is taken in its place."""
    with pytest.raises(ValueError, match=message):
        model_of(LLAMA | changed, "it")


def test_decoding_of_latent_attention_is_over_latents() -> None:
    """DeepSeek-V3: its heads share 512 + 64 elements a key, all on each GPU; the heads of prefill have 192."""
    model = load_model("deepseek-v3")
    prefill, decode = (
        model_problem(model, batch=4, seqlen_q=1, seqlen_k=100, tp=8, decode=decode) for decode in (False, True)
    )
    assert (prefill.heads, prefill.kv_heads, prefill.head_dim) == (16, 16, 192)
    assert decode.text == "B=4 H=16 G=1 M=1 N=100 D=576 bf16 causal, latent 512"
    assert model.kv_bytes("global", 100, tp=8) == model.kv_bytes("global", 100) == 100 * 576 * 2
    assert "heads of 192, and V of 128 where they can, else padded to that" in model.notes[0]
    narrow = model_problem(model, batch=1, seqlen_q=100, seqlen_k=100, padded=False)
    assert (narrow.head_dim, narrow.head_dim_v, narrow.value_dim) == (192, 128, 128)
    assert model_problem("llama-3-8b", batch=1, seqlen_q=100, seqlen_k=100, padded=False).head_dim_v == 0
    with pytest.raises(ValueError, match=r"v_head_dim = 256: must be at most .* = 192"):
        model_of({**LATENT, "v_head_dim": 256}, "it")


def test_a_file_answers_as_the_name_does(tmp_path: Path) -> None:
    """A config.json of the same model makes the same problem."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(GEMMA_3), "utf-8")
    lengths = {"batch": 2, "seqlen_q": 1, "seqlen_k": 4096}
    assert model_problem(file, layers="local", **lengths) == model_problem("gemma-3-27b", layers="local", **lengths)
    with pytest.raises(ValueError, match="is a folder; give"):
        load_model(tmp_path)


@pytest.mark.parametrize("name", ["meta-llama/Meta-Llama-3-8B-Instruct", "Llama 3.1 8B", "LLAMA3_8B"])
def test_names_are_written_in_many_ways(name: str) -> None:
    """Any case, separators and owner; checkpoints of one shape have one entry."""
    assert load_model(name).name == "llama-3-8b"


@pytest.mark.parametrize(
    ("name", "tp", "heads", "kv_heads"),
    [("llama-3-70b", 8, 8, 1), ("llama-3-70b", 4, 16, 2), ("llama-3-70b", 16, 4, 1), ("qwen-2.5-7b", 4, 7, 1)],
)
def test_gpus_share_heads_as_in_vllm(name: str, tp: int, heads: int, kv_heads: int) -> None:
    """Query heads are divided, KV heads too, until each GPU has one; then GPUs hold copies."""
    problem = model_problem(name, tp=tp, batch=1, seqlen_q=64, seqlen_k=64)
    assert (problem.heads, problem.kv_heads) == (heads, kv_heads)
    assert problem.causal and problem.window == 0


@pytest.mark.parametrize(("tp", "allowed"), [(3, "1, 2, 4, 28"), (7, "1, 2, 4, 28"), (0, "1 or more")])
def test_heads_that_cannot_be_shared_are_refused(tp: int, allowed: str) -> None:
    """28 heads go to 7 GPUs, their 4 KV heads do not."""
    with pytest.raises(ValueError, match=f"tp = {tp}.*{allowed}"):
        load_model("qwen-2.5-7b").shard(tp)
