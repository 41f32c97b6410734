"""What the choice of a configuration is judged by: cells, each a kernel at one shape with many configurations.

A cell's tensors are made once; `launch` gives the kernel, grid and arguments of one of its configurations, so that the
same call can be compiled, run and predicted. Configurations are drawn by a seed: nothing measured decides about them.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Config = dict[str, Any]
Tensors = dict[Any, Any]
Launch = tuple[Any, tuple[int, ...], list[Any], dict[str, Any]]
"""Kernel, grid, positional and named arguments."""
SMEM_BYTES = 227 << 10
"""Shared memory that a CTA can have on an H100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A kernel at one shape.

    Args:
        family: kind of kernel; name: unique among all cells; shape: for tables.
        configs: those that are measured.
        make: from a device to the tensors; on `meta` those that decide addresses lie on the CPU.
        launch: from tensors and a configuration to a launch.
        output: from tensors to what the launch wrote, to be held against `reference`.
        reference: from tensors to what should be there; None: not checked.
    """

    family: str
    name: str
    shape: dict[str, Any]
    configs: list[Config]
    make: Callable[[str], Tensors]
    launch: Callable[[Tensors, Config], Launch]
    output: Callable[[Tensors], torch.Tensor] = lambda t: t["out"]
    reference: Callable[[Tensors], torch.Tensor] | None = None


CELLS: dict[str, Cell] = {}
SLICE = 11
"""Configurations of a cell that are compiled, measured or predicted before the next cell's turn comes."""


def enter(cell: Cell) -> None:
    """Add a cell to those there are."""
    if cell.name in CELLS:
        raise ValueError(f"{cell.name} is there already")
    CELLS[cell.name] = cell


def drawn(space: Iterable[Config], count: int, seed: int) -> list[Config]:
    """Some configurations of a space, in an order that is the same everywhere."""
    every = list(space)
    random.Random(seed).shuffle(every)
    return every[:count]


def normal(device: str, *shape: int, dtype: torch.dtype = torch.bfloat16, scale: float = 1.0) -> torch.Tensor:
    """Normal values, made a row of the first dimension at a time where there are many."""
    out = torch.empty(shape, device=device, dtype=dtype)
    if device != "meta":
        for part in out if out.dim() > 2 else [out]:
            part.normal_(0.0, scale)
    return out


def cdiv(a: int, b: int) -> int:
    """Quotient, rounded up."""
    return -(-a // b)


def options(config: Config, names: Sequence[str] = ("num_warps", "num_stages")) -> dict[str, Any]:
    """What of a configuration is not the kernel's own."""
    return {name: config[name] for name in names if name in config}


def sliced(families: Iterable[str], part: str = "") -> list[tuple[Cell, list[int]]]:
    """Configurations of some families in turns, so that whatever ends early has some of each cell.

    Args: part: of names of cells. Returns: a cell and numbers of its configurations, which come in no order; the first
    slice of each cell, then the second.
    """
    turns: list[tuple[Cell, list[int]]] = []
    cells = [cell for cell in CELLS.values() if cell.family in set(families) and part in cell.name]
    orders = [random.Random(0).sample(range(len(cell.configs)), len(cell.configs)) for cell in cells]
    for at in range(0, max(map(len, orders), default=0), SLICE):
        turns += [(cell, order[at : at + SLICE]) for cell, order in zip(cells, orders, strict=True) if order[at:]]
    return turns
