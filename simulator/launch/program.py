"""What a kernel launch does, tile by tile: the single source of truth of engine and Triton launcher.

A `Launch` is one kernel launch: a grid of CTAs, its warps and stages, its resources, and a `TileProgram`.
A `TileProgram` is a small loop nest over *items*.
An item is one unit of work that a CTA takes up (for most kernels: the CTA's only one);
its variables (which head, which query tile, how many trips) come from `items(indices)`,
so that a grid of millions of CTAs costs nothing until somebody looks at it.
A `Step` of the nest loads tiles, works on them, stores tiles; a tile is a rectangle of a `Tensor`,
its origin an affine function of the item's variables and the loop counters, clipped at the tensor's edge.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Literal

import numpy as np

from ..dtypes import DTYPES, Dtype
from ..limits import WARP_THREADS
from .code import Code as Code
from .lists import Lists
from .resources import Figures as Figures
from .resources import Resources as Resources
from .traced import TracedCode

Path = Literal["plain", "uncached", "async", "cached", "tma", "atomic"]
THROUGH_L1 = frozenset({"plain", "cached"})
"""Paths on which L1 keeps what passes."""
ASYNCHRONOUS = frozenset({"async", "cached", "tma"})
"""Paths on which a loop may run ahead of itself."""
Affine = tuple[tuple[str, int], ...]


def affine(**coefficients: int) -> Affine:
    """Sum of coefficient times variable, e.g. `affine(q_tile=128)` is 128 * q_tile."""
    return tuple(coefficients.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A stack of row-major matrices in device memory, one per (batch, head).

    Args:
        name: as in the formulas: Q, K, V, S, P, O, LSE, ...
        role: input, output or scratch; scratch lives from its first write to its last use.
        slabs: number of matrices.
        rows: rows of each matrix.
        cols: elements of each row.
        dtype: element type.
        pitch_bytes: distance from row to row [B]; 0 means rows are packed.
        values: its bytes, where addresses and lengths of loops depend on them; None: they do not.
        storage: number of the storage that it is, in a launch of traced code; -1: it is none.
    """

    name: str
    role: Literal["input", "output", "scratch"]
    slabs: int
    rows: int
    cols: int
    dtype: Dtype
    pitch_bytes: int = 0
    values: bytes | None = field(default=None, repr=False)
    storage: int = -1

    def __post_init__(self) -> None:
        if self.pitch_bytes == 0:
            object.__setattr__(self, "pitch_bytes", self.cols * self.element_bytes)

    @property
    def element_bytes(self) -> int:
        """Size of an element [B]."""
        return self.dtype.size_bytes

    @property
    def pitch_elements(self) -> int:
        """Distance from row to row, in elements."""
        return self.pitch_bytes // self.element_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of one row that hold elements [B]."""
        return self.cols * self.element_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of device memory that the tensor takes [B]."""
        return self.slabs * self.rows * self.pitch_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One rectangle of a tensor, read or written as a whole by one CTA.

    Args:
        tensor: name of the tensor; slab: variable that holds the matrix's index.
        row: affine row of the origin; col: affine column of the origin (elements).
        rows, cols: extent before clipping at the tensor's edge.
        path: how a load travels: `plain` (ld.global) or `cached` (cp.async of less than 16 B a thread, which cannot
            do otherwise), both through L1; `uncached` (ld.global.cg, ld.volatile), `async` (cp.async) or `tma`, all
            past it; `atomic`: what an atomic gives back, past L1 too. A store by `atomic` adds to what is there.
        lists: where it is many pieces of that extent, their origins beyond (row, col).
        zero_bytes: that come with it by TMA as zeros, where the tile is what is left of a box at a tensor's edge.
        integers: are added to, without a wait for the sum before; part_fraction: share of sectors added to in part;
        passing: L2 drops it before all else.
    """

    tensor: str
    slab: str
    rows: int
    cols: int
    row: Affine = ()
    col: Affine = ()
    path: Path = "plain"
    lists: Lists | None = field(default=None, repr=False, compare=False)
    zero_bytes: float = 0
    integers: bool = False
    part_fraction: float = 0
    passing: bool = False

    @property
    def is_gathered(self) -> bool:
        """Whether items have lists of pieces of their own."""
        return self.lists is not None and not self.lists.shared

    @property
    def extents(self) -> int:
        """Pieces of a list that all items share; else 1."""
        return int(self.lists.spans[0, 1]) if self.lists is not None and self.lists.shared else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Matmul:
    """One tile product C[m, n] += A[m, k] B[k, n] of a CTA.

    Args:
        m, n, k: tile extents.
        a_source: where the warps take A from: `smem` or `registers`. B comes from shared memory.
    """

    m: int
    n: int
    k: int
    a_source: Literal["smem", "registers"] = "smem"

    @property
    def flop(self) -> int:
        """Multiplications and additions [FLOP]."""
        return 2 * self.m * self.n * self.k


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one CTA computes in one step; counts over all its threads, no rates.

    Args:
        matmuls: tile products, in order; each waits for what stands before it.
        exp_count: exponentials (and logarithms, reciprocals: the MUFU pipe).
        fma_flop: other FP32 floating-point operations, an FMA counting two (rescale, scale, sum) [FLOP].
        fma_count: FP32-pipe instructions they take, times lanes.
        alu_count: ALU-pipe lane operations (max, compare, select, convert, address).
        row_reductions: reductions over a tile row that need a shuffle tree (max, sum).
        smem_write_bytes, smem_read_bytes: exchange through shared memory between the CTA's warps, beyond operands [B].
        barriers: points where all warps of the CTA wait for each other.
    """

    matmuls: tuple[Matmul, ...] = ()
    exp_count: int = 0
    fma_flop: int = 0
    fma_count: int = 0
    alu_count: int = 0
    row_reductions: int = 0
    smem_write_bytes: int = 0
    smem_read_bytes: int = 0
    barriers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Loads, then work, then stores; in program order."""

    name: str
    loads: tuple[Tile, ...] = ()
    work: Work = Work()
    stores: tuple[Tile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """`for counter in first, first + step, ... (trips times): body`.

    Args:
        counter: name of the counter, usable in the affine origins of the body.
        first, step, trips: an integer, or the name of an item variable.
        stages: asynchronous loads of a one-step body run so many iterations deep (Triton's num_stages).
        body: steps and inner loops.
    """

    counter: str
    trips: int | str
    first: int | str = 0
    step: int | str = 1
    stages: int = 1
    body: tuple["Step | Loop", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TileProgram:
    """The loop nest that every item of a launch runs.

    Args:
        tensors: all tensors that the body names.
        variables: names of the item variables, the columns of `items`.
        items: function of item indices (int64, shape (n,)) to variables (int64, shape (n, len(variables))).
        item_count: number of items.
        period_items: items i and i + period do equal amounts of work, for every i; it divides item_count.
        body: steps and loops; none: an outline, whose nest is to be found in the kernel's machine code.
        sweep_items: number of consecutive items that read shared tensors; 0: those with the same slab do.
    """

    tensors: tuple[Tensor, ...]
    variables: tuple[str, ...]
    items: Callable[[np.ndarray], np.ndarray]
    item_count: int
    period_items: int
    body: tuple[Step | Loop, ...]
    sweep_items: int = 0

    def __post_init__(self) -> None:
        if self.item_count % self.period_items:
            raise ValueError(f"period_items = {self.period_items}: must divide item_count = {self.item_count}")

    def tensor(self, name: str) -> Tensor:
        """The tensor of that name. Raises: KeyError: there is none."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise KeyError(name)


DESCRIPTOR_BYTES = 128
"""Of the descriptor that Triton 3.6 has each CTA of a warp-specialised launch write to device memory, by which it
stores its tile (all 79 such launches of validate/data, seeds 0 to 8) [B]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel launch, as the engine simulates it and the Triton launcher runs it.

    Item i belongs to CTA i mod (number of CTAs); a grid smaller than the item count is a persistent grid.
    CTAs are numbered x fastest, as the hardware issues them.

    Args:
        name: name of the kernel.
        grid: CTAs along x, y, z.
        num_warps, num_stages: as in Triton.
        consumer_warps: warps among which the compiler divides the work of a warp-specialised launch, beside those
            that only load; 0: no warps are specialised, all that the launch asks for do both.
        program: what each item does.
        resources: registers and shared memory of a CTA.
        dtype: element type of the matmul operands: fp32, fp16, bf16 or fp8.
        warp_split: how warps divide a tile product: `q` (rows of A) or `k` (columns of B).
        constants: compile-time arguments of the kernel (block_m, block_n, head_dim, causal, ...).
        arguments: its run-time arguments but the tensors (seqlen_q, scale, ...).
        traced: how its program was found in its code, for each class of CTAs; empty: a schedule has written it.
    """

    name: str
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int
    consumer_warps: int = 0
    program: TileProgram
    resources: Resources
    dtype: str
    warp_split: Literal["q", "k"] = "q"
    constants: MappingProxyType[str, int | bool | str] = field(default_factory=lambda: MappingProxyType({}))
    arguments: MappingProxyType[str, int | float] = field(default_factory=lambda: MappingProxyType({}))
    traced: tuple[TracedCode, ...] = field(default=(), repr=False)

    @property
    def origin(self) -> Literal["schedule", "traced"]:
        """Where the program comes from: a schedule has written it, or it was found in machine code."""
        return "traced" if self.traced else "schedule"

    @property
    def kernel_arguments(self) -> MappingProxyType[str, int | float | bool | str]:
        """All arguments of the kernel but its tensors, by name."""
        return MappingProxyType({**self.arguments, **self.constants})

    @property
    def element_bytes(self) -> int:
        """Size of an element of the matmul operands [B]."""
        return DTYPES[self.dtype].size_bytes

    @property
    def cta_count(self) -> int:
        """CTAs of the grid."""
        return prod(self.grid)

    @property
    def workspace_bytes(self) -> int:
        """Device memory that the launch takes while it runs, beside its tensors [B]."""
        return DESCRIPTOR_BYTES * self.cta_count if self.consumer_warps else 0

    @property
    def compute_warps(self) -> int:
        """Warps of a CTA that compute."""
        return self.consumer_warps or self.num_warps

    @property
    def warps_per_cta(self) -> int:
        """Warps of a CTA: those asked for, and those that the compiler adds."""
        return self.resources.warps_per_cta or self.num_warps

    @property
    def threads_per_cta(self) -> int:
        """Threads of a CTA (`WARP_THREADS` a warp)."""
        return WARP_THREADS * self.warps_per_cta
