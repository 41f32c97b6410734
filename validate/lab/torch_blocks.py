"""Blocks of public models, as modules: to be profiled and timed; no gradients."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch_cases import drawn, function, module


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


@function
def gpt2_block(device: str) -> tuple[Any, tuple[Any, ...]]:
    return module(lambda: Block(768, 12, causal=True, tanh=True), device), (drawn(device, 8, 1024, 768),)


@function
def vit_block(device: str) -> tuple[Any, tuple[Any, ...]]:
    return module(lambda: Block(1024, 16, causal=False, tanh=False), device), (drawn(device, 64, 197, 1024),)


@function
def bert_layer(device: str) -> tuple[Any, tuple[Any, ...]]:
    layer = module(lambda: nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True), device)
    return layer.train(False), (drawn(device, 32, 512, 768),)


@function
def bottleneck(device: str) -> tuple[Any, tuple[Any, ...]]:
    """ResNet-50's second stage."""

    def made() -> nn.Module:
        layers: list[nn.Module] = []
        for inputs, outputs, size in ((256, 64, 1), (64, 64, 3), (64, 256, 1)):
            layers += [nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False), nn.BatchNorm2d(outputs)]
            layers += [nn.ReLU()] if outputs < 256 else []
        return nn.Sequential(*layers).eval()

    convolutions = module(made, device)
    return (lambda x: F.relu(convolutions(x) + x)), (drawn(device, 64, 256, 56, 56),)


@function
def convnext_block(device: str) -> tuple[Any, tuple[Any, ...]]:
    deep = module(lambda: nn.Conv2d(192, 192, 7, padding=3, groups=192), device)
    rest = [nn.LayerNorm(192), nn.Linear(192, 768), nn.GELU(), nn.Linear(768, 192)]
    mlp = module(lambda: nn.Sequential(*rest), device).to(device)
    return (lambda x: x + mlp(deep(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)), (drawn(device, 64, 192, 28, 28),)


@function
def diffusion_resnet(device: str) -> tuple[Any, tuple[Any, ...]]:
    """A residual block of a latent-diffusion U-Net."""
    norms = [module(lambda: nn.GroupNorm(32, 320), device) for _ in range(2)]
    convolutions = [module(lambda: nn.Conv2d(320, 320, 3, padding=1), device) for _ in range(2)]
    time = module(lambda: nn.Linear(1280, 320), device)

    def run(x: Tensor, t: Tensor) -> Tensor:
        h = convolutions[0](F.silu(norms[0](x))) + time(F.silu(t))[:, :, None, None]
        return x + convolutions[1](F.silu(norms[1](h)))

    return run, (drawn(device, 8, 320, 64, 64), drawn(device, 8, 1280))


@function
def dit_block(device: str) -> tuple[Any, tuple[Any, ...]]:
    """A diffusion transformer's block with adaptive norms."""
    attention = module(lambda: Attention(1152, 16), device)
    modulation = module(lambda: nn.Linear(1152, 6 * 1152), device)
    mlp = module(
        lambda: nn.Sequential(nn.Linear(1152, 4608), nn.GELU(approximate="tanh"), nn.Linear(4608, 1152)), device
    )

    def norm(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        return F.layer_norm(x, (1152,)) * (1 + scale[:, None]) + shift[:, None]

    def run(x: Tensor, c: Tensor) -> Tensor:
        a, b, g, d, e, h = modulation(F.silu(c)).chunk(6, -1)
        x = x + g[:, None] * attention(norm(x, a, b))
        return x + h[:, None] * mlp(norm(x, d, e))

    return run, (drawn(device, 32, 256, 1152), drawn(device, 32, 1152))


@function
def small_mlp(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Eight small layers: bound by launches."""
    layers = [part for _ in range(8) for part in (nn.Linear(256, 256), nn.ReLU())]
    return module(lambda: nn.Sequential(*layers), device).to(device), (drawn(device, 64, 256),)
