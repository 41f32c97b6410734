"""Whole models, as they are called and trained: Llama-3-8B, GPT-2, ViT-L/16, OLMoE (a mixture of experts), DiT-XL/2.

The first four are Hugging Face's code, made from their configs without weights; DiT is written out. bf16; attention is
SDPA. Training is forward, backward and AdamW (fused), with fewer layers where all would not fit into 80 GB.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_parts import HALF, Attention, Case, drawn, module, numbers, squared, trained

MODELS: dict[str, Case] = {}
LLAMA = {
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
}
OLMOE = {"num_hidden_layers": 16, "num_experts": 64, "num_experts_per_tok": 8, "intermediate_size": 1024}
VIT = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
HELD = 2048
"""Keys of each sequence that a cache holds before a decode step."""


def model(case: Case) -> Case:
    """Register a model."""
    MODELS[case.__name__] = case
    return case


def hugging_face(kind: str, device: str, head: str = "AutoModelForCausalLM", **settings: Any) -> nn.Module:
    """A model of `transformers` from the keys of its config."""
    import transformers

    config = transformers.AutoConfig.for_model(kind, **settings)
    before = torch.get_default_dtype()
    torch.set_default_dtype(HALF)
    try:
        with torch.device(device):
            cls = getattr(transformers, head)
            made: nn.Module = (cls.from_config if "Auto" in head else cls)(config).train(False)
            return made
    finally:
        torch.set_default_dtype(before)


def decoding(made: nn.Module, device: str, batch: int) -> tuple[Any, tuple[Any, ...]]:
    """A token for each of `batch` sequences, whose caches are what they were before once it is made."""
    import transformers

    config, cache = made.config, transformers.DynamicCache()
    kept = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = config.hidden_size // config.num_attention_heads
    for layer in range(config.num_hidden_layers):
        cache.update(*(drawn(device, batch, kept, HELD, width) for _ in "kv"), layer)
    held = [(layer.keys, layer.values) for layer in cache.layers]

    def run(ids: Tensor) -> Tensor:
        answer = made(ids, past_key_values=cache, use_cache=True).logits
        for layer, (keys, values) in zip(cache.layers, held, strict=True):
            layer.keys, layer.values = keys, values
        return answer

    return run, (numbers(device, config.vocab_size, batch, 1),)


def language(made: nn.Module, device: str, batch: int, tokens: int) -> tuple[Any, tuple[Any, ...]]:
    """Logits of all tokens."""
    ids = numbers(device, made.config.vocab_size, batch, tokens)
    return (lambda x: made(x, use_cache=False).logits), (ids,)


def learning(made: nn.Module, device: str, batch: int, tokens: int) -> tuple[Any, tuple[Any, ...]]:
    """A training step on the model's loss."""
    ids = numbers(device, made.config.vocab_size, batch, tokens)
    return trained(made, lambda x: made(x, labels=x, use_cache=False).loss, fused=True), (ids,)


@model
def llama_3_8b_prefill(device: str) -> tuple[Any, tuple[Any, ...]]:
    """4,096 tokens."""
    return language(hugging_face("llama", device, **LLAMA), device, 1, 4096)


@model
def llama_3_8b_decode(device: str) -> tuple[Any, tuple[Any, ...]]:
    """32 sequences."""
    return decoding(hugging_face("llama", device, **LLAMA), device, 32)


@model
def train_llama_3_8b(device: str) -> tuple[Any, tuple[Any, ...]]:
    """8 of the 32 layers, 4,096 tokens."""
    return learning(hugging_face("llama", device, **LLAMA | {"num_hidden_layers": 8}), device, 1, 4096)


@model
def gpt2_prefill(device: str) -> tuple[Any, tuple[Any, ...]]:
    """8 sequences of 1,024 tokens."""
    return language(hugging_face("gpt2", device), device, 8, 1024)


@model
def gpt2_decode(device: str) -> tuple[Any, tuple[Any, ...]]:
    """64 sequences."""
    return decoding(hugging_face("gpt2", device, n_positions=4096), device, 64)


@model
def train_gpt2(device: str) -> tuple[Any, tuple[Any, ...]]:
    """8 sequences of 1,024 tokens, without dropout."""
    return learning(hugging_face("gpt2", device), device, 8, 1024)


@model
def vit_forward(device: str) -> tuple[Any, tuple[Any, ...]]:
    """128 images of 224 x 224."""
    made = hugging_face("vit", device, "AutoModelForImageClassification", num_labels=1000, **VIT)
    return (lambda x: made(x).logits), (drawn(device, 128, 3, 224, 224),)


@model
def train_vit(device: str) -> tuple[Any, tuple[Any, ...]]:
    """64 images."""
    made = hugging_face("vit", device, "AutoModelForImageClassification", num_labels=1000, **VIT)
    given = drawn(device, 64, 3, 224, 224), numbers(device, 1000, 64)
    return trained(made, lambda x, labels: F.cross_entropy(made(x).logits.float(), labels), fused=True), given


@model
def olmoe_prefill(device: str) -> tuple[Any, tuple[Any, ...]]:
    """4,096 tokens; 8 of 64 experts each."""
    return language(hugging_face("olmoe", device, **OLMOE), device, 1, 4096)


@model
def olmoe_decode(device: str) -> tuple[Any, tuple[Any, ...]]:
    """32 sequences."""
    return decoding(hugging_face("olmoe", device, **OLMOE), device, 32)


@model
def train_olmoe(device: str) -> tuple[Any, tuple[Any, ...]]:
    """6 of the 16 layers, 4,096 tokens."""
    return learning(hugging_face("olmoe", device, **OLMOE | {"num_hidden_layers": 6}), device, 1, 4096)


class DiTBlock(nn.Module):
    """A block of DiT: norms are scaled, shifted and gated by what is asked for."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = (nn.LayerNorm(width, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.asked = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        """(B, S, width), (B, width) -> (B, S, width)."""
        shift1, scale1, gate1, shift2, scale2, gate2 = self.asked(c)[:, None].chunk(6, -1)
        x = x + gate1 * self.attention(self.first(x) * (1 + scale1) + shift1)
        return x + gate2 * self.mlp(self.second(x) * (1 + scale2) + shift2)


class DiT(nn.Module):
    """DiT-XL/2 on latents of 32 x 32: patches of 2 x 2, 28 blocks of width 1,152, 16 heads."""

    def __init__(self, depth: int = 28, width: int = 1152, heads: int = 16) -> None:
        super().__init__()
        self.patches = nn.Conv2d(4, width, 2, stride=2)
        self.places = nn.Parameter(torch.zeros(1, 256, width))
        self.times = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(DiTBlock(width, heads) for _ in range(depth))
        self.norm, self.out = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6), nn.Linear(width, 32)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """(B, 4, 32, 32), (B, 256) -> (B, 256, 32)."""
        x, c = self.patches(x).flatten(2).transpose(1, 2) + self.places, self.times(t)
        for block in self.blocks:
            x = block(x, c)
        return self.out(self.norm(x))


@model
def dit_forward(device: str) -> tuple[Any, tuple[Any, ...]]:
    """64 latents."""
    return module(DiT, device), (drawn(device, 64, 4, 32, 32), drawn(device, 64, 256))


@model
def train_dit(device: str) -> tuple[Any, tuple[Any, ...]]:
    """32 latents."""
    made = module(DiT, device)
    return trained(made, squared(made), fused=True), (drawn(device, 32, 4, 32, 32), drawn(device, 32, 256))
