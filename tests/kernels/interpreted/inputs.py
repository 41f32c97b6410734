"""Tensors that attention kernels find hard, and the plain ones."""

from collections.abc import Callable
from types import MappingProxyType

import torch
from tilesight.kernels.launch.launch import TORCH_DTYPES
from tilesight.simulator.problems.attention import AttentionProblem

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _random(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=generator)


def _outliers(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """One element in a thousand is drawn forty times wider."""
    wide = torch.rand(shape, generator=generator) < 0.001
    return torch.where(wide, 40.0, 1.0) * torch.randn(shape, generator=generator)


def _huge(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Scores of thousands: exp of them is above the largest fp32, they themselves just fit into fp16."""
    return 25.0 * torch.randn(shape, generator=generator)


def _overflowing(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Scores of tens of thousands: above the largest fp16."""
    return 100.0 * torch.randn(shape, generator=generator)


def _equal(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.full(shape, 0.5)


OVERFLOWING = "overflowing logits"
INPUTS: MappingProxyType[str, Callable[[tuple[int, ...], torch.Generator], torch.Tensor]] = MappingProxyType(
    {"random": _random, "outliers": _outliers, "huge logits": _huge, OVERFLOWING: _overflowing, "all equal": _equal}
)


def draw(problem: AttentionProblem, kind: str = "random", seed: int = 0) -> Tensors:
    """Q, K and V of a problem. Args: kind: a key of INPUTS; seed."""
    generator = torch.Generator().manual_seed(seed)
    queries = (problem.batch, problem.heads, problem.seqlen_q, problem.head_dim)
    keys = (problem.batch, problem.kv_heads, problem.seqlen_k, problem.head_dim)
    values = (*keys[:3], problem.value_dim)
    q, k, v = (INPUTS[kind](shape, generator).to(TORCH_DTYPES[problem.dtype]) for shape in (queries, keys, values))
    return q, k, v


def sinks(problem: AttentionProblem, seed: int = 0) -> torch.Tensor:
    """A sink a head: some as large as scores, one that is -inf and counts for nothing, one that outweighs all."""
    logits = 3.0 * torch.randn(problem.heads, generator=torch.Generator().manual_seed(seed))
    logits[::5] = float("-inf")
    logits[4::5] = 300.0
    return logits


SPARE = 2
"""Pages of the pool that belong to nobody."""


def paged(cache: torch.Tensor, lengths: list[int], page: int, order: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """A cache (B, G, N, D) as a pool (pages, page, G, D), and the pages of each sequence (B, most)."""
    counts = [-(-length // page) for length in lengths]
    pool = torch.zeros((sum(counts) + SPARE, page, cache.shape[1], cache.shape[3]), dtype=cache.dtype)
    table = torch.zeros((len(lengths), max(counts)), dtype=torch.int32)
    numbers = iter(order)
    for sequence, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        for place in range(count):
            number = next(numbers)
            keys = cache[sequence, :, place * page : min((place + 1) * page, length)]
            table[sequence, place] = number
            pool[number, : keys.shape[1]] = keys.transpose(0, 1)
    return pool, table
