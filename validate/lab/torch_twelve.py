"""Twelve more models of `transformers`, of kinds that no other set has: few layers, random weights in bf16, forward."""

from typing import Any

from torch_models import decoding, hugging_face, language
from torch_parts import Case, drawn, numbers

TWELVE: dict[str, Case] = {}
Given = tuple[Any, tuple[Any, ...]]


def read(kind: str, head: str, *given: Any, **settings: Any) -> None:
    """Register a model that reads tokens, or whose cache holds some, a token for each sequence.

    Args:
        given: tokens of (batch, length), or a batch alone to decode; settings: of its config.
    """

    def case(device: str) -> Given:
        made = hugging_face(kind, device, head, **settings)
        return language(made, device, *given) if len(given) > 1 else decoding(made, device, *given)

    TWELVE[kind.replace("-", "_")] = case


def see(kind: str, head: str, *shape: int, **settings: Any) -> None:
    """The same of a model that takes a tensor. Args: shape: of it."""

    def case(device: str) -> Given:
        made = hugging_face(kind, device, head, **settings)
        return (lambda x: made(x)[0]), (drawn(device, *shape),)

    TWELVE[kind] = case


def deberta(device: str) -> Given:
    """Attention with places between queries and keys, gathered."""
    settings = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "num_hidden_layers": 4}
    more = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 256}
    made = hugging_face("deberta-v2", device, "AutoModel", **settings, **more)
    return (lambda x: made(x).last_hidden_state), (numbers(device, 128000, 16, 512),)


SIX = {"num_hidden_layers": 6}
GEMMA = {"hidden_size": 1152, "intermediate_size": 6912, "num_attention_heads": 4, "num_key_value_heads": 1}
PHI = {"hidden_size": 3072, "intermediate_size": 8192, "num_attention_heads": 32, "num_hidden_layers": 4}
BLOOM = {"hidden_size": 1024, "n_head": 16, "n_layer": 6, "vocab_size": 250880}
MAMBA = {"hidden_size": 768, "num_heads": 24, "head_dim": 64, "state_size": 128, "n_groups": 1, "num_hidden_layers": 2}
NEOX = {"hidden_size": 2048, "num_attention_heads": 16, "intermediate_size": 8192}
SERIES = {"num_input_channels": 7, "context_length": 512, "patch_length": 16, "patch_stride": 8, "d_model": 256}

read("gemma3_text", "AutoModelForCausalLM", 2, 2048, head_dim=256, sliding_window=512, **GEMMA, **SIX)
read("phi3", "AutoModelForCausalLM", 1, 4096, pad_token_id=0, **PHI)
read("gpt_neox", "AutoModelForCausalLM", 4, 2048, **NEOX, **SIX)
read("bloom", "AutoModelForCausalLM", 4, 1024, **BLOOM)
read("mamba2", "AutoModelForCausalLM", 4, 1024, **MAMBA)
read("qwen2", "AutoModelForCausalLM", 32, hidden_size=2048, num_attention_heads=16, num_key_value_heads=2, **SIX)
see("patchtst", "PatchTSTForPrediction", 64, 512, 7, prediction_length=96, **SERIES)
see("videomae", "AutoModel", 8, 16, 3, 224, 224, num_hidden_layers=4)
see("hubert", "AutoModel", 8, 80000, num_hidden_layers=4)
see("beit", "AutoModel", 64, 3, 224, 224, num_hidden_layers=4)
see("mobilenet_v2", "AutoModel", 64, 3, 224, 224)
TWELVE["deberta_v2"] = deberta
