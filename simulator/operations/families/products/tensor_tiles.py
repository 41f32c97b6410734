"""How the vendor's library multiplies on tensor cores: its tiles' time, CTAs, pieces of K.

A CTA multiplies a tile of the output; as many run at a time as there are SMs. A tile takes as long as its FLOP, as its
operands from L2 or as its steps along K, then begins and ends, and writes its results. Where tiles are few, K is split
among CTAs, and a second kernel adds up. The library takes what is fastest by an estimate that has all operands come
from HBM. These rules hold on all GPUs; rates and times are of an architecture (`matmul` in `device/torch_kernels`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf

from ...cost_model import KernelCostModel

Tiles = tuple[tuple[int, int], ...]
RATES = {"bfloat16": "fp16", "float16": "fp16", "tf32": "tf32", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8"}
TILED = "matmul.tiled_norm"
"""Norm of products, which load ahead but begin and end each tile."""
LARGEST_TILE = 320 * 128
"""Elements of a tile: accumulators of two warp groups fill the registers (names of nvjet's kernels)."""
NVJET_TILES: Tiles = (
    *(
        (tall, wide)
        for tall in (64, 128, 192, 256, 320, 384)
        for wide in (8, 16, 32, 64, 96, 112, 128, 160, 192, 200, 256)
        if tall * wide <= LARGEST_TILE
    ),
    (512, 64),
)
"""Tiles of nvjet's kernels (wgmma, tcgen05), by their names: longer side, shorter side."""
PAIR_TILE = (256, 256)
"""Of a pair of SMs of tcgen05."""
CUTLASS_TILES: Tiles = ((256, 128), (256, 64), (128, 128), (128, 64), (64, 64), (64, 32))
"""Tiles of kernels for mma.sync, by their names (`ampere_bf16_s16816gemm_bf16_128x64`, `cutlass_80_tensorop`)."""
STEP = 64
"""Of K, that a tile of two bytes an element loads at a time."""
HALF_STEP = 32
PIECES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)
LEAST_PIECE = 128
"""Of K, in each of several pieces."""
WHOLE_K = 8192
"""K up to which products of few multiplications are not split (`matmul.whole_products`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A batch of matrix products, [m, k] times [k, n].

    Args:
        aligned: rows of all matrices begin at multiples of 16 bytes; pairs: of 4, not of 16;
        along_k: K is innermost in both operands.
    """

    batch: int
    m: int
    n: int
    k: int
    dtype: str
    aligned: bool = True
    pairs: bool = False
    along_k: bool = False

    @property
    def sides(self) -> tuple[int, int]:
        """The longer of m and n, and the shorter."""
        return max(self.m, self.n), min(self.m, self.n)

    @property
    def item_bytes(self) -> int:
        """Size of an element of the operands [B]."""
        return {"fp8": 1, "fp16": 2}.get(RATES.get(self.dtype, ""), 4)

    @property
    def multiplications(self) -> int:
        """Of a product that may be too small to be split along K; 0: K is too long, or it is of vectors."""
        return self.batch * self.m * self.n * self.k if min(self.m, self.n) > 1 and self.k <= WHOLE_K else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the library runs. Args: time_s: of its tiles; ctas: tiles, K in one piece; pieces: of K."""

    time_s: float
    ctas: int
    pieces: int


def fastest(product: Product, rate: float, gpu: KernelCostModel) -> Choice:
    """The fastest of all tiles and pieces. Args: rate: of an SM's tensor cores [FLOP/s]."""
    norm = gpu.cost(TILED)
    size = product.item_bytes * product.k * (product.m + product.n) + 2.0 * product.m * product.n
    cold_s = product.batch * size / (gpu.hbm_bytes_per_s * gpu.cost("matmul.stream_fraction"))
    whole = 0 < product.multiplications < gpu.cost("matmul.whole_products")
    tile_s = TileCost(product, rate, gpu, serial=whole)
    best, least_s = Choice(time_s=inf, ctas=1, pieces=1), inf
    for rows, columns in _tiles(product, gpu):
        ctas = product.batch * ceil(product.m / rows) * ceil(product.n / columns)
        for pieces in PIECES:
            if pieces > 1 and (ctas > gpu.sms or whole or product.k < pieces * LEAST_PIECE):
                break
            depth = HALF_STEP * ceil(product.k / pieces / HALF_STEP)
            time_s = ceil(ctas * pieces / gpu.sms) * tile_s(rows, columns, depth)
            total_s = (time_s**norm + cold_s**norm) ** (1.0 / norm)
            total_s += added_s(product, pieces, gpu) if pieces > 1 else 0.0
            if total_s < least_s:
                best, least_s = Choice(time_s=time_s, ctas=ctas, pieces=pieces), total_s
    return best


def sums_s(product: Product, pieces: int, gpu: KernelCostModel) -> float:
    """L2's time for the pieces' sums [s]."""
    return 4.0 * pieces * product.batch * product.m * product.n / gpu.device.l2_bytes_per_s


def added_s(product: Product, pieces: int, gpu: KernelCostModel) -> float:
    """A kernel that adds up [s]; the gap before it is not seen where kernels are timed alone."""
    chain_s = gpu.chain_s(4, 0.0)
    return gpu.cost("kernel.empty_s") + chain_s + sums_s(product, pieces, gpu)


def _tiles(product: Product, gpu: KernelCostModel) -> Iterator[tuple[int, int]]:
    """Rows and columns of the tiles that there are for a product, none much larger than it."""
    device = gpu.device
    tiles = NVJET_TILES if device.wgmma_fp16_flop_per_cycle or device.tcgen05_fp16_flop_per_cycle else CUTLASS_TILES
    if device.tcgen05_fp16_flop_per_cycle:
        tiles = (*tiles, PAIR_TILE)
    narrowest = min(wide for _, wide in tiles)
    long, short = product.sides
    for tall, wide in tiles:
        if (wide > max(narrowest, 16) and wide >= 2 * short) or (tall > 64 and tall >= 2 * long):
            continue
        yield from {(tall, wide), (wide, tall)}


class TileCost:
    """Time of a tile on one of the SMs, all of which are busy.

    Args:
        rate: of an SM's tensor cores [FLOP/s]; serial: whether each step waits for its operands.
        kind: what keys of its numbers begin with.
    """

    def __init__(
        self, product: Product, rate: float, gpu: KernelCostModel, *, serial: bool = False, kind: str = ""
    ) -> None:
        self.product, self.rate = product, rate
        step = "serial_step_cycles" if serial else "step_cycles"
        # A step holds 128 bytes of K.
        self.deep_s = gpu.cycles_s(gpu.cost(f"matmul.{kind}{step}")) * product.item_bytes / (2 * STEP)
        self.sent_per_s = gpu.device.l2_bytes_per_s * gpu.cost(f"matmul.{kind}l2_factor") / gpu.sms
        self.shared = gpu.cost("matmul.shared_loads")
        self.written_s = gpu.cycles_s(2.0 / gpu.cost(f"matmul.{kind}written_bytes_per_cycle"))
        self.begun_s = gpu.cost(f"matmul.{kind}tile_s")

    def __call__(self, rows: int, columns: int, depth: float) -> float:
        """A tile, by its rows, its columns and its depth along K [s]."""
        long, short = self.product.sides
        tall, wide = min(max(rows, columns), long), min(min(rows, columns), short)
        return self.loading(rows, columns, depth, tall / self.shared + wide)

    def loading(self, rows: int, columns: int, depth: float, lines: float) -> float:
        """The same of a tile, by the lines that it loads along K [s]."""
        sent = lines * depth * self.product.item_bytes / self.sent_per_s
        return (
            max(2.0 * rows * columns * depth / self.rate, sent, depth * self.deep_s)
            + self.begun_s
            + rows * columns * self.written_s
        )
