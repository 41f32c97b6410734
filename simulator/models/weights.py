"""Bytes of a model's weights, counted from its config.json where every tensor of the model type is known.

Counted are the tensors of Transformers' modules; of `gpt_oss` the experts in MXFP4, as published: blocks of 32 elements
of 4 bits with a scale of a byte.

Source: modeling_{llama,mistral,qwen2,qwen3,gemma3,gpt_oss,mixtral,qwen3_moe}.py of Transformers;
OCP Microscaling Formats (2023), MXFP4.
"""

from collections.abc import Mapping
from typing import Any

MXFP4_BYTES = 17 / 32
"""Of an element, its share of the scale included [B]."""
DENSE = ("llama", "mistral", "qwen2", "qwen3", "gemma3_text")
EXPERTS = ("mixtral", "qwen3_moe")
"""Model types all of whose layers have experts without biases, and none that all tokens go to."""
COUNTED = (*DENSE, *EXPERTS, "gpt_oss")
"""Model types that are counted."""


def expert_sizes(keys: Mapping[str, Any]) -> tuple[int, int, int]:
    """Experts of a layer, of these for each token, and width of one's hidden layer; zeros where there are none."""
    names = ("num_experts", "num_experts_per_tok", "moe_intermediate_size")
    if keys.get("model_type") == "mixtral":
        names = ("num_local_experts", "num_experts_per_tok", "intermediate_size")
    count, for_token, inner = (keys.get(name) for name in names)
    if keys.get("model_type") not in EXPERTS or keys.get("mlp_only_layers") or keys.get("decoder_sparse_step", 1) != 1:
        return 0, 0, 0
    known = all(isinstance(size, int) and size > 0 for size in (count, for_token, inner))
    return (int(count or 0), int(for_token or 0), int(inner or 0)) if known else (0, 0, 0)


def not_whole(keys: Mapping[str, Any]) -> str:
    """Why products and MLPs of a model are not answered, in words; empty: they are."""
    kind = keys.get("model_type")
    if keys.get("kv_lora_rank"):
        return "projections of latent attention are not answered yet"
    if keys.get("quantization_config"):
        return "its weights are quantized, and products with them are not answered yet"
    if kind in EXPERTS:
        return "" if all(expert_sizes(keys)) else "its config.json does not tell all of its experts"
    if kind not in DENSE:
        return f"layers of model_type {kind} are not known here"
    needed = ("hidden_size", "intermediate_size", "vocab_size")
    lacks = [key for key in needed if not isinstance(keys.get(key), int)]
    return f"its config.json has no {lacks[0]}" if lacks else ""


def weight_count(keys: Mapping[str, Any], heads: int, kv_heads: int, head_dim: int) -> tuple[int, int]:
    """Elements of a model's weights, and of those the ones of experts; zeros where they cannot be counted.

    Args:
        keys: of config.json; heads, kv_heads, head_dim: of its attention.
    """
    kind = keys.get("model_type")
    sizes = [keys.get(key) for key in ("hidden_size", "intermediate_size", "vocab_size", "num_hidden_layers")]
    known = [size for size in sizes if isinstance(size, int) and size > 0]
    if kind not in COUNTED or len(known) < len(sizes) or (kind != "gpt_oss" and keys.get("attention_bias")):
        return 0, 0
    hidden, inner, vocabulary, layers = known
    queries, heads_in = heads * head_dim, (heads + 2 * kv_heads) * head_dim
    layer = hidden * (heads_in + queries) + 2 * hidden
    experts = 0
    if kind in EXPERTS:
        number, _, wide = expert_sizes(keys)
        if not number:
            return 0, 0
        experts = layers * number * 3 * wide * hidden
        layer += number * hidden + (2 * head_dim if kind == "qwen3_moe" else 0)
    elif kind == "gpt_oss":
        count = keys.get("num_local_experts")
        if not isinstance(count, int):
            return 0, 0
        experts = layers * count * 3 * inner * hidden
        layer += heads_in + hidden + heads + count * (hidden + 1) + count * (2 * inner + hidden)
    else:
        layer += 3 * inner * hidden
        layer += {"qwen2": heads_in, "qwen3": 2 * head_dim, "gemma3_text": 2 * head_dim + 2 * hidden}.get(str(kind), 0)
    tied = keys.get("tie_word_embeddings", kind == "gemma3_text")
    embedding = vocabulary * hidden * (1 if tied else 2)
    return layers * layer + experts + embedding + hidden, experts


def weight_bytes(keys: Mapping[str, Any], heads: int, kv_heads: int, head_dim: int, element_bytes: int) -> int:
    """Bytes of a model's weights; 0 where they cannot be counted [B]. Args: element_bytes: of those not quantized."""
    total, experts = weight_count(keys, heads, kv_heads, head_dim)
    quantized = keys.get("quantization_config") or {}
    if not quantized:
        return total * element_bytes
    if keys.get("model_type") != "gpt_oss" or quantized.get("quant_method") != "mxfp4":
        return 0
    return (total - experts) * element_bytes + round(experts * MXFP4_BYTES)
