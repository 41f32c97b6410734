"""Tiles of attention: the arithmetic that schedules share, so that each is written once."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import e, log2

import numpy as np

from ..device.device import Device
from ..dtypes import DTYPES, Dtype
from ..integers import cdiv, next_power_of_two
from ..launch.program import Launch, Loop, Resources, Step, Tensor, Tile, TileProgram, affine
from ..limits import TMA_BLOCK, TMA_CAPABILITY, TMA_STRIDE_BYTES, WARP_THREADS
from ..problems.attention import AttentionProblem
from ..problems.pages import Numbers, pages_of
from ..problems.softmax import SoftmaxProblem
from .contract import frozen

RowProblem = AttentionProblem | SoftmaxProblem
"""Problems of B * H matrices of M rows and N columns."""
NARROW_HEAD = 64
"""Dimensions of a head up to which tiles of 128 rows fit the registers of four warps."""
LOG2_E = log2(e)
"""Exponentials are powers of two: exp(x) = 2^(x log2 e)."""
FP8_P_LOG2 = 8
"""P is rounded to fp8 (e4m3) times 2^8: the largest are 256 of 448, and those above 2^-18 are not yet 0."""
STATISTIC = DTYPES["fp32"]
"""Type of a row's running maximum, sum or log-sum-exp."""
STATISTIC_BYTES = STATISTIC.size_bytes
SCORE_PITCH_BYTES = 128
"""Rows of score-shaped tensors start at multiples of a line, so that their tiles do [B]."""
ROW_TILE_ELEMENTS = 4096
"""Elements of short rows that a CTA of a row-wise kernel takes."""
THREAD_ELEMENTS = 16
"""Elements that a thread of it takes, up to 16 warps: with two 16-byte vectors a thread its 32 registers let an SM be
full. On an H200 the softmax then keeps 97 % of a copy's bandwidth, and 88 % with twice as many elements."""
ROW_BLOCK_ELEMENTS = 4096
"""Elements of a row too long for registers that a CTA holds at a time."""
LONGEST_REGISTER_ROW = 16384
"""Elements of the longest row, padded to a power of two, that one CTA holds in registers."""
STRIP_KEYS = 2048
"""Keys that one CTA takes of a row of score tiles at most."""
LEAST_CTAS = 512
"""CTAs below which strips of score tiles get shorter: about four for each SM of a large GPU."""


def suited_to_wide_heads(problem: AttentionProblem, device: Device) -> dict[str, int]:
    """Defaults for heads wider than `NARROW_HEAD`: four warps would spill the sums of a tile of 128 rows.

    Groups of four warps multiply tiles of 64 rows (wgmma, tcgen05); elsewhere twice the warps hold the sums.

    Source: `kernels.flash2.RECOMMENDED` (docs/kernel-speed.md); predictions for A100.
    """
    if problem.head_dim <= NARROW_HEAD:
        return {}
    grouped = device.wgmma_fp16_flop_per_cycle or device.tcgen05_fp16_flop_per_cycle
    return {"block_m": 64} if grouped else {"num_warps": 8}


def padded_head_dim(problem: AttentionProblem) -> int:
    """Head dim as Triton tiles it: the next power of two."""
    return next_power_of_two(problem.head_dim)


def query_tensor(problem: AttentionProblem, name: str = "Q", role: str = "input") -> Tensor:
    """A tensor of B * H slabs of M rows: Q of D columns, or O of those of V with its role."""
    return Tensor(
        name=name,
        role=role,  # type: ignore[arg-type]
        slabs=problem.batch * problem.heads,
        rows=problem.seqlen_q,
        cols=problem.value_dim if name == "O" else problem.head_dim,
        dtype=problem.element if role == "input" else DTYPES[problem.output_dtype],
    )


def key_tensor(problem: AttentionProblem, name: str) -> Tensor:
    """A tensor of B * G slabs of N rows: K, or V."""
    return Tensor(
        name=name,
        role="input",
        slabs=problem.batch * problem.kv_heads,
        rows=problem.seqlen_k,
        cols=problem.value_dim if name == "V" else problem.head_dim,
        dtype=problem.element,
    )


def statistic_tensor(problem: AttentionProblem, name: str, role: str = "output") -> Tensor:
    """One fp32 number per query row: LSE, or a running maximum or sum."""
    return Tensor(
        name=name,
        role=role,  # type: ignore[arg-type]
        slabs=problem.batch * problem.heads,
        rows=problem.seqlen_q,
        cols=1,
        dtype=STATISTIC,
    )


def sink_tensors(problem: AttentionProblem) -> tuple[Tensor, ...]:
    """SINKS (H, 1), one fp32 logit a query head, where the problem has them."""
    sinks = Tensor(name="SINKS", role="input", slabs=1, rows=problem.heads, cols=1, dtype=STATISTIC)
    return (sinks,) if problem.sinks else ()


def score_arguments(problem: AttentionProblem) -> dict[str, float]:
    """Run-time arguments of kernels that cap scores: the cap, where the problem has one."""
    return {"softcap": problem.softcap} if problem.softcap else {}


def score_tensor(
    problem: RowProblem, name: str, role: str = "scratch", *, slabs: int = 0, dtype: Dtype | None = None
) -> Tensor:
    """A tensor of M x N slabs whose rows start at line boundaries: S, P, or a mask.

    Args:
        slabs: number of matrices; 0 means one per query head.
        dtype: element type; None means that of Q.
    """
    element = dtype or problem.element
    return Tensor(
        name=name,
        role=role,  # type: ignore[arg-type]
        slabs=slabs or problem.batch * problem.heads,
        rows=problem.seqlen_q,
        cols=problem.seqlen_k,
        dtype=element,
        pitch_bytes=cdiv(problem.seqlen_k * element.size_bytes, SCORE_PITCH_BYTES) * SCORE_PITCH_BYTES,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTiling:
    """How a row-wise kernel (softmax, scale, mask, dropout) cuts M x N matrices.

    Args:
        rows, cols: extent of the tile that a CTA holds in registers; powers of two.
        blocks: tiles side by side in one row; more than one only for rows too long for registers.
        num_warps: warps of a CTA.
    """

    rows: int
    cols: int
    blocks: int
    num_warps: int

    @property
    def elements(self) -> int:
        """Elements of a tile, padding included."""
        return self.rows * self.cols


def row_tiling(problem: RowProblem) -> RowTiling:
    """Whole rows, several where they are short; column blocks of one row where it is too long for registers."""
    width = next_power_of_two(problem.seqlen_k)
    if width > LONGEST_REGISTER_ROW:
        rows, cols = 1, ROW_BLOCK_ELEMENTS
    else:
        rows, cols = max(1, ROW_TILE_ELEMENTS // width), width
    elements = rows * cols
    num_warps = min(16, elements // THREAD_ELEMENTS // WARP_THREADS)
    return RowTiling(rows=rows, cols=cols, blocks=cdiv(problem.seqlen_k, cols), num_warps=num_warps)


def row_tile(name: str, tiling: RowTiling, counter: str = "k_tile", slab: str = "slab") -> Tile:
    """The tile of a row-wise kernel. Args: name: of the tensor; counter: what counts the blocks of a row; slab."""
    return Tile(
        tensor=name,
        slab=slab,
        row=affine(q_tile=tiling.rows),
        col=affine(**{counter: tiling.cols}),
        rows=tiling.rows,
        cols=tiling.cols,
    )


def copied_by_tma(device: Device, tensor: Tensor, rows: int, cols: int) -> bool:
    """Whether a device has the engine that copies whole tiles, and a tensor has the form it needs.

    Args:
        rows, cols: of a tile.
    """
    capable = float(device.compute_capability) >= TMA_CAPABILITY
    return capable and tensor.pitch_bytes % TMA_STRIDE_BYTES == 0 and max(rows, cols) <= TMA_BLOCK


def strip_tiles(problem: AttentionProblem, block_m: int, block_n: int) -> int:
    """Key tiles that a CTA takes one after the other with one query tile; a power of two.

    Long strips load Q seldom and hide latencies; they are halved while too few CTAs would be left.
    """
    k_tiles = cdiv(problem.seqlen_k, block_n)
    tiles = max(1, min(STRIP_KEYS // block_n, next_power_of_two(k_tiles)))
    strips = problem.batch * problem.heads * cdiv(problem.seqlen_q, block_m)
    while tiles > 1 and strips * cdiv(k_tiles, tiles) < LEAST_CTAS:
        tiles //= 2
    return tiles


TILE_VARIABLES = ("slab", "kv_slab", "shared_slab", "q_tile", "k_tile", "inner_tiles")
"""Item variables of `tile_items`; shared_slab is 0, the only slab of a matrix that all heads share."""


def tile_items(problem: RowProblem, rows: int, cols: int, inner: int, indices: np.ndarray) -> np.ndarray:
    """Items that are the tiles of all M x N score matrices: key tiles fastest, then query tiles, then slabs.

    Args:
        rows, cols: extent of a tile; cols = N makes an item of a whole strip of rows.
        inner: columns of the tiles that an item takes one after the other; inner_tiles counts them.
        indices: items, int64 of shape (n,).

    Returns:
        Columns `TILE_VARIABLES`, int64 of shape (n, 6).
    """
    q_tiles, k_tiles = cdiv(problem.seqlen_q, rows), cdiv(problem.seqlen_k, cols)
    strip, k_tile = indices // k_tiles, indices % k_tiles
    slab, q_tile = strip // q_tiles, strip % q_tiles
    inner_tiles = -(-np.minimum(cols, problem.seqlen_k - k_tile * cols) // inner)
    return np.stack((slab, slab // problem.head_group, np.zeros_like(slab), q_tile, k_tile, inner_tiles), axis=1)


def tile_period(problem: RowProblem, rows: int, cols: int) -> int:
    """Smallest period of `tile_items`: only ragged tiles differ from the others."""
    q_tiles, k_tiles = cdiv(problem.seqlen_q, rows), cdiv(problem.seqlen_k, cols)
    if problem.seqlen_q % rows and q_tiles > 1:
        return q_tiles * k_tiles
    return k_tiles if problem.seqlen_k % cols else 1


def tile_program(
    problem: RowProblem,
    tile: tuple[int, int],
    tensors: tuple[Tensor, ...],
    body: tuple[Step | Loop, ...],
    inner: int = 0,
) -> TileProgram:
    """A program of `tile_items`. Args: tile: rows and columns of an item; inner: of the tiles in turn, 0: one."""
    rows, cols = tile
    return TileProgram(
        tensors=tensors,
        variables=TILE_VARIABLES,
        items=partial(tile_items, problem, rows, cols, inner or cols),
        item_count=problem.batch * problem.heads * cdiv(problem.seqlen_q, rows) * cdiv(problem.seqlen_k, cols),
        period_items=tile_period(problem, rows, cols),
        body=body,
    )


def tile_launch(
    name: str,
    problem: RowProblem,
    program: TileProgram,
    *,
    num_warps: int,
    resources: Resources,
    num_stages: int = 1,
    arguments: Mapping[str, int | float] | None = None,
    **constants: int | bool,
) -> Launch:
    """A launch with one CTA for each item. Args: arguments: beside the two lengths; the rest as in `Launch`."""
    return Launch(
        name=name,
        grid=(program.item_count, 1, 1),
        num_warps=num_warps,
        num_stages=num_stages,
        program=program,
        resources=resources,
        dtype=problem.dtype,
        constants=frozen(**constants),
        arguments=frozen(seqlen_q=problem.seqlen_q, seqlen_k=problem.seqlen_k, **arguments or {}),
    )


def product_constants(problem: AttentionProblem, block_m: int, block_n: int) -> dict[str, int | bool]:
    """Compile-time arguments that kernels of tile products share."""
    return {
        "block_m": block_m,
        "block_n": block_n,
        "head_dim": problem.head_dim,
        "padded_dim": padded_head_dim(problem),
        "head_group": problem.head_group,
        "whole_m": problem.seqlen_q % block_m == 0,
        "whole_n": problem.seqlen_k % block_n == 0,
    }


def cache_tensors(problem: AttentionProblem, names: str = "KV", splits: tuple[int, ...] = ()) -> tuple[Tensor, ...]:
    """K, V, and TABLE where sequences have pages or lengths of their own.

    In pages K and V are (pages, page, G, D), as vLLM keeps them; else (B, G, N, D).
    TABLE (B, 1 + most pages) int32 has the keys of each sequence, and then its pages; before them its splits, if any.

    Args:
        names: a letter for each tensor of the cache; splits: of each sequence, where they have their own.
    """
    kv_slabs, rows = problem.batch * problem.kv_heads, problem.seqlen_k
    if problem.page:
        kv_slabs = 1 + max(int(numbers.max()) for numbers in _pages(problem))
        rows = problem.page * problem.kv_heads
    tensors = tuple(
        Tensor(name=name, role="input", slabs=kv_slabs, rows=rows, cols=problem.head_dim, dtype=problem.kv_element)
        for name in names
    )
    return (*tensors, _table(problem, splits)) if problem.page or problem.lengths else tensors


def _table(problem: AttentionProblem, splits: tuple[int, ...]) -> Tensor:
    pages = _pages(problem) if problem.page else ()
    table = np.zeros((problem.batch, 1 + max(map(len, pages), default=0)), dtype=np.int32)
    table[:, 0] = problem.key_lengths
    for row, numbers in zip(table, pages, strict=False):
        row[1 : 1 + len(numbers)] = numbers
    if splits:
        table = np.column_stack([np.array(splits, dtype=np.int32), table])
    return Tensor(
        name="TABLE",
        role="input",
        slabs=1,
        rows=table.shape[0],
        cols=table.shape[1],
        dtype=DTYPES["i32"],
        values=table.tobytes(),
    )


def _pages(problem: AttentionProblem) -> tuple[Numbers, ...]:
    return pages_of(problem.page_order, problem.key_lengths, problem.page)
