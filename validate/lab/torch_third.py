"""A third set of functions and training steps, of other models again, written before any of them was measured."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch_blocks import split_heads
from torch_cases import HALF, Case, drawn, module, numbers
from torch_second import Layer, Made
from torch_steps import squared, trained

THIRD: dict[str, Case] = {}


def third(case: Case) -> Case:
    """Register a case; one named `train_...` is a training step."""
    THIRD[case.__name__] = case
    return case


@third
def gemma_attention(device: str) -> Made:
    """Gemma 2's attention written out: scores capped by tanh, softmax in float32, heads of 256."""
    qkv, out = drawn(device, 4096, 2304), drawn(device, 2304, 2048)

    def run(x: Tensor) -> Tensor:
        q, k, v = (split_heads(part, part.shape[-1] // 256) for part in F.linear(x, qkv).split((2048, 1024, 1024), -1))
        k, v = (t.repeat_interleave(2, 1) for t in (k, v))
        scores = torch.tanh(q @ k.mT * 0.0625 / 50.0) * 50.0
        later = torch.ones(scores.shape[-2:], device=x.device, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, -2.3819763e38).softmax(-1, dtype=torch.float32).to(x.dtype)
        return F.linear((weights @ v).transpose(1, 2).flatten(2), out)

    return run, (drawn(device, 1, 2048, 2304),)


@third
def latent_attention(device: str) -> Made:
    """DeepSeek-V2's multi-head latent attention in prefill: keys of 192, values of 128, from a latent of 512."""
    up, out = drawn(device, 16 * 256, 512), drawn(device, 2048, 16 * 128)

    def run(q: Tensor, latent: Tensor, rotated: Tensor) -> Tensor:
        k, v = split_heads(F.linear(latent, up), 16).split(128, -1)
        k = torch.cat((k, rotated[:, None].expand(-1, 16, -1, -1)), -1)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.linear(o.transpose(1, 2).flatten(2), out)

    return run, (drawn(device, 2, 16, 2048, 192), drawn(device, 2, 2048, 512), drawn(device, 2, 2048, 64))


class Parallel(nn.Module):
    """Phi-2's layer: attention and MLP side by side, rotation of 32 of 80 places of a head."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(2560)
        self.qkv, self.out = nn.Linear(2560, 7680), nn.Linear(2560, 2560)
        self.up, self.down = nn.Linear(2560, 10240), nn.Linear(10240, 2560)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """(B, S, 2560) -> the same."""
        h = self.norm(x)
        q, k, v = (split_heads(part, 32) for part in self.qkv(h).chunk(3, -1))
        q, k = (self.rotated(t, cos, sin) for t in (q, k))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(o.transpose(1, 2).flatten(2)) + self.down(F.gelu(self.up(h), approximate="tanh"))

    def rotated(self, t: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """The first 32 places turned."""
        turned, kept = t[..., :32], t[..., 32:]
        half = torch.cat((-turned[..., 16:], turned[..., :16]), -1)
        return torch.cat((turned * cos + half * sin, kept), -1)


@third
def phi_layer(device: str) -> Made:
    made = module(Parallel, device)
    return made, (drawn(device, 2, 2048, 2560), drawn(device, 2048, 32), drawn(device, 2048, 32))


@third
def whisper_token(device: str) -> Made:
    """A token of each of 16 sequences asks 1,500 frames; norm and projections with it."""
    norm, q, out = nn.LayerNorm(1280), nn.Linear(1280, 1280), nn.Linear(1280, 1280)
    for part in (norm, q, out):
        part.to(device, HALF)

    def run(x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        o = F.scaled_dot_product_attention(split_heads(q(norm(x)), 20), keys, values)
        return x + out(o.transpose(1, 2).flatten(2))

    return run, (drawn(device, 16, 1, 1280), *(drawn(device, 16, 20, 1500, 64) for _ in "kv"))


@third
def gated_norm(device: str) -> Made:
    """Mamba 2's norm: gated by SiLU, over groups of 512, in float32."""

    def run(x: Tensor, gate: Tensor, weight: Tensor) -> Tensor:
        h = (x.float() * F.silu(gate.float())).unflatten(-1, (-1, 512))
        h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-5)
        return weight * h.flatten(-2).to(x.dtype)

    return run, (drawn(device, 8192, 4096), drawn(device, 8192, 4096), drawn(device, 4096))


@third
def nearest_code(device: str) -> Made:
    """VQ-VAE's quantisation: the nearest of 8,192 codes, taken, with its commitment loss; float32."""

    def run(x: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
        apart = x.square().sum(-1, keepdim=True) - 2 * x @ codes.T + codes.square().sum(-1)
        taken = F.embedding(apart.argmin(-1), codes)
        return x + (taken - x), F.mse_loss(x, taken)

    return run, (drawn(device, 16384, 256, dtype=torch.float32), drawn(device, 8192, 256, dtype=torch.float32))


class Upsampled(nn.Module):
    """A stage of Stable Diffusion's decoder: norm of groups, SiLU, twice the size, a convolution."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.norm, self.convolution = nn.GroupNorm(32, width), nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, 256, H, W) -> (B, 256, 2 H, 2 W)."""
        return self.convolution(F.interpolate(F.silu(self.norm(x)), scale_factor=2.0, mode="nearest"))


@third
def decoder_upsampling(device: str) -> Made:
    return module(Upsampled, device), (drawn(device, 4, 256, 128, 128),)


@third
def mixer_block(device: str) -> Made:
    """MLP-Mixer: an MLP over patches, an MLP over channels."""

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(768) for _ in range(2))
            self.wide, self.narrow = nn.Linear(196, 384), nn.Linear(384, 196)
            self.up, self.down = nn.Linear(768, 3072), nn.Linear(3072, 768)

        def forward(self, x: Tensor) -> Tensor:
            x = x + self.narrow(F.gelu(self.wide(self.norms[0](x).mT))).mT
            return x + self.down(F.gelu(self.up(self.norms[1](x))))

    return module(Mixer, device), (drawn(device, 64, 196, 768),)


@third
def four_bit_linear(device: str) -> Made:
    """A product with weights of four bits, looked up in a table of 16 values and scaled by groups of 64."""

    def run(x: Tensor, packed: Tensor, table: Tensor, scales: Tensor) -> Tensor:
        codes = torch.stack((packed >> 4, packed & 15), -1).flatten(-2).int()
        weight = (table[codes].unflatten(-1, (-1, 64)) * scales[..., None]).flatten(-2)
        return F.linear(x, weight)

    packed = numbers(device, 256, 4096, 2048).to(torch.uint8)
    return run, (drawn(device, 128, 4096), packed, drawn(device, 16), drawn(device, 4096, 64))


@third
def mixtral_router(device: str) -> Made:
    """Softmax over 8 experts, the best two, made to sum to one; the loss that balances them."""

    def run(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shares = F.linear(x, weight).softmax(-1, dtype=torch.float32)
        best, experts = shares.topk(2, -1)
        best = best / best.sum(-1, keepdim=True)
        load = F.one_hot(experts, 8).float().mean(0).sum(0)
        return best.to(x.dtype), experts, 8 * (load * shares.mean(0)).sum()

    return run, (drawn(device, 16384, 4096), drawn(device, 8, 4096))


@third
def beam_step(device: str) -> Made:
    """A step of beam search: 32 sequences of 4 beams, the best 8 of 4 x 51,865, a cache put in order."""

    def run(logits: Tensor, scores: Tensor, cache: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        total = logits.float().log_softmax(-1) + scores[..., None]
        best, places = total.flatten(1).topk(8, -1)
        beams = (places[:, :4] // 51865 + torch.arange(32, device=logits.device)[:, None] * 4).flatten()
        return best, places % 51865, cache.index_select(0, beams)

    given = (drawn(device, 32, 4, 51865), drawn(device, 32, 4, dtype=torch.float32))
    return run, (*given, drawn(device, 128, 8, 448, 64))


@third
def contrastive_loss(device: str) -> Made:
    """SimCLR's loss of 4,096 pairs."""

    def run(x: Tensor, y: Tensor) -> Tensor:
        both = F.normalize(torch.cat((x, y)).float(), dim=-1).to(HALF)
        likeness = (both @ both.T).float() / 0.5
        likeness.fill_diagonal_(float("-inf"))
        other = torch.arange(both.shape[0], device=x.device).roll(x.shape[0])
        return F.cross_entropy(likeness, other)

    return run, (drawn(device, 4096, 256), drawn(device, 4096, 256))


@third
def box_overlaps(device: str) -> Made:
    """Overlap of each of 8,732 boxes with each of 128; the best of each, and which."""

    def run(boxes: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
        area, other = ((b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]) for b in (boxes, truth))
        low = torch.maximum(boxes[:, None, :2], truth[:, :2])
        high = torch.minimum(boxes[:, None, 2:], truth[:, 2:])
        common = (high - low).clamp(min=0).prod(2)
        return torch.max(common / (area[:, None] + other - common), 1)

    return run, (drawn(device, 8732, 4, dtype=torch.float32), drawn(device, 128, 4, dtype=torch.float32))


@third
def gru_cells(device: str) -> Made:
    """Sixteen steps of a GRU cell of 1,024, 256 sequences."""
    cell = nn.GRUCell(1024, 1024).to(device, HALF)

    def run(x: Tensor, h: Tensor) -> Tensor:
        for now in x.unbind(1):
            h = cell(now, h)
        return h

    return run, (drawn(device, 256, 16, 1024), drawn(device, 256, 1024))


@third
def layer_scale(device: str) -> Made:
    """DeiT III's end of a block in training: a branch scaled, and dropped for some images."""

    def run(x: Tensor, y: Tensor, scale: Tensor) -> Tensor:
        kept = torch.empty(x.shape[0], 1, 1, device=x.device, dtype=x.dtype).bernoulli_(0.9).div_(0.9)
        return x + y * scale * kept

    return run, (drawn(device, 128, 197, 1024), drawn(device, 128, 197, 1024), drawn(device, 1024))


@third
def point_features(device: str) -> Made:
    """PointNet: an MLP shared by 2,048 points, the largest of each feature, back to every point."""
    layers = [nn.Conv1d(a, b, 1).to(device, HALF) for a, b in ((64, 128), (128, 1024), (1088, 512))]

    def run(x: Tensor) -> Tensor:
        h = F.relu(layers[1](F.relu(layers[0](x)))).amax(-1, keepdim=True)
        return F.relu(layers[2](torch.cat((x, h.expand(-1, -1, x.shape[-1])), 1)))

    return run, (drawn(device, 32, 64, 2048),)


@third
def quantized_cache(device: str) -> Made:
    """Keys of new tokens rounded to int8 by their largest, and put into pages."""

    def run(keys: Tensor, pages: Tensor, scales: Tensor, slots: Tensor) -> None:
        wide = keys.float()
        scale = wide.abs().amax(-1).clamp(min=1e-6) / 127
        pages[slots] = (wide / scale[..., None]).round().clamp(-128, 127).to(torch.int8)
        scales[slots] = scale

    pages = torch.zeros(131072, 8, 128, device=device, dtype=torch.int8)
    slots = torch.randperm(131072, device=device)[:8192] if device == "cuda" else numbers(device, 131072, 8192)
    return run, (drawn(device, 8192, 8, 128), pages, torch.zeros(131072, 8, device=device), slots)


@third
def moving_average(device: str) -> Made:
    """The moving average of a model's weights, by one call for all of them."""
    shapes = [(1024, 1024), (4096, 1024), (1024, 4096), (1024,)] * 12
    kept, now = ([drawn(device, *shape, dtype=torch.float32) for shape in shapes] for _ in range(2))
    return (lambda: torch._foreach_lerp_(kept, now, 0.001)), ()


@third
def train_phi_layer(device: str) -> Made:
    made = module(Parallel, device)
    given = (drawn(device, 1, 2048, 2560), drawn(device, 2048, 32), drawn(device, 2048, 32))
    return trained(made, squared(made), fused=True), given


@third
def train_upsampling(device: str) -> Made:
    made = module(Upsampled, device)
    return trained(made, squared(made)), (drawn(device, 4, 256, 64, 64),)


@third
def train_recomputed(device: str) -> Made:
    """A Llama layer that keeps its input alone and is run again in the backward pass."""
    made = module(lambda: Layer(4096, 32, 8, 14336), device)
    again: Any = lambda x: checkpoint(made, x, use_reentrant=False).float().pow(2).mean()  # noqa: E731
    return trained(made, again), (drawn(device, 1, 4096, 4096),)


@third
def train_clicks(device: str) -> Made:
    """Two towers on embeddings of 100,000 users and items, binary cross entropy; foreach AdamW."""

    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(100_000, 64) for _ in range(2))
            self.mlp = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))

        def forward(self, ids: Tensor) -> Tensor:
            pairs = torch.cat([table(ids[:, place]) for place, table in enumerate(self.tables)], -1)
            return self.mlp(pairs)[:, 0]

    made = module(Towers, device, torch.float32)
    loss: Any = lambda ids, clicked: F.binary_cross_entropy_with_logits(made(ids), clicked)  # noqa: E731
    return trained(made, loss, fused=False), (numbers(device, 100_000, 16384, 2), drawn(device, 16384).float())
