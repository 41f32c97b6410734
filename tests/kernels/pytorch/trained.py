"""A training step of one layer, with what it is given."""

import torch

WIDTH = 256


def inputs() -> tuple[torch.nn.Module, torch.optim.Optimizer, torch.Tensor]:
    """A layer, its optimizer, activations."""
    with torch.device("cuda"):
        model = torch.nn.Linear(WIDTH, WIDTH, bias=False).bfloat16()
        x = torch.empty(64, WIDTH, dtype=torch.bfloat16)
    return model, torch.optim.AdamW(model.parameters(), foreach=True), x


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    """Gradients from nothing, and an optimizer's step."""
    optimizer.zero_grad()
    model(x).float().pow(2).mean().backward()
    optimizer.step()


def chosen(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
    """A loss of as many elements as are positive."""
    result = model(x)
    return result[result > 0].sum()


def chain(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
    """A product, and three functions whose gradients need what they are given."""
    x = model(x)
    for _ in range(3):
        x = torch.nn.functional.gelu(x)
    return x


@torch.no_grad()
def chain_without(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
    """The same without gradients."""
    return chain(model, optimizer, x)
