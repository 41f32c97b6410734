"""Nine functions that were measured on an H200, and what they were given; `functions-h200.json` has what ran.

A function's arguments come from `inputs_of(name)`: bfloat16 on the GPU, in the shapes of the measurement.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

EPSILON = 1e-6


def gelu_chain(x: Tensor) -> Tensor:
    """GELU by its formula."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """A bias, and GELU."""
    return F.gelu(x + bias, approximate="tanh")


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """RMSNorm, computed in float32."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON)).to(x.dtype) * weight


def rms_residual(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """A residual, and its norm."""
    x = x + residual
    return rms_norm(x, weight), x


def swiglu_mlp(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """The MLP of Llama."""
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def ln_linear(x: Tensor, weight: Tensor, bias: Tensor, matrix: Tensor, shift: Tensor) -> Tensor:
    """LayerNorm, and a linear layer."""
    return F.linear(F.layer_norm(x, (x.shape[-1],), weight, bias), matrix, shift)


def naive_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention, operation by operation."""
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    mask = torch.ones(scores.shape[-2], scores.shape[-1], device=query.device, dtype=torch.bool).tril()
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ value


def rotary(query: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding."""
    first, second = query.chunk(2, -1)
    return query * cos + torch.cat((-second, first), -1) * sin


def loss(x: Tensor, vocabulary: Tensor, labels: Tensor) -> Tensor:
    """The head of a language model, and its loss."""
    return F.cross_entropy(F.linear(x, vocabulary).float(), labels)


def layer(
    x: Tensor,
    norm1: Tensor,
    wq: Tensor,
    wk: Tensor,
    wv: Tensor,
    wo: Tensor,
    norm2: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    cos: Tensor,
    sin: Tensor,
) -> Tensor:
    """A layer of Llama: 32 heads of 128, 8 of keys."""
    batch, length, width = x.shape
    hidden = rms_norm(x, norm1)
    query = F.linear(hidden, wq).view(batch, length, 32, 128).transpose(1, 2)
    key = F.linear(hidden, wk).view(batch, length, 8, 128).transpose(1, 2)
    value = F.linear(hidden, wv).view(batch, length, 8, 128).transpose(1, 2)
    query, key = rotary(query, cos, sin), rotary(key, cos, sin)
    mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    x = x + F.linear(mixed.transpose(1, 2).reshape(batch, length, width), wo)
    return x + swiglu_mlp(rms_norm(x, norm2), gate, up, down)


SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "gelu_chain": ((8192, 16384),),
    "bias_gelu": ((8192, 16384), (16384,)),
    "rms_residual": ((8192, 8192), (8192, 8192), (8192,)),
    "swiglu_mlp": ((4096, 4096), (14336, 4096), (14336, 4096), (4096, 14336)),
    "ln_linear": ((8192, 4096), (4096,), (4096,), (4096, 4096), (4096,)),
    "naive_attention": ((2, 16, 4096, 64),) * 3,
    "rotary": ((4, 32, 4096, 128), (4096, 128), (4096, 128)),
    "loss": ((4096, 4096), (32000, 4096)),
    "layer": (
        *((1, 4096, 4096), (4096,), (4096, 4096), (1024, 4096), (1024, 4096), (4096, 4096)),
        *((4096,), (14336, 4096), (14336, 4096), (4096, 14336), (4096, 128), (4096, 128)),
    ),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(gelu_chain, bias_gelu, rms_residual, swiglu_mlp, ln_linear),
        *(naive_attention, rotary, loss, layer),
    )
}


def inputs_of(name: str) -> tuple[Tensor, ...]:
    """Arguments of a function."""
    made = tuple(torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in SHAPES[name])
    return (*made, torch.randint(0, 32000, (4096,), device="cuda")) if name == "loss" else made
