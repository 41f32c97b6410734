"""A training step of attention that is run again in the backward pass, with what it is given."""

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Attention(torch.nn.Module):
    """Two heads of 64; dropout behind."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(128, 384), torch.nn.Linear(128, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, S, 128) -> the same."""
        q, k, v = (t.unflatten(-1, (2, 64)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        o = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return F.dropout(self.out(o), 0.1)


def inputs() -> tuple[torch.nn.Module, torch.Tensor]:
    """A module, activations."""
    with torch.device("cuda"):
        return Attention().bfloat16(), torch.empty(2, 256, 128, dtype=torch.bfloat16)


def step(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A loss."""
    return checkpoint(model, x, use_reentrant=False).float().pow(2).mean()
