"""Training steps of the fifth set (`torch_fifth`), each with an optimizer or a style that no other set holds."""

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap
from torch_fifth import fifth
from torch_parts import (
    FLOAT,
    Attention,
    Block,
    Made,
    convolved,
    drawn,
    module,
    numbers,
    split_heads,
    squared,
    stepped,
    trained,
)


class Mobile(nn.Module):
    """MobileNetV3's block: wide, depthwise over 5 x 5, squeezed, narrow, hard activations."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.deep = convolved(40, 240, 1), convolved(240, 240, 5, groups=240)
        self.squeeze, self.excite = nn.Conv2d(240, 64, 1), nn.Conv2d(64, 240, 1)
        self.narrow = convolved(240, 40, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, 40, H, W) -> the same."""
        h = F.hardswish(self.deep(F.hardswish(self.wide(x))))
        h = h * F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(h, 1)))))
        return x + self.narrow(h)


@fifth
def train_mobile_block(device: str) -> Made:
    """Float32, channels last, RMSprop with momentum as MobileNets are trained."""
    made = module(Mobile, device, FLOAT).to(memory_format=torch.channels_last)
    optimizer = torch.optim.RMSprop(made.parameters(), 0.064, 0.9, 0.0316, 1e-5, 0.9, foreach=True)
    given = drawn(device, 96, 40, 28, 28, dtype=FLOAT).to(memory_format=torch.channels_last)
    return stepped(made, squared(made), optimizer.step), (given,)


class NextItem(nn.Module):
    """SASRec: items a user took, causal attention, scores of the next and of a wrong one."""

    def __init__(self) -> None:
        super().__init__()
        self.items, self.places = nn.Embedding(150_000, 128), nn.Embedding(200, 128)
        self.norms = nn.ModuleList(nn.LayerNorm(128) for _ in range(3))
        self.attention = Attention(128, 2, causal=True)
        self.mlp = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 128))

    def forward(self, ids: Tensor, right: Tensor, wrong: Tensor) -> tuple[Tensor, Tensor]:
        """(B, 200) each -> two scores of each place."""
        x = self.items(ids) * 128**0.5 + self.places.weight
        x = x + self.attention(self.norms[0](x))
        x = self.norms[2](x + self.mlp(self.norms[1](x)))
        return (x * self.items(right)).sum(-1), (x * self.items(wrong)).sum(-1)


@fifth
def train_next_item(device: str) -> Made:
    """Float32, two binary cross entropies, Adagrad over the whole table."""
    made = module(NextItem, device, FLOAT)
    optimizer = torch.optim.Adagrad(made.parameters(), 0.01, foreach=True)

    def loss(*ids: Tensor) -> Tensor:
        right, wrong = made(*ids)
        return (F.softplus(-right) + F.softplus(wrong)).mean()

    return stepped(made, loss, optimizer.step), tuple(numbers(device, 150_000, 128, 200) for _ in "irw")


def projector(*widths: int) -> nn.Module:
    """BYOL's MLP: a hidden layer with batch norm."""
    source, inner, made = widths
    return nn.Sequential(nn.Linear(source, inner), nn.BatchNorm1d(inner), nn.ReLU(), nn.Linear(inner, made))


@fifth
def train_bootstrapped(device: str) -> Made:
    """BYOL's heads on two views: a target that follows by a moving average, LARS written with foreach; float32."""
    online, target = (module(lambda: projector(2048, 4096, 256), device, FLOAT) for _ in "ot")
    guess = module(lambda: projector(256, 4096, 256), device, FLOAT)
    both = nn.ModuleList((online, guess))
    weights = list(both.parameters())
    momenta = [torch.zeros_like(weight) for weight in weights]

    def loss(first: Tensor, second: Tensor) -> Tensor:
        with torch.no_grad():
            aims = [F.normalize(target(view), dim=-1) for view in (second, first)]
        guesses = [F.normalize(guess(online(view)), dim=-1) for view in (first, second)]
        return sum((2 - 2 * (a * b).sum(-1)).mean() for a, b in zip(guesses, aims, strict=True))

    @torch.no_grad()
    def update() -> None:
        moves = torch._foreach_add([weight.grad for weight in weights], weights, alpha=1.5e-6)
        ratios = torch._foreach_norm(weights)
        torch._foreach_div_(ratios, torch._foreach_add(torch._foreach_norm(moves), 1e-9))
        torch._foreach_mul_(ratios, 1e-3)
        torch._foreach_mul_(moves, ratios)
        torch._foreach_mul_(momenta, 0.9)
        torch._foreach_add_(momenta, moves)
        torch._foreach_add_(weights, momenta, alpha=-0.3)
        torch._foreach_lerp_(list(target.parameters()), list(online.parameters()), 0.004)

    return stepped(both, loss, update), tuple(drawn(device, 1024, 2048, dtype=FLOAT) for _ in "fs")


class Preactivated(nn.Module):
    """Wide ResNet's block with a classifier of 100."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.BatchNorm2d(320) for _ in range(2))
        self.layers = nn.ModuleList(nn.Conv2d(320, 320, 3, padding=1, bias=False) for _ in range(2))
        self.classes = nn.Linear(320, 100)

    def forward(self, x: Tensor) -> Tensor:
        """(B, 320, H, W) -> (B, 100)."""
        h = x
        for norm, layer in zip(self.norms, self.layers, strict=True):
            h = layer(F.relu(norm(h)))
        return self.classes((x + h).mean((2, 3)))


@fifth
def train_sharpness_aware(device: str) -> Made:
    """SAM: gradients where the loss is worst nearby, then momentum; float32."""
    made = module(Preactivated, device, FLOAT)
    weights = list(made.parameters())
    optimizer = torch.optim.SGD(weights, 0.1, 0.9, weight_decay=5e-4, foreach=True)

    def run(x: Tensor, truth: Tensor) -> None:
        F.cross_entropy(made(x), truth, label_smoothing=0.1).backward()
        with torch.no_grad():
            gradients = [weight.grad for weight in weights]
            size = torch.stack(torch._foreach_norm(gradients)).norm()
            away = torch._foreach_mul(gradients, 0.05 / (size + 1e-12))
            torch._foreach_add_(weights, away)
        for weight in weights:
            weight.grad = None
        F.cross_entropy(made(x), truth, label_smoothing=0.1).backward()
        with torch.no_grad():
            torch._foreach_sub_(weights, away)
        optimizer.step()
        for weight in weights:
            weight.grad = None

    return run, (drawn(device, 64, 320, 8, 8, dtype=FLOAT), numbers(device, 100, 64))


@fifth
def train_accumulated(device: str) -> Made:
    """BERT-large's block, gradients of four batches added up under autocast, LAMB written with foreach."""
    made = module(lambda: Block(1024, 16, causal=False, tanh=False), device, FLOAT)
    weights = list(made.parameters())
    means, squares = ([torch.zeros_like(weight) for weight in weights] for _ in "ms")

    def run(x: Tensor) -> None:
        for part in x.unbind():
            with torch.autocast("cpu" if device == "cpu" else "cuda", torch.bfloat16):
                loss = made(part).float().pow(2).mean() / x.shape[0]
            loss.backward()
        gradients = [weight.grad for weight in weights]
        with torch.no_grad():
            torch._foreach_lerp_(means, gradients, 0.1)
            torch._foreach_mul_(squares, 0.999)
            torch._foreach_addcmul_(squares, gradients, gradients, 0.001)
            moves = torch._foreach_div(means, torch._foreach_add(torch._foreach_sqrt(squares), 1e-6))
            torch._foreach_add_(moves, weights, alpha=0.01)
            ratios = torch._foreach_norm(weights)
            torch._foreach_div_(ratios, torch._foreach_norm(moves))
            torch._foreach_mul_(moves, ratios)
            torch._foreach_add_(weights, moves, alpha=-1e-3)
        for weight in weights:
            weight.grad = None

    return run, (drawn(device, 4, 8, 512, 1024),)


@fifth
def train_physics_informed(device: str) -> Made:
    """Burgers' equation at 32,768 points: derivatives of an MLP by forward mode, Adam with AMSGrad; float32."""
    widths = (2, 128, 128, 128, 128, 1)
    layers = [part for s in pairwise(widths) for part in (nn.Linear(*s), nn.Tanh())][:-1]
    made = module(lambda: nn.Sequential(*layers), device, FLOAT).to(device)
    optimizer = torch.optim.Adam(made.parameters(), 1e-3, amsgrad=True, foreach=True)

    def loss(points: Tensor, along_x: Tensor, along_t: Tensor) -> Tensor:
        u, u_t = jvp(made, (points,), (along_t,))
        u_x, u_xx = jvp(lambda at: jvp(made, (at,), (along_x,))[1], (points,), (along_x,))
        return (u_t + u * u_x - 0.00318 * u_xx).square().mean()

    ways = [
        torch.zeros(32_768, 2, device=device).index_fill(1, torch.tensor([way], device=device), 1.0) for way in (0, 1)
    ]
    return stepped(made, loss, optimizer.step), (torch.rand(32_768, 2, device=device), *ways)


@fifth
def train_private(device: str) -> Made:
    """Opacus's DP-SGD: gradients of each of 512 images by vmap, clipped, added up, noise; float32."""
    parts = (nn.Conv2d(1, 16, 8, 2, 3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU())
    rest = (nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10))
    made = module(lambda: nn.Sequential(*parts, *rest), device, FLOAT).to(device)
    names, weights = zip(*made.named_parameters(), strict=True)

    def loss(values: tuple[Tensor, ...], image: Tensor, truth: Tensor) -> Tensor:
        named = dict(zip(names, values, strict=True))
        return F.cross_entropy(functional_call(made, named, (image[None],)), truth[None])

    def run(images: Tensor, truth: Tensor) -> None:
        values = tuple(weight.detach() for weight in weights)
        gradients = vmap(grad(loss), (None, 0, 0))(values, images, truth)
        sizes = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients]).norm(dim=0)
        shares = (1.2 / (sizes + 1e-6)).clamp(max=1.0)
        for value, gradient in zip(values, gradients, strict=True):
            total = torch.einsum("b,b...->...", shares, gradient)
            value.add_(total + 1.2 * torch.randn_like(total), alpha=-0.1 / images.shape[0])

    return run, (drawn(device, 512, 1, 28, 28, dtype=FLOAT), numbers(device, 10, 512))


class Ternary(nn.Linear):
    """BitNet b1.58's product: weights of -1, 0 and 1, activations of eight bits, gradients straight through."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        x = F.rms_norm(x, x.shape[-1:])
        scale = 127 / x.abs().amax(-1, keepdim=True).clamp(min=1e-5)
        x = x + ((x * scale).round().clamp(-128, 127) / scale - x).detach()
        scale = 1 / self.weight.abs().mean().clamp(min=1e-5)
        weight = self.weight + ((self.weight * scale).round().clamp(-1, 1) / scale - self.weight).detach()
        return F.linear(x, weight)


@fifth
def train_ternary(device: str) -> Made:
    """An MLP of BitNet 2B's widths with squared ReLU, fused AdamW; 4,096 tokens."""

    class Narrowed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up = (Ternary(2560, 6912, bias=False) for _ in "gu")
            self.down = Ternary(6912, 2560, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.down(F.relu(self.gate(x)).square() * self.up(x))

    made = module(Narrowed, device)
    return trained(made, squared(made), fused=True), (drawn(device, 4096, 2560),)


class Speedrun(nn.Module):
    """The NanoGPT speedrun's layer: norms without weights, Q and K normed, squared ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(1024, 1024, bias=False) for _ in "qkvo")
        self.up, self.down = nn.Linear(1024, 4096, bias=False), nn.Linear(4096, 1024, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, S, 1024) -> the same."""
        h = F.rms_norm(x, (1024,))
        q, k = (F.rms_norm(split_heads(to(h), 8), (128,)) for to in (self.q, self.k))
        o = F.scaled_dot_product_attention(q, k, split_heads(self.v(h), 8), is_causal=True)
        x = x + self.out(o.transpose(1, 2).flatten(2))
        return x + self.down(F.relu(self.up(F.rms_norm(x, (1024,)))).square())


@fifth
def train_speedrun(device: str) -> Made:
    """Four sequences of 2,048 and torch's own Muon."""
    made = module(Speedrun, device)
    optimizer: Any = torch.optim.Muon(made.parameters(), 0.02, weight_decay=0.01, momentum=0.95)
    return stepped(made, squared(made), optimizer.step), (drawn(device, 4, 2048, 1024),)
