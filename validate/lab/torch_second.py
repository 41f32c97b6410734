"""A second set of functions and training steps, of other models, written before any of them was measured."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_blocks import split_heads
from torch_cases import HALF, Case, drawn, module, numbers
from torch_steps import squared, trained

SECOND: dict[str, Case] = {}
Made = tuple[Any, tuple[Any, ...]]


def second(case: Case) -> Case:
    """Register a case; one named `train_...` is a training step."""
    SECOND[case.__name__] = case
    return case


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


@second
def qwen_layer(device: str) -> Made:
    """Qwen-2.5-7B's widths, 2 sequences of 2,048."""
    return module(lambda: Layer(3584, 28, 4, 18944), device), (drawn(device, 2, 2048, 3584),)


@second
def mistral_window(device: str) -> Made:
    """A window of 1,024 of 4,096 keys, as a mask of bf16."""
    place = torch.arange(4096, device=device)
    apart = place[:, None] - place[None, :]
    mask = torch.where((apart >= 0) & (apart < 1024), 0.0, float("-inf")).to(HALF)
    return module(lambda: Layer(4096, 32, 8, 14336), device), (drawn(device, 1, 4096, 4096), mask)


@second
def qwen_decode(device: str) -> Made:
    """A layer's decode step of 16 sequences, keys and values written into caches of 8,192."""
    layer = module(lambda: Layer(3584, 28, 4, 18944), device)

    def run(x: Tensor, keys: Tensor, values: Tensor, place: Tensor) -> Tensor:
        h = layer.first(x)
        q, k, v = (split_heads(to(h), n) for to, n in ((layer.q, 28), (layer.k, 4), (layer.v, 4)))
        keys.index_copy_(2, place, k)
        values.index_copy_(2, place, v)
        o = F.scaled_dot_product_attention(q, keys, values, enable_gqa=True)
        x = x + layer.o(o.transpose(1, 2).flatten(2))
        h = layer.second(x)
        return x + layer.down(F.silu(layer.gate(h)) * layer.up(h))

    caches = [drawn(device, 16, 4, 8192, 128) for _ in "kv"]
    return run, (drawn(device, 16, 1, 3584), *caches, numbers(device, 8192, 1))


@second
def cross_attention(device: str) -> Made:
    """Stable Diffusion's: 4,096 pixels ask 77 tokens, heads of 40."""
    to_q, to_out = (nn.Linear(320, 320, bias=False).to(device, HALF) for _ in "qo")
    to_k, to_v = (nn.Linear(768, 320, bias=False).to(device, HALF) for _ in "kv")

    def run(x: Tensor, text: Tensor) -> Tensor:
        q, k, v = split_heads(to_q(x), 8), split_heads(to_k(text), 8), split_heads(to_v(text), 8)
        return to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)) + x

    return run, (drawn(device, 8, 4096, 320), drawn(device, 8, 77, 768))


def convolved(source: int, made: int, window: int, stride: int = 1, groups: int = 1) -> nn.Module:
    """A convolution and its batch norm."""
    return nn.Sequential(
        nn.Conv2d(source, made, window, stride, window // 2, groups=groups, bias=False), nn.BatchNorm2d(made)
    )


class Residual(nn.Module):
    """ResNet-50's block."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList((convolved(width, inner, 1), convolved(inner, inner, 3), convolved(inner, width, 1)))

    def forward(self, x: Tensor) -> Tensor:
        """(B, width, H, W) -> the same."""
        h = F.relu(self.parts[1](F.relu(self.parts[0](x))))
        return F.relu(self.parts[2](h) + x)


@second
def resnet_last(device: str) -> Made:
    """Block of 512 channels, channels last."""
    made = module(lambda: Residual(512, 128), device).train(False).to(memory_format=torch.channels_last)
    return made, (drawn(device, 64, 512, 28, 28).to(memory_format=torch.channels_last),)


@second
def inverted_bottleneck(device: str) -> Made:
    """EfficientNet's: wide, depthwise, squeezed, narrow."""

    class Inverted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.deep, self.narrow = (
                convolved(80, 480, 1),
                convolved(480, 480, 3, groups=480),
                convolved(480, 80, 1),
            )
            self.squeeze, self.excite = nn.Conv2d(480, 20, 1), nn.Conv2d(20, 480, 1)

        def forward(self, x: Tensor) -> Tensor:
            h = F.silu(self.deep(F.silu(self.wide(x))))
            gate = torch.sigmoid(self.excite(F.silu(self.squeeze(h.mean((2, 3), keepdim=True)))))
            return self.narrow(h * gate) + x

    return module(Inverted, device).train(False), (drawn(device, 64, 80, 14, 14),)


@second
def swin_windows(device: str) -> Made:
    """Swin's attention in windows of 7 x 7, shifted, with a bias of positions."""
    qkv, out = nn.Linear(192, 576).to(device, HALF), nn.Linear(192, 192).to(device, HALF)
    bias = drawn(device, 6, 49, 49)

    def run(x: Tensor) -> Tensor:
        b, side = x.shape[0], x.shape[1]
        h = (
            torch.roll(x, (-3, -3), (1, 2))
            .view(b, side // 7, 7, side // 7, 7, 192)
            .transpose(2, 3)
            .reshape(-1, 49, 192)
        )
        q, k, v = (split_heads(part, 6) for part in qkv(h).chunk(3, -1))
        scores = (q @ k.mT) * 32**-0.5 + bias
        h = out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        h = h.view(b, side // 7, side // 7, 7, 7, 192).transpose(2, 3).reshape(b, side, side, 192)
        return torch.roll(h, (3, 3), (1, 2))

    return run, (drawn(device, 32, 56, 56, 192),)


@second
def z_loss(device: str) -> Made:
    """Cross entropy in float32 with a penalty of the partition function."""

    def run(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
        logits = F.linear(x, weight).float()
        return F.cross_entropy(logits, target) + 1e-4 * torch.logsumexp(logits, -1).square().mean()

    return run, (drawn(device, 4096, 2048), drawn(device, 32768, 2048), numbers(device, 32768, 4096))


@second
def policy_ratio(device: str) -> Made:
    """PPO's clipped objective on log probabilities of tokens."""

    def run(logits: Tensor, ids: Tensor, before: Tensor, gain: Tensor) -> Tensor:
        now = logits.float().log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        ratio = (now - before).exp()
        return -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()

    ids = numbers(device, 32000, 8, 512)
    single = [drawn(device, 8, 512, dtype=torch.float32) for _ in range(2)]
    return run, (drawn(device, 8, 512, 32000), ids, *single)


@second
def weight_only_int8(device: str) -> Made:
    """A product with weights of int8, scaled by rows."""
    run = lambda x, w, s: F.linear(x, w.to(x.dtype) * s[:, None])  # noqa: E731
    weight = numbers(device, 127, 11008, 4096).to(torch.int8)
    return run, (drawn(device, 64, 4096), weight, drawn(device, 11008))


@second
def dropout_residual(device: str) -> Made:
    """BERT's end of a block, in training mode."""
    norm = nn.LayerNorm(1024).to(device, HALF)
    return (lambda x, y: norm(x + F.dropout(y, 0.1))), (drawn(device, 64, 512, 1024), drawn(device, 64, 512, 1024))


@second
def speech_features(device: str) -> Made:
    """wav2vec 2.0: a short convolution, a norm over channels, GELU."""
    convolution, norm = nn.Conv1d(512, 512, 3, 2, bias=False).to(device, HALF), nn.LayerNorm(512).to(device, HALF)
    run = lambda x: F.gelu(norm(convolution(x).transpose(1, 2)).transpose(1, 2))  # noqa: E731
    return run, (drawn(device, 8, 512, 12799),)


@second
def complex_rotary(device: str) -> Made:
    """Rotation of queries by cos and sin that are interleaved, in float32."""

    def run(q: Tensor, angle: Tensor) -> Tensor:
        pairs = q.float().unflatten(-1, (-1, 2))
        even, odd, cos, sin = pairs[..., 0], pairs[..., 1], angle.cos(), angle.sin()
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).to(q.dtype)

    return run, (drawn(device, 2, 32, 4096, 128), drawn(device, 4096, 64, dtype=torch.float32))


@second
def bag_of_words(device: str) -> Made:
    """fastText: the mean of embeddings, a classifier."""
    table, weight = drawn(device, 200_000, 256), drawn(device, 1000, 256)
    return (lambda ids: F.linear(table[ids].mean(1), weight).softmax(-1)), (numbers(device, 200_000, 4096, 64),)


@second
def train_qwen_layer(device: str) -> Made:
    made = module(lambda: Layer(3584, 28, 4, 18944), device)
    return trained(made, squared(made), fused=True), (drawn(device, 1, 2048, 3584),)


@second
def train_resnet_last(device: str) -> Made:
    made = module(lambda: Residual(512, 128), device).to(memory_format=torch.channels_last)
    given = drawn(device, 64, 512, 28, 28).to(memory_format=torch.channels_last)
    return trained(made, squared(made)), (given,)


@second
def train_lora(device: str) -> Made:
    """A frozen matrix and its two thin ones."""

    class Lora(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.full = nn.Linear(4096, 4096, bias=False).requires_grad_(False)
            self.down, self.up = nn.Linear(4096, 32, bias=False), nn.Linear(32, 4096, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return F.silu(self.full(x) + self.up(self.down(x)))

    made = module(Lora, device)
    return trained(made, squared(made), fused=False), (drawn(device, 8192, 4096),)


@second
def train_token_classifier(device: str) -> Made:
    """Norm, dropout, a product, cross entropy; foreach AdamW."""
    made = module(lambda: nn.Sequential(nn.LayerNorm(1024), nn.Dropout(0.1), nn.Linear(1024, 128)), device)
    loss: Callable[..., Tensor] = lambda x, y: F.cross_entropy(made(x).float(), y)  # noqa: E731
    return trained(made, loss, fused=False), (drawn(device, 32768, 1024), numbers(device, 128, 32768))
