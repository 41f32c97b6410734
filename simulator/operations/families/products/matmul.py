"""Matrix products of the vendor's library: on tensor cores (`tensor_tiles`), by old kernels, or without them."""

from dataclasses import replace
from math import ceil, inf, prod

from ...cost_model import KernelCostModel, memset
from ...operation import Operand, Operation
from ...priced import Kernels
from ..elementwise import contiguous
from .tensor_tiles import NVJET_TILES, RATES, STEP, TILED, Product, TileCost, fastest, sums_s

Shape = tuple[int, ...]
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
"""K from which a product without tensor cores is split whose tiles of 64 x 64 fill at most half of the SMs; from
SPLIT_K on, one of up to eight rows, or whose tiles fill less than SPLIT_SHARE. Kind: assumed, as products of bf16."""
SPLIT_K = 3072
SPLIT_SHARE = 0.45
LEAST_K, UNALIGNED_LEAST_K = 1024, 500
"""Of a piece of K; of one of old kernels. Kind: fitted, 64 x 768 x 3072 and 32 x 1024 x 4096, and 1024 x 1024 x 1001,
on one H100."""
COMPLEX, COMPLEX_PRODUCTS = "complex64", 4
"""Numbers whose product is four of float32, without tensor cores."""
MULTIPLIED = frozenset(RATES) | {"float32", COMPLEX}
"""Types of operands whose products have a price."""
ADDED_TO = frozenset({"addmm", "_addmm_activation", "baddbmm", "addmv"})
"""Products whose first operand is added; an activation is done in the same kernel (`CUBLASLT_EPILOGUE_GELU_BIAS`)."""
COPYING = frozenset({"mm", "addmm", "bmm", "baddbmm"})
"""Products that copy operands whose rows and columns both lie scattered (`is_multiplied`)."""


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
    return fastest(product, _rate(product, gpu)[0], gpu).ctas


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
    if is_old:
        side = 128 if product.pairs else _unaligned_tile(long, short)
        ctas = product.batch * ceil(long / side) * ceil(short / side)
        splits = max(min(gpu.sms // ctas, product.k // UNALIGNED_LEAST_K), 1)
        time = _unaligned_s(product, side, splits, gpu)
    elif product.dtype in RATES:
        choice = fastest(product, rate, gpu)
        time, ctas, splits = choice.time_s, choice.ctas, choice.pieces
    else:
        time, ctas, splits = _without_tensor_cores(product, rate, gpu)
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
            start_s=gpu.cost("matmul.tensor_start_s" if product.dtype in RATES and not is_old else "matmul.start_s"),
            hbm_fraction=gpu.cost("matmul.stream_fraction"),
            overlap=TILED,
            note=note,
        )
    )
    if splits > 1:
        sums = sums_s(product, splits, gpu)
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
            clock_hz = min(gpu.cost("matmul.lasting_factor") * device.tensor_clock_hz, device.tensor_boost_clock_hz)
            return peak * clock_hz / device.tensor_clock_hz, ""
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


def _without_tensor_cores(product: Product, rate: float, gpu: KernelCostModel) -> tuple[float, int, int]:
    """Time, CTAs and pieces of K of the fastest tiles; vectors are multiplied at a rate."""
    long, short = product.sides
    few = product.batch * ceil(long / 64) * ceil(short / 64)
    least = SPLIT_K if short <= 8 or few < SPLIT_SHARE * gpu.sms else DEEP_K
    if few <= gpu.sms // 2 and product.k >= least:
        splits = min(gpu.sms // few, product.k // LEAST_K)
        tile = (64, min(64, max(8, 1 << (short - 1).bit_length())))
        return _vector_tile_s(tile, ceil(product.k / splits), rate, gpu), few, splits
    if short > SIMT_SHORT:
        return (*_fastest_simt(product, gpu), 1)
    tried = [_fastest_simt(product, gpu)] if short > 1 else []
    for tall, wide in NVJET_TILES:
        if wide > 16 or (tall > 64 and tall >= 2 * long):
            continue
        ctas = product.batch * ceil(long / tall) * ceil(short / wide)
        waves = ceil(ctas / gpu.sms)
        time = waves * (_vector_tile_s((tall, wide), product.k, rate, gpu) + gpu.cost("matmul.tile_s"))
        tried.append((time - gpu.cost("matmul.tile_s"), ctas))
    return (*min(tried), 1)


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
    """Time of a product in tiles of given rows and columns [s], and what is guessed in it."""
    rate, note = _rate(product, gpu)
    ctas = product.batch * ceil(product.m / tile[0]) * ceil(product.n / tile[1])
    return ceil(ctas / gpu.sms) * TileCost(product, rate, gpu)(*tile, product.k), note


def _vector_tile_s(tile: tuple[int, int], depth: int, rate: float, gpu: KernelCostModel) -> float:
    """A tile of few columns without tensor cores: its FLOP, or its operands, half of the longer side from L2 [s]."""
    tall, wide = tile
    sent = (tall / 2 + wide) * depth * 4 / (gpu.device.l2_bytes_per_s / gpu.sms)
    taken = gpu.cycles_s((tall + wide) * depth * 4 / gpu.device.sm_fill_bytes_per_cycle)
    stepped = gpu.cycles_s(gpu.cost("matmul.step_cycles") * depth / STEP)
    return max(2.0 * tall * wide * depth / rate, sent, taken, stepped) + gpu.cost("matmul.simt_tile_s")
