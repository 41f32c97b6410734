"""What cases of PyTorch are made of: tensors, layers of public models, and training steps.

A case takes a device (`cuda`, or `meta` where there is none) and gives a function and its arguments; the numbers that
tensors hold do not matter, but for indices, which are in range. bf16 unless said.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Made = tuple[Callable[..., Any], tuple[Any, ...]]
Case = Callable[[str], Made]
HALF, FLOAT = torch.bfloat16, torch.float32


def drawn(device: str, *shape: int, dtype: torch.dtype = HALF) -> Tensor:
    """A tensor of normal numbers."""
    return torch.randn(*shape, device=device, dtype=dtype)


def numbers(device: str, below: int, *shape: int) -> Tensor:
    """Indices in range."""
    return torch.randint(0, below, shape, device=device)


def rms(x: Tensor, weight: Tensor) -> Tensor:
    """RMSNorm as Llama's code has it."""
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def module(made: Callable[[], nn.Module], device: str, dtype: torch.dtype = HALF) -> nn.Module:
    """A module on a device, in its dtype."""
    with torch.device(device):
        return made().to(dtype)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, S, H * D) -> (B, H, S, D)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class Attention(nn.Module):
    """Self-attention of a block: one product for Q, K and V, SDPA, one product back."""

    def __init__(self, width: int, heads: int, *, causal: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)
        self.heads, self.causal = heads, causal

    def forward(self, x: Tensor) -> Tensor:
        """(B, S, width) -> the same."""
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, -1))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(o.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A transformer block as GPT-2's and ViT's: norm, attention, norm, MLP, with residuals."""

    def __init__(self, width: int, heads: int, *, causal: bool, tanh: bool) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal=causal)
        activation = nn.GELU(approximate="tanh" if tanh else "none")
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), activation, nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """(B, S, width) -> the same."""
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class Layer(nn.Module):
    """A layer as Llama, Qwen and Mistral have it: fused RMS norms, grouped heads of 128, SwiGLU."""

    def __init__(self, width: int, heads: int, kept: int, inner: int) -> None:
        super().__init__()
        self.heads, self.kept = heads, kept
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.o = nn.Linear(width, heads * 128, bias=False), nn.Linear(heads * 128, width, bias=False)
        self.k, self.v = (nn.Linear(width, kept * 128, bias=False) for _ in "kv")
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in "gu")
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, S, width) -> the same."""
        h = self.first(x)
        q, k, v = (split_heads(to(h), n) for to, n in ((self.q, self.heads), (self.k, self.kept), (self.v, self.kept)))
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True)
        x = x + self.o(o.transpose(1, 2).flatten(2))
        h = self.second(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def convolved(source: int, made: int, window: int, stride: int = 1, groups: int = 1) -> nn.Module:
    """A convolution and its batch norm."""
    return nn.Sequential(
        nn.Conv2d(source, made, window, stride, window // 2, groups=groups, bias=False), nn.BatchNorm2d(made)
    )


def trained(model: nn.Module, loss: Callable[..., Tensor], fused: bool | None = None) -> Callable[..., None]:
    """A step: gradients from nothing, and an optimizer's step where `fused` says which."""
    optimizer = None if fused is None else torch.optim.AdamW(model.parameters(), fused=fused, foreach=not fused)

    def run(*arguments: Any) -> None:
        loss(*arguments).backward()
        if optimizer:
            optimizer.step()
        for parameter in model.parameters():
            parameter.grad = None

    return run


def squared(model: nn.Module) -> Callable[..., Tensor]:
    """The mean square of what a model gives, as a loss."""
    return lambda *arguments: model(*arguments).float().pow(2).mean()


def stepped(model: nn.Module, loss: Callable[..., Tensor], update: Callable[[], Any]) -> Callable[..., None]:
    """A step: gradients from nothing, then an update of the parameters."""

    def run(*arguments: Any) -> None:
        loss(*arguments).backward()
        update()
        for parameter in model.parameters():
            parameter.grad = None

    return run
