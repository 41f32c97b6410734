"""Training steps of the kind that public code takes: forward, backward, and an optimizer's step where one is named."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_blocks import bert_layer, gpt2_block, vit_block
from torch_cases import Case, drawn, module, numbers

STEPS: dict[str, Case] = {}


def step(case: Case) -> Case:
    """Register a training step."""
    STEPS[case.__name__] = case
    return case


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


@step
def train_gpt2_block(device: str) -> tuple[Any, tuple[Any, ...]]:
    model, arguments = gpt2_block(device)
    return trained(model, squared(model)), arguments


@step
def train_gpt2_block_adamw(device: str) -> tuple[Any, tuple[Any, ...]]:
    model, arguments = gpt2_block(device)
    return trained(model, squared(model), fused=True), arguments


@step
def train_vit_block(device: str) -> tuple[Any, tuple[Any, ...]]:
    model, arguments = vit_block(device)
    return trained(model, squared(model)), arguments


@step
def train_bert_layer(device: str) -> tuple[Any, tuple[Any, ...]]:
    model, arguments = bert_layer(device)
    return trained(model, squared(model), fused=False), arguments


@step
def train_wide_mlp(device: str) -> tuple[Any, tuple[Any, ...]]:
    model = module(lambda: nn.Sequential(nn.Linear(4096, 11008), nn.SiLU(), nn.Linear(11008, 4096)), device)
    return trained(model, squared(model), fused=True), (drawn(device, 4096, 4096),)


@step
def train_classifier(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Embedding, norm, product with a vocabulary, cross entropy."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.norm, self.head = nn.Embedding(32000, 1024), nn.LayerNorm(1024), nn.Linear(1024, 32000)

        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.norm(self.table(ids)))

    model = module(Model, device)
    loss = lambda ids, labels: F.cross_entropy(model(ids).float(), labels)  # noqa: E731
    return trained(model, loss), (numbers(device, 32000, 4096), numbers(device, 32000, 4096))


@step
def train_bottleneck(device: str) -> tuple[Any, tuple[Any, ...]]:
    def made() -> nn.Module:
        parts = [nn.Conv2d(128, 128, 3, padding=1, bias=False), nn.BatchNorm2d(128), nn.ReLU()]
        return nn.Sequential(*parts, nn.Conv2d(128, 128, 3, padding=1, bias=False), nn.BatchNorm2d(128))

    model = module(made, device)
    return trained(model, squared(model)), (drawn(device, 64, 128, 28, 28),)


@step
def train_swiglu(device: str) -> tuple[Any, tuple[Any, ...]]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.RMSNorm(2048)
            self.gate, self.up, self.down = (
                nn.Linear(2048, 5504, bias=False),
                nn.Linear(2048, 5504, bias=False),
                nn.Linear(5504, 2048, bias=False),
            )

        def forward(self, x: Tensor) -> Tensor:
            h = self.norm(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    model = module(Model, device)
    return trained(model, squared(model)), (drawn(device, 8192, 2048),)


@step
def train_dropout_block(device: str) -> tuple[Any, tuple[Any, ...]]:
    def made() -> nn.Module:
        return nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Dropout(0.1), nn.Linear(4096, 1024), nn.Dropout(0.1))

    model = module(made, device)
    return trained(model, squared(model)), (drawn(device, 16384, 1024),)


@step
def train_frozen_base(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Low-rank additions to a layer whose weight is frozen."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(4096, 4096, bias=False).requires_grad_(False)
            self.down, self.up = nn.Linear(4096, 16, bias=False), nn.Linear(16, 4096, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.base(x) + self.up(self.down(x))

    model = module(Model, device)
    return trained(model, squared(model)), (drawn(device, 8192, 4096),)
