"""Matrix products of the vendor's library: tiles in waves on the tensor cores, or bytes.

A CTA multiplies a tile of the output; as many run at a time as there are SMs. A tile takes as long as its FLOP at the
clock that the power limit allows, or as its operands take from L2. The library's choice of a tile is taken to be the
fastest. Products too small to fill the GPU are split along K, and added up by a second kernel.
"""

from dataclasses import dataclass, replace
from math import ceil, inf, prod

from ...cost_model import KernelCostModel, memset
from ...operation import Operand, Operation
from ...priced import Kernels
from ..elementwise import contiguous

Shape = tuple[int, ...]
Tiles = tuple[tuple[int, int], ...]
LARGEST_TILE = 320 * 128
"""Elements of a tile: accumulators of two warp groups fill the registers (names of nvjet's kernels)."""
TILES: Tiles = (
    *(
        (tall, wide)
        for tall in (64, 128, 192, 256, 320, 384)
        for wide in (8, 16, 32, 64, 96, 112, 128, 160, 192, 200, 256)
        if tall * wide <= LARGEST_TILE
    ),
    (512, 64),
)
"""Tiles of nvjet's kernels, by their names: longer side, shorter side."""
TILED = "matmul.tiled_norm"
"""Norm of products, which load ahead but begin and end each tile."""
STEP = 64
"""Of K, that a tile loads at a time."""
SIMT_TILES = ((256, 128, 1), (128, 128, 2), (128, 64, 2), (64, 64, 1), (128, 32, 1), (64, 32, 1), (32, 32, 1))
"""Tiles of products without tensor cores, and how many of them an SM takes at a time: one alone takes as long. Kind:
measured, names of 24 products' kernels on one H100; how many is read off their times."""
SIMT_STEP = 8
"""Of K, that such tiles take whole. Source: names of the same kernels (`tilesize128x32x8`)."""
SIMT_SHORT = 16
"""Shorter side up to which products are of vectors. Kind: fitted, on one H100."""
PAIRS_TILES = ((128, 256), (256, 128))
"""Tiles of old kernels where all rows begin at multiples of 4 bytes, two elements a load, whole steps of K. Kind:
names of kernels."""
PAIR_BYTES = 4
UNALIGNED_SHORT = 256
"""Shorter side from which on tiles are of 128; both sides of up to two tiles of 32, one of them of one, have these.
Kind: measured, names of 14 products' kernels on one H100."""
ALIGNMENT_BYTES = 16
DEEP_K = 8192
"""K from which a product is split whose tiles of 64 x 64 fill at most half of the SMs; from SPLIT_K on, one of up to
eight rows, or whose tiles fill less than SPLIT_SHARE. Kind: measured, names of 60 products' kernels on one H100."""
SPLIT_K = 3072
SPLIT_SHARE = 0.45
LEAST_K, UNALIGNED_LEAST_K = 1024, 500
"""Of a piece of K; of one of old kernels. Kind: fitted, 64 x 768 x 3072 and 32 x 1024 x 4096, and 1024 x 1024 x 1001,
on one H100."""
RATES = {"bfloat16": "fp16", "float16": "fp16", "tf32": "tf32", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8"}
COMPLEX, COMPLEX_PRODUCTS = "complex64", 4
"""Numbers whose product is four of float32, without tensor cores."""
MULTIPLIED = frozenset(RATES) | {"float32", COMPLEX}
"""Types of operands whose products have a price."""
ADDED_TO = frozenset({"addmm", "_addmm_activation", "baddbmm", "addmv"})
"""Products whose first operand is added; an activation is done in the same kernel (`CUBLASLT_EPILOGUE_GELU_BIAS`)."""
COPYING = frozenset({"mm", "addmm", "bmm", "baddbmm"})
"""Products that copy operands whose rows and columns both lie scattered (`is_multiplied`)."""


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


def matmul(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Kernels of `mm`, `bmm`, `addmm`, `baddbmm`, `linear`, `mv`, `addmv`, `_addmm_activation` and `_scaled_mm`."""
    copies: Kernels = []
    inputs = list(operation.inputs)
    if operation.name in COPYING:
        for place in range(len(inputs))[1 if operation.name in ADDED_TO else 0 :][:2]:
            if not is_multiplied(inputs[place]):
                copy, inputs[place] = contiguous(inputs[place], place, gpu)
                copies += copy
    prepared = replace(operation, inputs=tuple(inputs))
    return [*copies, *multiplied(product_of(prepared), prepared.inputs, operation.outputs, gpu)]


def is_multiplied(matrices: Operand) -> bool:
    """Whether the library takes matrices as they lie: rows or columns of neighbours, no shorter a step apart than they.

    Others are copied. Source: `prepare_matrix_for_cublas`, `prepare_batch_matrix_for_cublas` in
    ATen/native/cuda/Blas.cpp, torch 2.11.
    """
    (rows, columns), (down, across) = matrices.shape[-2:], matrices.strides[-2:]
    by_rows, by_columns = across == 1 and down >= max(columns, 1), down == 1 and across >= max(rows, 1)
    return by_rows or by_columns or matrices.is_contiguous or (len(matrices.shape) == 2 and matrices.is_dense)


def product_of(operation: Operation) -> Product:
    """What an operation multiplies. Products of float32 are of TF32 where the code allows it (`tf32`)."""
    first = 1 if operation.name in ADDED_TO else 0
    left, right, *_ = operation.inputs[first:]
    output = operation.outputs[0]
    batch, m, n, k = _sizes(operation.name, left.shape, right.shape, output.shape)
    dtype = "tf32" if left.dtype == "float32" and operation.arguments.get("tf32") else left.dtype
    if dtype == COMPLEX:
        dtype, k = "float32", COMPLEX_PRODUCTS * k
    matrices = (left, right, output)
    aligned = all(is_aligned(matrix) for matrix in matrices)
    pairs = not aligned and all(is_aligned(matrix, PAIR_BYTES) for matrix in matrices)
    along_k = left.strides[-1] == 1 and right.strides[-1 if operation.name == "linear" else 0 if n == 1 else -2] == 1
    return Product(batch=batch, m=m, n=n, k=k, dtype=dtype, aligned=aligned, pairs=pairs, along_k=along_k)


def ctas_of(operation: Operation, gpu: KernelCostModel) -> int:
    """Tiles of the fastest kernel for an operation, K in one piece."""
    product = product_of(operation)
    return _fastest(product, _rate(product, gpu)[0], gpu)[1]


def _sizes(name: str, left: Shape, right: Shape, output: Shape) -> tuple[int, int, int, int]:
    """Batch, m, n and k of a product; groups of `_grouped_mm` are a batch of equal ones."""
    k = left[-1]
    if name == "linear":
        return 1, prod(left) // k, right[-2], k
    if name == "_grouped_mm" and len(left) == 2:
        groups = max(right[0] if len(right) == 3 else output[0], 1)
        if len(right) == 3:
            return groups, ceil(left[0] / groups), right[-1], k
        return groups, output[-2], output[-1], ceil(k / groups)
    m = left[-2] if len(left) > 1 else 1
    return prod(left[:-2]), m, right[-1] if len(right) > 1 else 1, k


def is_aligned(matrix: Operand, step_bytes: int = ALIGNMENT_BYTES) -> bool:
    """Whether its rows, or its columns where those lie together, begin at multiples of 16 bytes, or others."""
    steps = [stride for stride, size in zip(matrix.strides, matrix.shape, strict=True) if stride > 1 and size > 1]
    return all(
        stride * matrix.item_bytes % step_bytes == 0 for stride in (*steps, matrix.offset_bytes // matrix.item_bytes)
    )


def multiplied(
    product: Product,
    reads: tuple[Operand, ...],
    writes: tuple[Operand, ...],
    gpu: KernelCostModel,
) -> Kernels:
    """The kernels of a product: a memset where tiles are handed out one by one, the product, a sum of splits."""
    text = f"gemm {product.m}x{product.n}x{product.k}" + (f" x{product.batch}" if product.batch > 1 else "")
    long, short = max(product.m, product.n), min(product.m, product.n)
    is_old = product.dtype in RATES and not product.aligned and short > 1
    rate, note = _rate(product, gpu, is_old=is_old)
    time, ctas = _fastest(product, rate, gpu)
    splits = 1
    side = 128 if product.pairs else _unaligned_tile(long, short) if is_old else 64
    few = product.batch * ceil(long / side) * ceil(short / side)
    least = SPLIT_K if short <= 8 or few < SPLIT_SHARE * gpu.sms else DEEP_K
    if few <= gpu.sms // 2 and product.k >= least:
        tile, splits = (64, min(64, max(8, 1 << (short - 1).bit_length()))), min(gpu.sms // few, product.k // LEAST_K)
        time = _tile_s(tile, ceil(product.k / splits), product, rate, gpu)
    if is_old:
        splits = max(min(gpu.sms // few, product.k // UNALIGNED_LEAST_K), 1)
        time = _unaligned_s(product, side, splits, gpu)
    kernels = []
    handed_out = ctas > 2 * gpu.sms and product.aligned and product.dtype in RATES
    if handed_out and gpu.device.compute_capability == "9.0":
        kernels.append(memset(gpu))
    kernels.append(
        gpu.kernel(
            text,
            reads,
            writes,
            source="matmul",
            tensor_s=time,
            start_s=gpu.cost("matmul.start_s"),
            hbm_fraction=gpu.cost("matmul.stream_fraction"),
            overlap=TILED,
            note=note,
        )
    )
    if splits > 1:
        sums = 4.0 * splits * product.batch * product.m * product.n / gpu.device.l2_bytes_per_s
        kernels.append(gpu.kernel("splitKreduce", (), writes, source="matmul", l2_s=sums, chain=4))
    return kernels


def _tensor_peak(product: Product, gpu: KernelCostModel) -> float:
    """FLOP/s of an SM's tensor cores for operands of its type, at the clock that the power limit allows; 0: none."""
    kind = RATES[product.dtype]
    peak = max(getattr(gpu.device, f"{unit}_{kind}_flop_per_cycle") for unit in ("mma", "wgmma", "tcgen05"))
    return float(peak) * gpu.device.tensor_clock_hz


def _rate(product: Product, gpu: KernelCostModel, *, is_old: bool = False) -> tuple[float, str]:
    """FLOP/s of an SM for operands of its type, and what is guessed in it. Args: is_old: its time is not from there."""
    device = gpu.device
    if product.dtype in RATES and (peak := _tensor_peak(product, gpu)):
        if product.aligned:
            return peak, ""
        fraction = 1.0 if is_old else gpu.cost("matmul.unaligned_fraction")
        return fraction * peak, "rows do not begin at multiples of 16 bytes"
    return gpu.cost(
        "matmul.simt_fraction"
    ) * 2 * device.fma_per_cycle * device.boost_clock_hz, f"{product.dtype} without tensor cores"


def _unaligned_tile(long: int, short: int) -> int:
    """Side of the tiles of an old kernel."""
    return 128 if short >= UNALIGNED_SHORT else 32 if short <= 32 and long <= 64 else 64


def _unaligned_s(product: Product, side: int, splits: int, gpu: KernelCostModel) -> float:
    """Time of an old kernel: elements of its tiles, operands for each step and results, or tensor cores [s]."""
    tiles = PAIRS_TILES if product.pairs else ((side, side),)
    along = "_along_k" if product.along_k else ""
    instructions = gpu.cost(f"matmul.{'pairs' if product.pairs else f'unaligned_{side}{along}'}_instructions")
    k = STEP * ceil(product.k / STEP) if product.pairs else product.k
    tried = []
    for rows, columns in tiles:
        down, across = ceil(product.m / rows), ceil(product.n / columns)
        loaded = (product.m * across + product.n * down) * k
        issued = instructions * product.batch * (loaded + splits * product.m * product.n)
        tried.append(gpu.issue_s(issued / min(product.batch * down * across * splits / gpu.sms, 1.0)))
    flop_per_s = gpu.sms * (_tensor_peak(product, gpu) or inf)
    return max(min(tried), 2.0 * product.batch * product.m * product.n * product.k / flop_per_s)


def _fastest(product: Product, rate: float, gpu: KernelCostModel) -> tuple[float, int]:
    """Time and CTAs of the fastest of all tiles."""
    long, short = max(product.m, product.n), min(product.m, product.n)
    if product.dtype not in RATES and short > SIMT_SHORT:
        return _fastest_simt(product, gpu)
    tried = [(inf, 1)]
    if product.dtype not in RATES and short > 1:
        tried = [_fastest_simt(product, gpu)]
    for tall, wide in TILES:
        if (wide > 16 and wide >= 2 * short) or (tall > 64 and tall >= 2 * long):
            continue
        for rows, columns in {(tall, wide), (wide, tall)}:
            ctas = product.batch * ceil(product.m / rows) * ceil(product.n / columns)
            waves = _waves(ctas, gpu)
            time = waves * _tile_s((tall, wide), product.k, product, rate, gpu) + (waves - 1) * gpu.cost(
                "matmul.tile_s"
            )
            tried.append((time, ctas))
    return min(tried)


def _fastest_simt(product: Product, gpu: KernelCostModel) -> tuple[float, int]:
    """Time and CTAs of the fastest tiles without tensor cores."""
    tried = []
    for tall, wide, together in SIMT_TILES:
        for rows, columns in {(tall, wide), (wide, tall)}:
            ctas = product.batch * ceil(product.m / rows) * ceil(product.n / columns)
            waves = together * ceil(ctas / (gpu.sms * together))
            tried.append((waves * _simt_tile_s((rows, columns), product.k, gpu), ctas))
    return min(tried)


def _simt_tile_s(tile: tuple[int, int], depth: int, gpu: KernelCostModel) -> float:
    """A tile without tensor cores: multiplications and operands of each step, and results [s]."""
    rows, columns = tile
    cycles = (
        SIMT_STEP
        * ceil(depth / SIMT_STEP)
        * (rows * columns / gpu.device.fma_per_cycle + gpu.cost("matmul.simt_operand_cycles") * (rows + columns))
    )
    return gpu.cycles_s(cycles) + 4.0 * rows * columns / (gpu.hbm_bytes_per_s / gpu.sms)


def walked_s(product: Product, tile: tuple[int, int], gpu: KernelCostModel) -> tuple[float, str]:
    """Time of a product in tiles of so many rows and columns [s], and what is guessed in it."""
    rows, columns = tile
    rate, note = _rate(product, gpu)
    ctas = product.batch * ceil(product.m / rows) * ceil(product.n / columns)
    sides = (max(tile), min(tile))
    return _waves(ctas, gpu) * (_tile_s(sides, product.k, product, rate, gpu) + gpu.cost("matmul.tile_s")), note


def _waves(ctas: int, gpu: KernelCostModel) -> int:
    return ceil(ctas / gpu.sms)


def _tile_s(tile: tuple[int, int], depth: int, product: Product, rate: float, gpu: KernelCostModel) -> float:
    """A tile: its FLOP, or its operands, half of the longer side from L2 to each of a pair [s]."""
    tall, wide = tile
    item = {"fp8": 1, "fp16": 2}.get(RATES.get(product.dtype, ""), 4)
    sent = (tall / 2 + wide) * depth * item / (gpu.device.l2_bytes_per_s / gpu.sms)
    taken = gpu.cycles_s((tall + wide) * depth * item / gpu.device.sm_fill_bytes_per_cycle)
    stepped = gpu.cycles_s(gpu.cost("matmul.step_cycles") * depth / STEP)
    begun = 0.0 if product.dtype in RATES else gpu.cost("matmul.simt_tile_s")
    return max(2.0 * tall * wide * depth / rate, sent, taken, stepped) + begun
