"""Products that cuDNN makes of a convolution without writing it out as a matrix.

Pixels by channels of the result are cut into tiles, as in `matmul`. But channels of each tap of the window are padded
to whole steps; tiles of pixels that have no neighbour along the channels are loaded by one CTA each; and a CTA that
ends a tile begins the next with nothing loaded.
"""

from dataclasses import dataclass, replace
from math import ceil, prod

from ...cost_model import SERIAL, KernelCostModel, memset, scratch
from ...operation import Operand
from ...priced import KernelEstimate, Kernels
from ..products.tensor_tiles import RATES, TILED

Tile = tuple[int, int]
TILES: tuple[Tile, ...] = ((128, 64), (256, 64), (128, 128), (256, 128))
"""Pixels by channels of a tile: names of kernels. WEIGHTS_TILES: of gradients of weights, channels by channels of taps.
"""
WEIGHTS_TILES: tuple[Tile, ...] = ((64, 64), (128, 64), (128, 128))
NEARLY = 1.06
"""Of the least time, at which the largest tile is taken."""
HANDED_OUT_WAVES = 2.5
"""From which tiles are handed out one by one, after a memset: 196 CTAs are not, 392 are. Kind: measured."""
STEP_BYTES = 128
"""Of channels that are loaded at a time; half of them where there are as many. Kind: names of kernels."""
NARROW = 32
"""Channels of a result up to which tiles are narrower than 64; MERGED_BYTES: of channels of groups that are multiplied
together, what lies between them with zeros: 64 of bf16, 32 of TF32. Kind: names of kernels, one H200."""
MERGED_BYTES = 128
LOADED_AHEAD_CHANNELS = 64
"""Channels in half precision from which one group's narrow tiles are NARROW_TILE whole and loaded by TMA, a step of
NARROW channels at a time: all CTAs take the same filters, so L2 sends each tile's pixels, at its full bandwidth.
Kind: names of kernels."""
NARROW_TILE: Tile = (128, 32)
SEGMENTED_DEPTH = 4096
"""Products along so many channels and taps are cut into equal segments where they fill between one wave and two. Kind:
fitted, the shapes of `convolution.tile_s`."""
APART_PARTS = 8
"""Parts of a gradient of weights from which on a kernel adds them up: 7 and fewer have none, 14 do, bf16 and TF32 alike
(32,768 to 524,288 pixels). Kind: measured."""
CHANNELS = 8
"""Channels are padded to a multiple of these."""
HALF_BYTES = 2
TURNED = 32
"""Channels by pixels of a plane that are turned at a time: fewer take as long."""
GUESSED = "an implicit matrix product is assumed; cuDNN may choose another algorithm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Implicit:
    """A product of a convolution.

    Args:
        groups: products beside each other.
        rows, columns: pixels and channels of a result; of a gradient of weights, its channels, and channels of taps.
        channels, taps: that are summed: `channels` for each of `taps`; of a gradient of weights pixels.
        dtype: of products, as in `RATES`.
    """

    groups: int
    rows: int
    columns: int
    channels: int
    taps: float
    dtype: str

    def __str__(self) -> str:
        batch = f" x{self.groups}" if self.groups > 1 else ""
        return f"convolution {self.rows}x{self.columns}x{round(self.channels * self.taps)}{batch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a product runs.

    Args:
        time_s: that the tensor cores, or loads of their operands, take [s]; more_s: beside
            these and `convolution.start_s` [s].
        before: a kernel that prepares it: `Memset`, `init_device_workspace`; empty: none.
        summed_s: that a kernel of its own takes to add up parts [s]; zero: none does.
    """

    time_s: float
    more_s: float = 0.0
    before: str = ""
    summed_s: float = 0.0


def by_narrow_tiles(product: Implicit, gpu: KernelCostModel) -> Run:
    """Of few channels, or of groups of few, which are multiplied together: as long as L2 takes to send all tiles."""
    item_bytes = _item_bytes(product.dtype)
    merged = MERGED_BYTES // item_bytes // product.columns or 1
    merged = merged if product.groups % merged == 0 else 1
    together = replace(
        product,
        groups=product.groups // merged,
        columns=product.columns * merged,
        channels=product.channels * merged,
    )
    if together.columns > NARROW and merged == 1:
        return by_tiles(product, gpu)
    half = item_bytes == HALF_BYTES
    loaded_ahead = half and product.groups == 1 and product.channels >= LOADED_AHEAD_CHANNELS
    if loaded_ahead and product.columns == NARROW and has_tma(gpu):
        depth = ceil(product.channels / NARROW) * NARROW * product.taps
        loads_s = product.rows * depth * item_bytes / gpu.device.l2_bytes_per_s
        return Run(
            time_s=loads_s + _ctas(product, NARROW_TILE) / gpu.sms * gpu.cost("convolution.narrow_tile_s"),
            before="Memset",
        )
    tall, wide = (64, 64) if half and merged > 1 else (128 if half else 256, NARROW)
    sent = _ctas(together, (tall, wide)) * (tall + wide) * _depth(together) * item_bytes
    return Run(time_s=sent / (gpu.cost("convolution.narrow_l2_fraction") * gpu.device.l2_bytes_per_s))


def by_tiles(product: Implicit, gpu: KernelCostModel) -> Run:
    """Result or gradient of the input, by the largest of the fastest tiles."""
    depth = _depth(product)
    runs = []
    for tile in TILES:
        ctas = _ctas(product, tile)
        is_segmented = gpu.sms < ctas < 2 * gpu.sms and depth >= SEGMENTED_DEPTH
        waves = ctas / gpu.sms if is_segmented else ceil(ctas / gpu.sms)
        handed_out = ctas > HANDED_OUT_WAVES * gpu.sms and gpu.device.compute_capability == "9.0"
        before = "init_device_workspace" if is_segmented else "Memset" if handed_out else ""
        runs.append(Run(time_s=waves * _tile_s(product, tile, depth, gpu), before=before))
    least = min(run.time_s for run in runs)
    return next(run for run in reversed(runs) if run.time_s <= NEARLY * least)


def has_tma(gpu: KernelCostModel) -> bool:
    """Whether a GPU has kernels of the kind that an H100 has (`sm90_xmma`), or later ones."""
    return gpu.device.capability >= 90


def of_weights(product: Implicit, gpu: KernelCostModel) -> Run:
    """The gradient of the weights: pixels are cut into parts, until all SMs are busy."""
    runs = []
    for tile in WEIGHTS_TILES:
        ctas = _ctas(product, tile)
        parts = max(gpu.sms // ctas, 1)
        waves = max(ctas * parts / gpu.sms, 1.0)
        time_s = waves * _tile_s(product, tile, product.channels * product.taps / parts, gpu)
        is_summed_apart = parts >= APART_PARTS
        run = Run(
            time_s=time_s,
            more_s=gpu.cost("convolution.summed_s") if parts > 1 and not is_summed_apart else 0.0,
            before="init_device_workspace",
            summed_s=gpu.cost("convolution.summed_apart_s") if is_summed_apart else 0.0,
        )
        runs.append(run)
    return min(runs, key=lambda run: run.time_s)


def at_fraction(product: Implicit, fraction: float, gpu: KernelCostModel) -> Run:
    """By an old kernel that reaches a fraction of the tensor peak."""
    flop = 2.0 * product.groups * product.rows * product.columns * product.channels * product.taps
    return Run(time_s=flop / (fraction * gpu.sms * _peak(product, gpu)))


def of_strided_weights(product: Implicit, gpu: KernelCostModel) -> Run:
    """The gradient of the weights of a window that strides."""
    run = at_fraction(product, gpu.cost("convolution.strided_fraction"), gpu)
    return replace(run, before="Memset", summed_s=gpu.cost("convolution.strided_summed_s"))


def made(product: Implicit, run: Run, operands: tuple[Operand, ...], result: Operand, gpu: KernelCostModel) -> Kernels:
    """The kernels of a product of operands in NHWC."""
    kernels = []
    if run.before:
        prepared = gpu.kernel(run.before, (), (), latency_s=gpu.cost("convolution.prepared_s"))
        kernels.append(memset(gpu) if run.before == "Memset" else prepared)
    most = round(product.groups * max(product.rows, product.columns) * product.channels * product.taps)
    reads = [replace(x, shape=(most,), strides=(1,)) if x.elements > most else x for x in operands]
    kernels.append(
        gpu.kernel(
            str(product),
            reads,
            (result,),
            source="matmul",
            tensor_s=run.time_s,
            start_s=gpu.cost("convolution.start_s") + run.more_s,
            hbm_fraction=gpu.cost("matmul.stream_fraction"),
            overlap=TILED,
            note=GUESSED,
        )
    )
    if run.summed_s:
        kernels.append(gpu.kernel("split_k", (), (result,), source="matmul", latency_s=run.summed_s))
    return kernels


def with_copies(
    product: Implicit, run: Run, operands: tuple[Operand, ...], output: Operand, gpu: KernelCostModel, *, together: bool
) -> Kernels:
    """The same of operands and a result in either layout: all are turned or padded.

    Args:
        together: whether they have the channels of a pixel together.
    """
    copies, reads = zip(*(_copied(operand, gpu, together=together) for operand in operands), strict=True)
    kernels = [kernel for copy in copies for kernel in copy]
    if together or not _turns(output):
        return [*kernels, *made(product, run, reads, output, gpu)]
    result = scratch(output, 0)
    kernels += made(product, run, reads, result, gpu)
    return [*kernels, _turned("nhwc_to_nchw", result, output, gpu)]


def with_padded_filters(
    product: Implicit, run: Run, operands: tuple[Operand, ...], output: Operand, gpu: KernelCostModel, *, together: bool
) -> Kernels:
    """The same of filters in half precision that are no multiple of 8: they are padded, and what they made is cut off.

    Args:
        operands: the input and the weights.
    """
    source, weights = operands
    kernels, read = _copied(source, gpu, together=together)
    filters = _whole(output.shape[1])
    padded = scratch(weights, 0, shape=(filters, padded_channels(weights.shape[1]), *weights.shape[2:]))
    wide = scratch(output, 0, shape=(output.shape[0], filters, *output.shape[2:]))
    turned_s = 0.0 if together else gpu.cost("convolution.filters_turned_s")
    kernels += [memset(gpu, padded.bytes), gpu.kernel("pad", (weights,), (padded,), chain=4, latency_s=turned_s)]
    kernels += made(product, run, (read, padded), wide, gpu)
    if together and output.shape[1] > 1:
        return [
            *kernels,
            gpu.kernel(
                "pad",
                (wide,),
                (output,),
                instructions=gpu.cost("convolution.padded_instructions") * wide.elements,
                chain=4,
            ),
        ]
    return [*kernels, _turned("nhwc_to_nchw", wide, output, gpu)]


def pads_filters(output: Operand) -> bool:
    """Whether a result is made of padded filters."""
    return output.item_bytes == HALF_BYTES and _whole(output.shape[1]) > output.shape[1]


def copies_bytes(operands: tuple[Operand, ...], output: Operand, *, together: bool) -> int:
    """Of the copies of operands and result that are alive while a product is made [B]."""
    copies = [_copy_of(operand, together=together) for operand in operands]
    turned = 0 if together or not _turns(output) else output.bytes
    return turned + sum(copy.bytes for copy, operand in zip(copies, operands, strict=True) if copy is not operand)


def padded_channels(channels: int) -> int:
    """Channels that are multiplied; one alone stays alone."""
    return _whole(channels) if channels > 1 else 1


def _whole(channels: int) -> int:
    return ceil(channels / CHANNELS) * CHANNELS


def _copied(operand: Operand, gpu: KernelCostModel, *, together: bool) -> tuple[Kernels, Operand]:
    """What is multiplied in place of an operand, and the kernels that make it."""
    read, kernels = _copy_of(operand, together=together), []
    if read.shape != operand.shape:
        kernels.append(memset(gpu, read.bytes))
    if read is not operand and not together and _turns(operand):
        kernels.append(_turned("nchw_to_nhwc", operand, read, gpu))
    elif read is not operand:
        kernels.append(
            gpu.kernel(
                "pad",
                (operand,),
                (read,),
                instructions=gpu.cost("convolution.padded_instructions") * read.elements,
                chain=4,
            )
        )
    return kernels, read


def _copy_of(operand: Operand, *, together: bool) -> Operand:
    """What is multiplied in place of an operand: itself, or a copy that is turned or padded."""
    padded = padded_channels(operand.shape[1])
    if padded == operand.shape[1] and (together or not _turns(operand)):
        return operand
    return scratch(operand, 0, shape=(operand.shape[0], padded, *operand.shape[2:]))


def _turns(operand: Operand) -> bool:
    """Whether both layouts differ for a shape."""
    return operand.shape[1] > 1 < prod(operand.shape[2:])


def _turned(name: str, source: Operand, target: Operand, gpu: KernelCostModel) -> KernelEstimate:
    batch, channels, *plane = source.shape
    elements = batch * prod(ceil(size / TURNED) * TURNED for size in (channels, prod(plane)))
    return gpu.kernel(
        name,
        (source,),
        (target,),
        instructions=gpu.cost("convolution.reordered_instructions") * elements,
        chain=4,
        overlap=SERIAL,
    )


def _depth(product: Implicit) -> float:
    """Channels of all taps that are loaded, in whole steps."""
    step = STEP_BYTES // _item_bytes(product.dtype)
    step = step // 2 if product.channels == step // 2 else step
    return ceil(product.channels / step) * step * product.taps


def _ctas(product: Implicit, tile: Tile) -> int:
    return product.groups * ceil(product.rows / tile[0]) * ceil(product.columns / tile[1])


def _tile_s(product: Implicit, tile: Tile, depth: float, gpu: KernelCostModel) -> float:
    """A tile's FLOP, or its operands from L2, of which neighbours share halves [s]."""
    tall, wide = tile
    rows = tall / min(ceil(product.columns / wide), 2)
    columns = wide / min(ceil(product.rows / tall), 2)
    sent = (rows + columns) * depth * _item_bytes(product.dtype) / (gpu.device.l2_bytes_per_s / gpu.sms)
    multiplied = 2.0 * tall * wide * depth / _peak(product, gpu)
    return (
        max(multiplied / gpu.cost("convolution.tensor_fraction"), sent / gpu.cost("convolution.l2_fraction"))
        + gpu.cost("convolution.tile_s")
        + gpu.cost("convolution.element_s") * tall * wide
    )


def _item_bytes(dtype: str) -> int:
    return {"fp8": 1, "fp16": 2}.get(RATES[dtype], 4)


def _peak(product: Implicit, gpu: KernelCostModel) -> float:
    """FLOP/s of an SM's tensor cores."""
    units = (f"{unit}_{RATES[product.dtype]}_flop_per_cycle" for unit in ("mma", "wgmma", "tcgen05"))
    return gpu.device.tensor_clock_hz * max(float(getattr(gpu.device, unit)) for unit in units)
