"""The config.json of a checkpoint -> `Model`.

Keys are those of Hugging Face Transformers, with its defaults where a model type has some of its own. What changes
attention and is not answered is refused in one line where it changes the shape, and else told in a note.
"""

import re
from collections.abc import Mapping
from typing import Any

from ..arguments import shown, whole
from ..dtypes import DTYPES as ELEMENTS
from .model import Model

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
EVERY_GLOBAL = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}
"""Model type -> every so-manieth layer is global where the file does not say; the others have the window."""
ALL_LOCAL = ("mistral", "mixtral", "phi3", "starcoder2")
"""Model types that have the window in all layers."""
OWN_HEAD_DIM = ("gemma", "gemma2", "gemma3", "gemma3_text", "gpt_oss", "qwen3", "qwen3_moe")
"""Model types whose head dimension, where the file does not say, is not hidden_size / num_attention_heads."""
SINKS = ("gpt_oss",)
LARGEST = 1 << 24
"""Of any count or dimension: more than a model can have, and few enough to go through."""
UNLIKE_HEADS = ("global_head_dim", "num_global_key_value_heads", "swa_head_dim", "swa_num_attention_heads",
                "swa_num_key_value_heads")  # fmt: skip
READ = {
    "num_attention_heads", "num_key_value_heads", "head_dim", "v_head_dim", "sliding_window", "use_sliding_window",
    "max_window_layers", "full_attention_interval", "sliding_window_pattern", "_sliding_window_pattern",
    "attn_logit_softcapping", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", *UNLIKE_HEADS,
}  # fmt: skip
"""Keys about attention that are looked at here."""
HARMLESS = {
    "attention_bias", "attention_out_bias", "attention_multiplier", "query_pre_attn_scalar", "final_logit_softcapping",
    "attn_implementation", "use_attention_bias",
}  # fmt: skip
"""Keys about attention that change what is computed before or after it, or by which number scores are scaled."""
ABOUT_ATTENTION = re.compile(r"attn|attention|window|head|kv_|softcap|sink|alibi")
MXFP4_BYTES = 17 / 32
"""Of an element: 4 bits, and its share of the scale of 32 (OCP Microscaling Formats, 2023) [B]."""
DENSE = ("llama", "mistral", "qwen2", "qwen3", "gemma3_text")
EXPERTS = ("mixtral", "qwen3_moe")
"""Model types all of whose layers have experts without biases, and none that all tokens go to."""
COUNTED = (*DENSE, *EXPERTS, "gpt_oss")
"""Model types that are counted."""


def model_of(config: Mapping[str, Any], name: str) -> Model:
    """The model that a config.json describes.

    Args:
        config: its keys; those of its language model may be in `text_config`.
        name: of the model, for messages.

    Raises:
        ValueError: a key is missing or not allowed, or asks for an attention that is not answered; the text names it.
    """
    nested = config.get("text_config")
    keys: dict[str, Any] = {**config, **nested} if isinstance(nested, Mapping) else dict(config)
    heads, layers = (_count(keys, key) for key in ("num_attention_heads", "num_hidden_layers"))
    kv_heads = heads if keys.get("num_key_value_heads") is None else _count(keys, "num_key_value_heads")
    if heads % kv_heads:
        raise ValueError(f"num_key_value_heads = {kv_heads}: must divide num_attention_heads = {heads}")
    latents = _latent(keys) or (0, 0, _head_dim(keys, heads), 0, ())
    latent_dim, rope_dim, head_dim, value_dim, remark_on_latents = latents
    for key in UNLIKE_HEADS:
        if keys.get(key) not in (
            None,
            0,
            head_dim if key.endswith("dim") else heads if "attention" in key else kv_heads,
        ):
            raise ValueError(f"{key} = {shown(keys[key])}: layers with unlike heads are not answered yet; {BY_HAND}")
    kinds, notes = _layer_kinds(keys, layers)
    unanswered = {kind: kinds.count(kind) for kind in kinds if kind not in ("full_attention", "sliding_attention")}
    notes += [
        f"{count} of {layers} layers are {kind}, which is not answered: left out" for kind, count in unanswered.items()
    ]
    local, full = (kinds.count(f"{kind}_attention") for kind in ("sliding", "full"))
    if not local + full:
        raise ValueError(f"layer_types: no layer is full_attention or sliding_attention; {BY_HAND}")
    if not latent_dim and keys.get("v_head_dim") not in (None, head_dim):
        raise ValueError(f"v_head_dim = {shown(keys['v_head_dim'])}: must be head_dim = {head_dim}; {BY_HAND}")
    dtype, remark = _dtype(keys)
    experts, for_token, inner = expert_sizes(keys)
    return Model(
        name=name,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_dim=value_dim if value_dim != head_dim else 0,
        latent_dim=latent_dim,
        rope_dim=rope_dim,
        dtype=dtype,
        global_layers=full,
        local_layers=local,
        window=_count(keys, "sliding_window") if local else 0,
        weight_bytes=weight_bytes(keys, heads, kv_heads, head_dim, ELEMENTS[dtype].size_bytes),
        width=_size(keys, "hidden_size"),
        inner=inner or _size(keys, "intermediate_size"),
        vocabulary=_size(keys, "vocab_size"),
        experts=experts,
        experts_each=for_token,
        not_whole=not_whole(keys) or ("some of its layers are not answered" if unanswered else ""),
        notes=(*remark, *remark_on_latents, *notes, *_notes(keys, config)),
    )


BY_HAND = "give --heads, --kv-heads and --head-dim instead"


def _latent(keys: Mapping[str, Any]) -> tuple[int, int, int, int, tuple[str]] | None:
    """Dimensions of a latent, of what is beside it, of keys and values in prefill, and a note; None where none.

    Raises:
        ValueError: a key is missing, or values are wider than keys.
    """
    if not keys.get("kv_lora_rank"):
        return None
    wanted = ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    latent_dim, rope_dim, nope_dim, value_dim = (_count(keys, key) for key in wanted)
    head_dim = nope_dim + rope_dim
    if value_dim > head_dim:
        raise ValueError(f"v_head_dim = {value_dim}: must be at most qk_nope_head_dim + qk_rope_head_dim = {head_dim}")
    note = (
        f"latent attention (MLA): schedules of it decode over latents of {latent_dim} + {rope_dim}; others"
        f" take heads of {head_dim}, and V of {value_dim} where they can, else padded to that"
    )
    return latent_dim, rope_dim, head_dim, value_dim, (note,)


def _count(keys: Mapping[str, Any], key: str) -> int:
    """A key that holds a whole number. Raises: ValueError: it is missing, or does not."""
    if keys.get(key) is None:
        raise ValueError(f"{key}: is missing; config.json must have it (Transformers writes it with `save_pretrained`)")
    if (count := whole(key, keys[key])) > LARGEST:
        raise ValueError(f"{key} = {count}: must be at most {LARGEST} (2^24)")
    return count


def _size(keys: Mapping[str, Any], key: str) -> int:
    """A key that a whole model needs, and its attention does not; 0: it is not there, or no size."""
    size = keys.get(key)
    return size if isinstance(size, int) and 0 < size <= LARGEST else 0


def _head_dim(keys: Mapping[str, Any], heads: int) -> int:
    if keys.get("head_dim") is None and keys.get("model_type") not in OWN_HEAD_DIM:
        hidden = _count(keys, "hidden_size")
        if hidden % heads:
            raise ValueError(
                f"hidden_size = {hidden}: must be a multiple of num_attention_heads = {heads}, or give head_dim"
            )
        return hidden // heads
    return _count(keys, "head_dim")


def _dtype(keys: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The element type, and a note where the file has none."""
    named = keys.get("dtype") or keys.get("torch_dtype")
    if named is None:
        return "bf16", ("names no dtype: bf16 is taken; --dtype takes another",)
    word = str(named).removeprefix("torch.")
    if word not in DTYPES:
        raise ValueError(f"dtype = {shown(named)}: must be one of {', '.join(DTYPES)}")
    return DTYPES[word], ()


def _layer_kinds(keys: Mapping[str, Any], layers: int) -> tuple[list[str], list[str]]:
    """The kind of each layer in the words of `layer_types`, and notes."""
    kind, given = keys.get("model_type"), keys.get("layer_types")
    if given is not None:
        if not isinstance(given, list) or len(given) != layers:
            raise ValueError(f"layer_types = {shown(given)}: must be a list of num_hidden_layers = {layers} words")
        return [str(word) for word in given], []
    if keys.get("full_attention_interval"):
        interval = whole("full_attention_interval", keys["full_attention_interval"])
        return ["linear_attention" if place % interval else "full_attention" for place in range(1, layers + 1)], []
    qwen = str(kind).startswith("qwen")
    if not keys.get("sliding_window") or keys.get("use_sliding_window", not qwen) is False:
        return ["full_attention"] * layers, []
    every = keys.get("sliding_window_pattern") or keys.get("_sliding_window_pattern") or EVERY_GLOBAL.get(str(kind))
    if every is not None:
        every = whole("sliding_window_pattern", every)
        return ["sliding_attention" if place % every else "full_attention" for place in range(1, layers + 1)], []
    first = min(layers, whole("max_window_layers", keys.get("max_window_layers") or 0, 0)) if qwen else 0
    notes = [] if qwen or kind in ALL_LOCAL else [f"its window of {keys['sliding_window']} is taken for all layers"]
    return ["full_attention"] * first + ["sliding_attention"] * (layers - first), notes


def _notes(keys: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    """What attention has that a problem does not."""
    notes, named = [], config.get("architectures") or []
    if named and not any(re.search("CausalLM|ConditionalGeneration|LMHead", str(word)) for word in named):
        notes.append(f"architectures = {shown(named)}: its mask is taken as causal")
    if keys.get("model_type") in SINKS:
        notes.append("attention sinks are left out: --sinks has them, with a schedule that takes it")
    if keys.get("attn_logit_softcapping"):
        cap = keys["attn_logit_softcapping"]
        notes.append(f"attn_logit_softcapping = {cap}: left out: --softcap {cap} has it, with a schedule that takes it")
    if keys.get("attention_dropout"):
        notes.append(f"attention_dropout = {keys['attention_dropout']}: left out, as it acts in training alone")
    if isinstance(config.get("vision_config"), Mapping):
        notes.append("vision_config is left out: the layers are those of text")
    known = READ | HARMLESS | {"attention_dropout"}
    strange = [key for key in keys if ABOUT_ATTENTION.search(key) and not key.startswith("_attn") and key not in known]
    return notes + [f"{key} = {shown(keys[key])} is not looked at" for key in strange if keys[key]]


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

    Counted are the tensors of Transformers' modeling_{llama,mistral,qwen2,qwen3,gemma3,gpt_oss,mixtral,qwen3_moe}.py.

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
