"""A training step of one layer, with what it is given."""

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

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


def recomputed() -> torch.Tensor:
    """Attention with dropout behind it, that is run again in the backward pass."""
    with torch.device("cuda"):
        qkv, x = torch.nn.Linear(128, 384).bfloat16(), torch.empty(2, 256, 128, dtype=torch.bfloat16)

    def part(x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (2, 64)).transpose(1, 2) for t in qkv(x).chunk(3, -1))
        return F.dropout(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2), 0.1)

    return checkpoint(part, x, use_reentrant=False).float().pow(2).mean()
