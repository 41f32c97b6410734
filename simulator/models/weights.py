"""Bytes of a model's weights, counted from its config.json where every tensor of the model type is known.

Counted are the tensors of Transformers' modules; of `gpt_oss` the experts in MXFP4, as published: blocks of 32 elements
of 4 bits with a scale of a byte.

Source: modeling_{llama,mistral,qwen2,qwen3,gemma3,gpt_oss}.py of Transformers; OCP Microscaling Formats (2023), MXFP4.
"""

from collections.abc import Mapping
from typing import Any

MXFP4_BYTES = 17 / 32
"""Of an element, its share of the scale included [B]."""
DENSE = ("llama", "mistral", "qwen2", "qwen3", "gemma3_text")
COUNTED = (*DENSE, "gpt_oss")
"""Model types that are counted."""


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
    if kind == "gpt_oss":
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
