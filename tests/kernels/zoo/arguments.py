"""Cases of the zoo: a kernel, its grid, and what it is called with, on whatever device."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

Case = Callable[[str], Callable[[], Any]]
"""From a device (`meta` or `cpu`) to what makes the launch."""


def case_of(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> Case:
    """A case. Args: arguments: functions make tensors on the device, others are passed as they are."""

    def case(device: str) -> Callable[[], Any]:
        made = [value(device) if callable(value) else value for value in arguments]
        return lambda: kernel[grid](*made, **options)

    return case


def half(*shape: int) -> Callable[[str], torch.Tensor]:
    """A tensor of 16-bit floats, without data where the device has none."""
    return lambda device: torch.zeros(shape, device=device, dtype=torch.float16)


def single(*shape: int) -> Callable[[str], torch.Tensor]:
    """The same of 32-bit floats."""
    return lambda device: torch.zeros(shape, device=device)


def empty_whole(*shape: int, dtype: torch.dtype = torch.int32) -> Callable[[str], torch.Tensor]:
    """The same of whole numbers whose values decide nothing."""
    return lambda device: torch.zeros(shape, device=device, dtype=dtype)


def shuffled(count: int, seed: int, first: int) -> list[int]:
    """The first of so many whole numbers in random order."""
    order: list[int] = torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:first].tolist()
    return order


def drawn(below: int, *shape: int, seed: int) -> list[Any]:
    """Random whole numbers from 0 on."""
    numbers: list[Any] = torch.randint(0, below, shape, generator=torch.Generator().manual_seed(seed)).tolist()
    return numbers


def whole(values: Sequence[Any], dtype: torch.dtype = torch.int32) -> Callable[[str], torch.Tensor]:
    """Whole numbers with values, on the CPU whatever the device."""
    return lambda device: torch.tensor(values, dtype=dtype)
