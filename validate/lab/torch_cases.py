"""Functions of the kind that public models and libraries are made of, to be profiled and timed; no gradients.

A case takes a device (`cuda`, or `meta` where there is none) and gives a function and its arguments; the numbers that
tensors hold do not matter, but for indices, which are in range. bf16 unless said.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Case = Callable[[str], tuple[Callable[..., Any], tuple[Any, ...]]]
FUNCTIONS: dict[str, Case] = {}
HALF = torch.bfloat16


def function(case: Case) -> Case:
    """Register a function without gradients."""
    FUNCTIONS[case.__name__] = case
    return case


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


@function
def llama_decode(device: str) -> tuple[Any, tuple[Any, ...]]:
    """A layer's decode step of 32 sequences on a cache of 4,096 keys."""
    shapes = ((4096, 4096), (1024, 4096), (1024, 4096), (4096, 4096), (14336, 4096), (14336, 4096), (4096, 14336))
    weights = [drawn(device, *shape) for shape in shapes]
    norms = [drawn(device, 4096) for _ in range(2)]

    def run(x: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        h = rms(x, norms[0])
        q, k, v = (F.linear(h, w).unflatten(-1, (-1, 128)) for w in weights[:3])
        q, k = (t * cos + torch.cat((-t[..., 64:], t[..., :64]), -1) * sin for t in (q, k))
        keys[:, :, -1], values[:, :, -1] = k, v
        o = F.scaled_dot_product_attention(q[:, :, None], keys, values, enable_gqa=True)
        x = x + F.linear(o.flatten(1), weights[3])
        h = rms(x, norms[1])
        return x + F.linear(F.silu(F.linear(h, weights[4])) * F.linear(h, weights[5]), weights[6])

    cache = (drawn(device, 32, 8, 4096, 128), drawn(device, 32, 8, 4096, 128))
    return run, (drawn(device, 32, 4096), *cache, drawn(device, 128), drawn(device, 128))


@function
def qk_norm_attention(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Qwen3's attention: RMSNorm of each head of Q and K, grouped heads."""
    weights = [drawn(device, *shape) for shape in ((4096, 4096), (1024, 4096), (1024, 4096), (4096, 4096))]
    scales = [drawn(device, 128) for _ in range(2)]

    def run(x: Tensor) -> Tensor:
        q, k, v = (F.linear(x, w).unflatten(-1, (-1, 128)) for w in weights[:3])
        q, k = rms(q, scales[0]), rms(k, scales[1])
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return F.linear(o.transpose(1, 2).flatten(2), weights[3])

    return run, (drawn(device, 2, 4096, 4096),)


@function
def geglu(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Gemma's MLP."""
    wide, back = drawn(device, 2 * 9216, 2304), drawn(device, 2304, 9216)

    def run(x: Tensor) -> Tensor:
        gate, up = F.linear(x, wide).chunk(2, -1)
        return F.linear(F.gelu(gate, approximate="tanh") * up, back)

    return run, (drawn(device, 4096, 2304),)


@function
def lora_linear(device: str) -> tuple[Any, tuple[Any, ...]]:
    weight, down, up = drawn(device, 4096, 4096), drawn(device, 16, 4096), drawn(device, 4096, 16)
    return (lambda x: F.linear(x, weight) + F.linear(F.linear(x, down), up) * 2.0), (drawn(device, 8192, 4096),)


@function
def alibi_attention(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Attention with a bias of distances, written out."""

    def run(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> Tensor:
        place = torch.arange(q.shape[2], device=q.device)
        distance = (place[None, :] - place[:, None]).tril()
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + slopes[:, None, None] * distance
        hidden = torch.ones_like(distance, dtype=torch.bool).triu(1)
        return scores.masked_fill(hidden, float("-inf")).softmax(-1).to(v.dtype) @ v

    return run, (*(drawn(device, 2, 16, 2048, 64) for _ in range(3)), drawn(device, 16))


@function
def masked_sdpa(device: str) -> tuple[Any, tuple[Any, ...]]:
    """SDPA with a mask as a tensor: a sliding window."""

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        place = torch.arange(q.shape[2], device=q.device)
        distance = place[:, None] - place[None, :]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=(distance >= 0) & (distance < 1024))

    return run, tuple(drawn(device, 2, 16, 4096, 64) for _ in range(3))


@function
def t5_attention(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Attention with a learned bias of positions, gathered from a table."""

    def run(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        place = torch.arange(q.shape[2], device=q.device)
        bucket = (place[:, None] - place[None, :]).abs().clamp(max=table.shape[0] - 1)
        bias = table[bucket].permute(2, 0, 1)
        return ((q @ k.mT + bias).float().softmax(-1)).to(q.dtype) @ v

    return run, (*(drawn(device, 4, 12, 1024, 64) for _ in range(3)), drawn(device, 32, 12))


@function
def mixture_of_experts(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Mixtral's router and experts, each expert on all tokens (no shape depends on data)."""
    router, gate, up = drawn(device, 8, 2048), drawn(device, 8, 2048, 4096), drawn(device, 8, 2048, 4096)
    down = drawn(device, 8, 4096, 2048)

    def run(x: Tensor) -> Tensor:
        weight, expert = F.linear(x, router).float().softmax(-1).topk(2, -1)
        share = torch.zeros(x.shape[0], 8, device=x.device).scatter_(1, expert, weight / weight.sum(-1, keepdim=True))
        every = x.expand(8, *x.shape)
        out = torch.bmm(F.silu(torch.bmm(every, gate)) * torch.bmm(every, up), down)
        return (out * share.t()[:, :, None].to(out.dtype)).sum(0)

    return run, (drawn(device, 1024, 2048),)


@function
def selective_scan_inputs(device: str) -> tuple[Any, tuple[Any, ...]]:
    """What Mamba computes ahead of its scan: short convolution, SiLU, softplus of the steps, a running sum."""
    wide, short = drawn(device, 4096, 1024), drawn(device, 2048, 1, 4)

    def run(x: Tensor) -> Tensor:
        h, z = F.linear(x, wide).chunk(2, -1)
        h = F.silu(F.conv1d(h.transpose(1, 2), short, padding=3, groups=2048)[..., : x.shape[1]]).transpose(1, 2)
        return F.softplus(h.float()).cumsum(1).exp().to(x.dtype) * F.silu(z)

    return run, (drawn(device, 8, 2048, 1024),)


@function
def token_shift(device: str) -> tuple[Any, tuple[Any, ...]]:
    """RWKV's mixing of a token with the one before."""
    mix = [drawn(device, 2048) for _ in range(3)]
    weights = [drawn(device, 2048, 2048) for _ in range(3)]

    def run(x: Tensor) -> Tensor:
        before = F.pad(x, (0, 0, 1, -1))
        r, k, v = (F.linear(x * m + before * (1 - m), w) for m, w in zip(mix, weights, strict=True))
        return torch.sigmoid(r) * torch.relu(k).square() * v

    return run, (drawn(device, 8, 1024, 2048),)


@function
def clip_loss(device: str) -> tuple[Any, tuple[Any, ...]]:
    def run(image: Tensor, text: Tensor, scale: Tensor) -> Tensor:
        image, text = F.normalize(image, dim=-1), F.normalize(text, dim=-1)
        logits = scale.exp() * image @ text.t()
        labels = torch.arange(logits.shape[0], device=logits.device)
        return (F.cross_entropy(logits.float(), labels) + F.cross_entropy(logits.t().float(), labels)) / 2

    return run, (drawn(device, 8192, 768), drawn(device, 8192, 768), drawn(device, 1)[0])


@function
def smoothed_loss(device: str) -> tuple[Any, tuple[Any, ...]]:
    run = lambda x, w, t: F.cross_entropy(F.linear(x, w).float(), t, label_smoothing=0.1)  # noqa: E731
    return run, (drawn(device, 2048, 2048), drawn(device, 50304, 2048), numbers(device, 50304, 2048))


@function
def focal_loss(device: str) -> tuple[Any, tuple[Any, ...]]:
    def run(x: Tensor, target: Tensor) -> Tensor:
        loss = F.binary_cross_entropy_with_logits(x, target, reduction="none")
        p = torch.sigmoid(x)
        hit = p * target + (1 - p) * (1 - target)
        return (loss * (1 - hit) ** 2 * (0.25 * target + 0.75 * (1 - target))).mean()

    return run, (drawn(device, 64, 100000, dtype=torch.float32), torch.ones(64, 100000, device=device))


@function
def distillation(device: str) -> tuple[Any, tuple[Any, ...]]:
    run = lambda s, t: F.kl_div(F.log_softmax(s / 2, -1), F.softmax(t / 2, -1), reduction="batchmean")  # noqa: E731
    return run, tuple(drawn(device, 4096, 32000, dtype=torch.float32) for _ in range(2))


@function
def embed_tokens(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Tokens and positions of GPT-2, then its norm."""
    table, places, norm = drawn(device, 50257, 1024), drawn(device, 1024, 1024), drawn(device, 1024)
    run = lambda ids: F.layer_norm(F.embedding(ids, table) + places, (1024,), norm, norm)  # noqa: E731
    return run, (numbers(device, 50257, 32, 1024),)


@function
def graph_convolution(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Messages of edges, added up at nodes."""
    weight = drawn(device, 256, 256, dtype=torch.float32)

    def run(x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        messages = F.linear(x, weight)[source]
        return torch.relu(torch.zeros_like(x).index_add_(0, target, messages))

    nodes = drawn(device, 100_000, 256, dtype=torch.float32)
    return run, (nodes, numbers(device, 100_000, 1_000_000), numbers(device, 100_000, 1_000_000))


@function
def interactions(device: str) -> tuple[Any, tuple[Any, ...]]:
    """DLRM: products of all pairs of a sample's features."""

    def run(dense: Tensor, sparse: Tensor) -> Tensor:
        features = torch.cat((dense[:, None], sparse), 1)
        pairs = torch.bmm(features, features.mT)
        return torch.cat((dense, pairs.flatten(1)), 1)

    return run, (drawn(device, 16384, 128), drawn(device, 16384, 26, 128))


@function
def batch_standard(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Columns made to mean 0 and deviation 1."""
    run = lambda x: (x - x.mean(0)) / (x.std(0) + 1e-5)  # noqa: E731
    return run, (drawn(device, 65536, 1024, dtype=torch.float32),)


@function
def pairwise_distances(device: str) -> tuple[Any, tuple[Any, ...]]:
    def run(x: Tensor, y: Tensor) -> Tensor:
        squares = (x * x).sum(-1)[:, None] + (y * y).sum(-1)[None, :] - 2 * x @ y.t()
        return squares.clamp(min=0).sqrt().amin(1)

    return run, (drawn(device, 16384, 256, dtype=torch.float32), drawn(device, 8192, 256, dtype=torch.float32))


@function
def quantize_rows(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Rows as int8 with a scale each."""

    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        scale = x.abs().amax(-1, keepdim=True).float() / 127
        return (x / scale).round().clamp(-128, 127).to(torch.int8), scale

    return run, (drawn(device, 8192, 8192),)


@function
def top_p_sampling(device: str) -> tuple[Any, tuple[Any, ...]]:
    def run(logits: Tensor) -> Tensor:
        p, order = logits.softmax(-1).sort(descending=True)
        kept = p.cumsum(-1) - p < 0.9
        return torch.where(kept, p, 0.0).argmax(-1, keepdim=True).gather(1, torch.zeros_like(order[:, :1]))

    return run, (drawn(device, 64, 32000, dtype=torch.float32),)


@function
def mel_stem(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Whisper's two convolutions and its positions."""
    first, second = drawn(device, 768, 80, 3), drawn(device, 768, 768, 3)
    places = drawn(device, 1500, 768)

    def run(x: Tensor) -> Tensor:
        x = F.gelu(F.conv1d(F.gelu(F.conv1d(x, first, padding=1)), second, stride=2, padding=1))
        return x.transpose(1, 2) + places

    return run, (drawn(device, 16, 80, 3000),)
