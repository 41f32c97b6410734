"""What a probe is, where probes are kept by name, and tensors for them.

On `meta` tensors have no data, but for whole numbers that decide addresses: those stay on the CPU.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Launching = Callable[[], None]


@dataclass(frozen=True)
class Probe:
    """What is asked, and of which variants. Args: build: (device, **variant) -> what launches."""

    name: str
    question: str
    build: Callable[..., Launching]
    variants: tuple[dict[str, Any], ...]


PROBES: dict[str, Probe] = {}


def probe(question: str, *variants: dict[str, Any]) -> Callable[[Callable[..., Launching]], Callable[..., Launching]]:
    """Add a function to PROBES under its name."""

    def add(build: Callable[..., Launching]) -> Callable[..., Launching]:
        PROBES[build.__name__] = Probe(build.__name__, question, build, variants or ({},))
        return build

    return add


def floats(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal values."""
    return torch.randn(shape, device=device, dtype=dtype)


def blank(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Room for results: zeros, so that sums begin somewhere."""
    return torch.zeros(shape, device=device, dtype=dtype)


def whole(device: str, high: int, *shape: int, power: float = 1.0) -> torch.Tensor:
    """Numbers below `high`, the same everywhere, small ones the more frequent the higher the power."""
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(54)) ** power
    values = (drawn * high).to(torch.int32).clamp_(0, high - 1)
    return values if device == "meta" else values.to(device)
