"""Fourier transforms: `_fft_r2c`, `_fft_c2r`, `_fft_c2c`, as cuFFT takes them, and the copies that torch adds.

A kernel takes a whole line of up to 16,384 points into registers and shared memory: one pass for each factor of up to
16, its threads exchanging points between passes. Longer lines take two such kernels, each of which walks lines whose
neighbours lie far apart, eight side by side. Real lines whose length is a power of two go as complex ones of half of
it, and are split in one more pass, or in a kernel of their own where two take the line; other short ones go as complex
ones; of odd length, two are the parts of one complex line.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, isqrt, log2

from ..cost_model import SERIAL, KernelCostModel, scratch
from ..operation import Operand, Operation
from ..priced import KernelEstimate, Kernels, NoPrice
from .elementwise import REAL, copied, iterate

LONGEST = 1 << 14
"""Points of a line that one kernel takes; LONGEST_OF_TWO: that two take, of up to 2,048 each. Kind: measured, names of
kernels of 32 to 1,048,576 points; the second number is assumed."""
LONGEST_OF_TWO = 1 << 22
LARGEST_FACTOR = 127
"""Largest prime factor that has kernels of its own; others go by Bluestein's algorithm. Source: cuFFT's manual, 2.13:
building blocks up to 127."""
RADIX_BITS = 4
"""Of a pass: factors of 16 points, as the names of kernels have it (`EPT<16u>`)."""
SHORTEST_HALVED = 256
"""Of real lines of a power of two that go as half. Kind: measured, names of kernels of 32, 64, 256 points and more."""
THREADS_PER_SM, POINTS_OF_THREAD = 1024, 16
"""Threads that run at a time, and complex points that each holds in 64 registers. Kind: assumed."""
NO_SCALE = 0
"""Normalization that multiplies with nothing."""
COMPLEX_BYTES = {"complex64": 8, "complex128": 16, "complex32": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Complex lines that a kernel transforms.

    Args:
        count: of them; points: of each; item_bytes: of a point [B]; split: they are real ones of twice the length.
    """

    count: int
    points: int
    item_bytes: int
    split: bool = False

    @property
    def passes(self) -> int:
        """Over a line."""
        return max(ceil(log2(max(self.points, 2)) / RADIX_BITS), 1) + self.split

    def instructions(self, gpu: KernelCostModel) -> float:
        """Of a point. Raises: NoPrice: a factor has no kernel of its own."""
        power, odd = _factors(self.points)
        if odd and max(odd) > LARGEST_FACTOR:
            raise NoPrice("of lines with a large prime factor")
        of_odd = gpu.cost("fft.point_factor_instructions") * sum(odd) if odd else 0.0
        return gpu.cost("fft.point_bit_instructions") * (power + self.split) + of_odd


def fft(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`_fft_r2c`, `_fft_c2r`, `_fft_c2c`: copies before, kernels of each dimension, a product with the scale."""
    source, output = operation.inputs[0], operation.outputs[0]
    rank = len(source.shape)
    axes = [axis % rank for axis in operation.arguments.get("dim", ())]
    if not axes:
        return [copied(source, output, gpu)]
    back, real = operation.name == "_fft_c2r", operation.name != "_fft_c2c"
    kernels, read = _laid_out(operation, axes, gpu)
    spectrum, size = (read, output.shape[axes[-1]]) if back else (output, source.shape[axes[-1]])
    item_bytes = COMPLEX_BYTES[spectrum.dtype]
    if real and not back:
        kernels += _real(read, output, size, item_bytes, gpu, back=False)
        read = output
    for axis in axes[: len(axes) - real]:
        points = spectrum.shape[axis]
        lines = Lines(count=spectrum.elements // points, points=points, item_bytes=item_bytes)
        kernels += _complex((read,), (spectrum,), lines, gpu)
        read = spectrum
    if back:
        kernels += _real(read, output, size, item_bytes, gpu, back=True)
    elif real and not operation.arguments.get("onesided", True):
        kernels.append(iterate("conj", (output,), output, gpu))
    if operation.arguments.get("normalization", NO_SCALE) != NO_SCALE:
        plain = _as_real(output)
        kernels.append(iterate("mul", (plain,), plain, gpu))
    return kernels


def _laid_out(operation: Operation, axes: Sequence[int], gpu: KernelCostModel) -> tuple[Kernels, Operand]:
    """A copy where lines do not lie as the library takes them; of `_fft_c2r` always, as that overwrites what it reads.

    Source: `_exec_fft`, `_fft_c2r_cufft` in ATen/native/cuda/SpectralOps.cpp, torch 2.11.
    """
    source, rank = operation.inputs[0], len(operation.inputs[0].shape)
    last = set(axes) == set(range(rank - len(axes), rank))
    if operation.name != "_fft_c2r" and (last or rank == len(axes)) and source.is_dense:
        return [], source
    made = scratch(source, 0, shape=source.shape)
    return [copied(source, made, gpu)], made


def _real(source: Operand, output: Operand, size: int, item_bytes: int, gpu: KernelCostModel, *, back: bool) -> Kernels:
    """Real lines of `size` points in one kernel, or complex ones between kernels that pack and split them."""
    count = (output if back else source).elements // size
    if size <= LONGEST and size % 2 == 0:
        halved = size >= SHORTEST_HALVED and size & (size - 1) == 0
        lines = Lines(count=count, points=size // 2 if halved else size, item_bytes=item_bytes, split=halved)
        return _complex((source,), (output,), lines, gpu)
    lines = Lines(count=count, points=size // 2, item_bytes=item_bytes)
    if size % 2:
        lines = replace(lines, count=ceil(count / 2), points=size)
    between = scratch(source, 1, shape=(lines.count, lines.points), dtype=_complex_of(item_bytes))
    whole = _complex((between if back or size % 2 else source,), (between,), lines, gpu)
    first = [gpu.kernel("fft_preprocess" if back else "fft_pack", (source,), (between,), chain=2, overlap=SERIAL)]
    if back:
        unpacked = [gpu.kernel("fft_unpack", (between,), (output,), chain=2, overlap=SERIAL)] if size % 2 else []
        return [*first, *whole, *unpacked]
    last = gpu.kernel("fft_postprocess", (between,), (output,), chain=2, overlap=SERIAL)
    return [*(first if size % 2 else []), *whole, last]


def _complex(reads: tuple[Operand, ...], writes: tuple[Operand, ...], lines: Lines, gpu: KernelCostModel) -> Kernels:
    """The kernels of complex lines. Raises: NoPrice: lines of a length that has none."""
    if lines.points <= LONGEST:
        return [_kernel("fft", reads, writes, lines, gpu)]
    if lines.points > LONGEST_OF_TWO:
        raise NoPrice(f"of lines of more than {LONGEST_OF_TWO} points")
    first = next(size for size in range(isqrt(lines.points), 0, -1) if lines.points % size == 0)
    sizes = (first, lines.points // first)
    parts = [replace(lines, count=lines.count * lines.points // size, points=size) for size in sizes]
    if parts[-1].points > LONGEST:
        raise NoPrice("of lines with a large prime factor")
    fraction = 2.0 / (1.0 + 1.0 / gpu.device.hbm_part_line_fraction)
    return [
        _kernel("fft_factor", reads if part is parts[0] else writes, writes, part, gpu, hbm_fraction=fraction)
        for part in parts
    ]


def _kernel(
    name: str,
    reads: tuple[Operand, ...],
    writes: tuple[Operand, ...],
    lines: Lines,
    gpu: KernelCostModel,
    hbm_fraction: float = 1.0,
) -> KernelEstimate:
    """A kernel that takes whole lines: by bytes and instructions of all, or as long as those of its CTAs one by one.

    A CTA loads its points, computes and exchanges them pass by pass, and stores them: of a CTA nothing overlaps, of
    others that an SM has beside it all does.
    """
    device, points = gpu.device, lines.points * lines.item_bytes
    issued = lines.instructions(gpu)
    exchanged = 2.0 * (lines.passes - 1) * points / device.smem_bytes_per_cycle
    sent = 2.0 * points / device.sm_fill_bytes_per_cycle
    computed = issued * lines.points / (device.issue_per_cycle * 32)
    held = max(THREADS_PER_SM * POINTS_OF_THREAD // lines.points, 1)
    on_sm = ceil(lines.count / gpu.sms)
    waves = max(lines.count / (held * gpu.sms), 1.0)
    together = min(on_sm, held)
    cycles = waves * (together * (exchanged + sent + computed) + gpu.cost("fft.pass_cycles") * lines.passes)
    return gpu.kernel(
        f"{name} {lines.count}x{lines.points}",
        reads,
        writes,
        source="bytes",
        latency_s=gpu.cycles_s(cycles),
        chain=3,
        hbm_fraction=hbm_fraction,
        overlap="fft.overlap_norm",
    )


def _factors(points: int) -> tuple[int, list[int]]:
    """Exponent of 2, and odd prime factors, of a number."""
    power, odd, factor = 0, [], 3
    while points % 2 == 0 and points:
        points, power = points // 2, power + 1
    while points > 1:
        if points % factor == 0:
            odd.append(factor)
            points //= factor
        elif factor * factor > points:
            factor = points
        else:
            factor += 2
    return power, odd


def _as_real(operand: Operand) -> Operand:
    """The same bytes as real numbers."""
    if operand.dtype not in REAL:
        return operand
    shape, strides = (*operand.shape, 2), (*(2 * stride for stride in operand.strides), 1)
    return replace(operand, dtype=REAL[operand.dtype], shape=shape, strides=strides)


def _complex_of(item_bytes: int) -> str:
    return next(dtype for dtype, size in COMPLEX_BYTES.items() if size == item_bytes)
