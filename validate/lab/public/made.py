"""Tensors of cases: random values, or none on `meta`; whole numbers that addresses depend on always have theirs."""

import torch

ROUTED = [900, 300, 1500, 10, 2200, 512, 1024, 700, 128, 64, 1800, 1111, 0, 430, 999, 1106]
"""Tokens of each of sixteen experts, one of which has none."""


def bf16(device: str, *shape: int, grad: bool = False) -> torch.Tensor:
    """Normal values in bfloat16."""
    return torch.randn(shape, device=device, dtype=torch.bfloat16, requires_grad=grad)


def fp16(device: str, *shape: int, grad: bool = False) -> torch.Tensor:
    """Normal values in float16."""
    return torch.randn(shape, device=device, dtype=torch.float16, requires_grad=grad)


def fp32(device: str, *shape: int, grad: bool = False) -> torch.Tensor:
    """Normal values in float32."""
    return torch.randn(shape, device=device, requires_grad=grad)


def fp8(device: str, *shape: int) -> torch.Tensor:
    """Normal values in float8, e4m3."""
    return torch.randn(shape, device=device, dtype=torch.bfloat16).to(torch.float8_e4m3fn)


def int8(device: str, *shape: int) -> torch.Tensor:
    """Bytes; on `meta` without values, as they are data."""
    return torch.randint(-128, 127, shape, device=device, dtype=torch.int8)


def words(device: str, *shape: int) -> torch.Tensor:
    """Packed weights: 32 random bits."""
    return torch.randint(-(2**31), 2**31 - 1, shape, device=device, dtype=torch.int32)


def given(device: str, tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose values decide addresses: on the CPU for a prediction, on the GPU for a run."""
    return tensor if device == "meta" else tensor.to(device)


def seeded(high: int, *shape: int, seed: int = 0, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Whole numbers below `high`, the same everywhere."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, high, shape, generator=generator, dtype=dtype)


def permuted(size: int, *shape: int, seed: int = 0, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """The numbers below `size` in an order that is the same everywhere, as a table of a shape."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(size, generator=generator).to(dtype).reshape(shape)


def some_of(most: int, count: int, rows: int, seed: int = 0) -> torch.Tensor:
    """For each of some rows `count` of the numbers below `most`, in order, none twice, the same everywhere."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(rows, most, generator=generator).argsort(1)[:, :count].sort(1).values.to(torch.int32)


def routes(device: str, tokens: int, top: int, experts: int, seed: int = 0) -> list[torch.Tensor]:
    """Routes of tokens to experts, the same everywhere: in their experts' order; where each one's begin and end."""
    chosen = seeded(experts, tokens * top, seed=seed)
    ends = torch.bincount(chosen, minlength=experts).cumsum(0)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), ends[:-1]])
    return [given(device, table) for table in (chosen.argsort(stable=True), starts, ends)]


def pooled(device: str, seed: int) -> list[torch.Tensor]:
    """Points of a camera, by the cell of a map of 180 x 180 that they fall into: cells, where each begins, how many."""
    lengths = seeded(24, 40000, seed=seed, dtype=torch.int32) + 1
    starts = lengths.cumsum(0, dtype=torch.int32) - lengths
    cells = permuted(180 * 180 * 2, 180 * 180 * 2, seed=seed + 1)[:40000]
    place = torch.stack([cells % 180, cells // 180 % 180, torch.zeros_like(cells), cells // 32400], 1)
    return [given(device, table) for table in (place.repeat_interleave(lengths, 0).contiguous(), starts, lengths)]


def bounds(lengths: list[int], dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """Where sequences of given lengths begin, and where the last ends."""
    return torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=dtype)


def adapters(device: str, tokens: int, count: int) -> list[torch.Tensor]:
    """How vllm tells of adapters: of each token, tokens by adapter, how many, where they begin, and which there are."""
    own = seeded(count, tokens, seed=147, dtype=torch.int32)
    sizes = torch.bincount(own, minlength=count + 1)
    tables = own, own.argsort(stable=True), sizes, bounds(sizes.tolist()), torch.arange(count + 1)
    moved = [given(device, table.to(torch.int32)) for table in tables]
    return [*moved, torch.tensor([False]), torch.tensor([count], dtype=torch.int32)]


def backward(out: torch.Tensor, *inputs: torch.Tensor) -> object:
    """Gradients of the inputs of a function that gave `out`; that of `out` has values, which kernels may branch on."""
    return torch.autograd.grad(out, inputs, torch.randn_like(out))
