"""Training steps of the fourth set (`torch_fourth`), each with an optimizer or a way of training of its own."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.checkpoint import checkpoint
from torch_blocks import Attention
from torch_cases import drawn, module, numbers
from torch_fourth import FLOAT, fourth
from torch_second import Made, convolved
from torch_steps import squared, trained


def stepped(model: nn.Module, loss: Callable[..., Tensor], update: Callable[[], Any]) -> Callable[..., None]:
    """A step: gradients from nothing, then an update of the parameters."""

    def run(*arguments: Any) -> None:
        loss(*arguments).backward()
        update()
        for parameter in model.parameters():
            parameter.grad = None

    return run


class Shared(nn.Module):
    """ALBERT: embeddings of 128, one layer with its norms behind run four times, the embeddings again at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(30000, 128), nn.Embedding(512, 128)
        self.wide, self.narrow = nn.Linear(128, 768), nn.Linear(768, 128)
        self.attention, self.up, self.down = Attention(768, 12), nn.Linear(768, 3072), nn.Linear(3072, 768)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in (128, 768, 768, 128))

    def forward(self, ids: Tensor) -> Tensor:
        """(B, S) -> (B, S, 30000)."""
        x = self.wide(self.norms[0](self.table(ids) + self.places.weight[: ids.shape[1]]))
        for _ in range(4):
            x = self.norms[1](x + self.attention(x))
            x = self.norms[2](x + self.down(F.gelu(self.up(x), approximate="tanh")))
        x = self.norms[3](F.gelu(self.narrow(x), approximate="tanh"))
        return F.linear(x, self.table.weight)


@fourth
def train_albert(device: str) -> Made:
    """Weights of float32 under autocast, fused AdamW."""
    made = module(Shared, device, FLOAT)

    def loss(ids: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast("cpu" if device == "cpu" else "cuda", torch.bfloat16):
            return F.cross_entropy(made(ids).flatten(0, 1), labels.flatten())

    return trained(made, loss, fused=True), (numbers(device, 30000, 16, 384), numbers(device, 30000, 16, 384))


class Merged(nn.Module):
    """A U-Net's decoder stage: twice the size, what the encoder had beside it, two convolutions, three classes."""

    def __init__(self) -> None:
        super().__init__()
        self.wider = nn.ConvTranspose2d(256, 128, 2, 2)
        self.first, self.second = convolved(256, 128, 3), convolved(128, 128, 3)
        self.classes = nn.Conv2d(128, 3, 1)

    def forward(self, x: Tensor, beside: Tensor) -> Tensor:
        """(B, 256, H, W), (B, 128, 2 H, 2 W) -> (B, 3, 2 H, 2 W)."""
        x = torch.cat((self.wider(x), beside), 1)
        return self.classes(F.relu(self.second(F.relu(self.first(x)))))


@fourth
def train_unet_decoder(device: str) -> Made:
    """Float32, cross entropy of pixels, SGD with Nesterov's momentum."""
    made = module(Merged, device, FLOAT)
    optimizer = torch.optim.SGD(made.parameters(), 0.01, 0.99, weight_decay=3e-5, nesterov=True, foreach=True)
    loss: Any = lambda x, beside, truth: F.cross_entropy(made(x, beside), truth)  # noqa: E731
    given = (drawn(device, 8, 256, 56, 56, dtype=FLOAT), drawn(device, 8, 128, 112, 112, dtype=FLOAT))
    return stepped(made, loss, optimizer.step), (*given, numbers(device, 3, 8, 112, 112))


class GraphAttention(nn.Module):
    """GAT: messages of edges weighed by a softmax over those of a node, eight heads of 32, 40 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.classes = nn.Linear(128, 256, bias=False), nn.Linear(256, 40)
        self.sending, self.receiving = (nn.Parameter(torch.randn(8, 32)) for _ in "sr")

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """(N, 128), (E,), (E,) -> (N, 40)."""
        h = self.project(x).unflatten(-1, (8, 32))
        sent, received = ((h * part).sum(-1) for part in (self.sending, self.receiving))
        scores = F.leaky_relu(sent[source] + received[target], 0.2)
        most = torch.full_like(sent.detach(), float("-inf"))
        most = most.scatter_reduce(0, target[:, None].expand_as(scores), scores.detach(), "amax")
        weights = (scores - most[target]).exp()
        weights = weights / torch.zeros_like(sent).index_add(0, target, weights)[target]
        h = torch.zeros_like(h).index_add(0, target, h[source] * weights[..., None])
        return self.classes(F.elu(h.flatten(1)))


@fourth
def train_graph_attention(device: str) -> Made:
    """Float32, 20,000 nodes and 320,000 edges, cross entropy, Adam by foreach."""
    made = module(GraphAttention, device, FLOAT)
    optimizer = torch.optim.Adam(made.parameters(), 0.005, weight_decay=5e-4, foreach=True)
    loss: Any = lambda x, source, target, truth: F.cross_entropy(made(x, source, target), truth)  # noqa: E731
    edges = [numbers(device, 20_000, 320_000) for _ in "st"]
    given = (drawn(device, 20_000, 128, dtype=FLOAT), *edges, numbers(device, 40, 20_000))
    return stepped(made, loss, optimizer.step), given


class GroupedExperts(nn.Module):
    """Tokens in the order of their two best of 16 experts, one grouped product for all, a shared expert beside."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(2048, 16, bias=False)
        self.shared_in, self.shared_out = nn.Linear(2048, 2816, bias=False), nn.Linear(1408, 2048, bias=False)
        self.gate, self.up = (nn.Parameter(torch.randn(16, 1408, 2048)) for _ in "gu")
        self.down = nn.Parameter(torch.randn(16, 2048, 1408))

    def forward(self, x: Tensor) -> Tensor:
        """(T, 2048) -> the same."""
        best, experts = self.router(x).softmax(-1, dtype=FLOAT).topk(2, -1)
        order = experts.flatten().argsort(stable=True)
        ends = F.one_hot(experts.flatten(), 16).sum(0).cumsum(0).to(torch.int32)
        rows = x[order // 2]
        gate, up = (F.grouped_mm(rows, weight.mT, offs=ends) for weight in (self.gate, self.up))
        made = F.grouped_mm(F.silu(gate) * up, self.down.mT, offs=ends)
        made = made * best.flatten()[order, None].to(x.dtype)
        gate, up = self.shared_in(x).chunk(2, -1)
        return torch.index_add(x + self.shared_out(F.silu(gate) * up), 0, order // 2, made)


@fourth
def train_grouped_experts(device: str) -> Made:
    """Forward and backward alone, 4,096 tokens."""
    made = module(GroupedExperts, device)
    return trained(made, squared(made)), (drawn(device, 4096, 2048),)


class Head(nn.Module):
    """A norm, a product with a vocabulary and its loss, for 1,024 tokens at a time, computed again going back."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.RMSNorm(2048), nn.Linear(2048, 50280, bias=False)

    def part(self, x: Tensor, labels: Tensor) -> Tensor:
        """The sum of losses of a chunk."""
        return F.cross_entropy(self.head(self.norm(x)).float(), labels, reduction="sum")

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """(T, 2048), (T,) -> the mean loss."""
        chunks = zip(x.split(1024), labels.split(1024), strict=True)
        return sum(checkpoint(self.part, *chunk, use_reentrant=False) for chunk in chunks) / x.shape[0]


@fourth
def train_chunked_loss(device: str) -> Made:
    """Gradients clipped by their norm, Lion written with foreach."""
    made = module(Head, device)
    weights = list(made.parameters())
    momenta = [torch.zeros_like(weight) for weight in weights]

    def update() -> None:
        clip_grad_norm_(weights, 1.0)
        gradients = [weight.grad for weight in weights]
        with torch.no_grad():
            moves = torch._foreach_lerp(momenta, gradients, 0.1)
            torch._foreach_sign_(moves)
            torch._foreach_mul_(weights, 1 - 1e-5)
            torch._foreach_add_(weights, moves, alpha=-1e-4)
            torch._foreach_lerp_(momenta, gradients, 0.01)

    return stepped(made, made, update), (drawn(device, 4096, 2048), numbers(device, 50280, 4096))
