"""Reductions: `reduce_kernel` as torch's `setReduceConfig` (ATen/native/cuda/Reduce.cuh) divides it among threads.

A row of inputs is walked by a warp, by a CTA, or by several CTAs, each thread loading four values at a time;
the loads of a thread follow each other, so few long walks wait for latencies, many short ones for bytes.
Lanes whose values lie apart ask for a sector each, and L1 takes one line a cycle; where dimensions cannot be joined,
each load costs index arithmetic.
Where CTAs share an output, the last of them adds up what all have left, one sum after the other, and nothing hides it.
"""

from dataclasses import dataclass, replace
from math import ceil

from ..gpu import SERIAL, Gpu, memset, scratch
from ..operation import Operand, Operation
from ..priced import PricedKernel
from .elementwise import LINE_BYTES, copied
from .issue_slots import FURTHER_INDEX, WELFORD

Dimensions = list[tuple[int, int]]
"""Sizes and strides in the source [elements]."""
PROMOTED = frozenset({"sum", "nansum", "mean", "prod"})
TRUTHS = frozenset({"all", "any"})
"""Reductions that copy where there is one element (`allany_impl`, ATen/native/ReduceOps.cpp)."""
KEPT = frozenset({("bfloat16", "float32"), ("float16", "float32")})
"""Reductions that cast their input to the result's type first, and casts that they make as they load
(`make_reduction_from_out_ty`, ATen/native/ReduceOpsUtils.h)."""
MAX_THREADS = 512
WARP = 32
AT_A_TIME = 4
"""Values that a thread loads before it waits (`vt0`)."""
OUTER_STEP = 1.3
"""Latencies of loads that four values take along an outer dimension. Kind: fitted, sums of 16 and 512 rows on one
H100."""
CTA_S = 1.0e-6
"""From a CTA's last load to its result [s]. Kind: fitted, means of 4,096 and 8,192 rows on one H200 and one H100."""
INDEX = 60.0
"""Instructions of a load where two dimensions are reduced that cannot be joined (`input_calc.get`, Reduce.cuh). Kind:
fitted, sums over images and places of 4 x 256 x 128 x 128 bf16 on one H100, and of 2 x 3 x 512 x 512 to
16 x 64 x 112 x 112 of bf16 and fp32 on one H200 (2026-11-28)."""
SETUP = 115.0
"""Instructions of each thread of short rows, which loads one value: where it is, what it shuffles. Kind: fitted,
sums of 160,000 to 4.4 million rows of 16 and 32 on one H100."""
SETUP_OF_LARGEST = 210.0
"""The same of maxima and minima, which look for NaN whenever lanes meet. Kind: fitted, minima of 1 million rows of 32
fp16, 256 B apart, and maxima of 2.3 million rows of 20 fp32 and of 256,000 of 300 bf16, on one H200 (2026-11-28)."""
WALKED = 1.5
"""Norm of rows that CTAs walk by themselves. Kind: fitted, the same."""
SHARED_S = 2.5e-6
"""Until CTAs of one output have found out which is last [s]. Kind: fitted, sums of all of 2 and 17 million elements on
one H100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Combining:
    """How two values become one.

    Args:
        step: latencies of loads that four values take along the innermost dimension.
        instructions: of a value, beyond its load; outer: the same where a thread combines four outputs at once.
        partial: latencies that a thread takes for a sum that another CTA has left.
        item_bytes: of such a sum; 0: as a result has it, floats at least [B].
        setup: instructions of each thread of a row that no CTA walks alone, beside its values.
    """

    step: float
    partial: float = 2.5
    instructions: float = 0.0
    outer: float = 0.0
    item_bytes: int = 0
    setup: float = SETUP


SUM, MEAN = Combining(step=0.75), Combining(step=1.3)
LARGEST = Combining(step=1.3, outer=10.0, setup=SETUP_OF_LARGEST)
PLACED = Combining(step=1.5, instructions=10.0, outer=10.0, item_bytes=16)
SPREAD = Combining(step=1.3, partial=12.0, instructions=WELFORD, outer=28.0, item_bytes=16)
"""Sums; means and norms; maxima; these with their places; variances (Welford's, which divides whenever partial ones
meet). Kind: fitted, rows of 4,096 elements (`step`), and sums, maxima and deviations over 2,048 to 65,536 rows (the
rest) on one H100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """How threads share a reduction.

    Args:
        threads: of a CTA; ctas: all of them; values: that a thread loads; wide: outputs that it makes at a time.
        split: all threads of a CTA share an output, or as many as a dimension of it has.
        shared: CTAs add up in global memory; partial: sums that a thread then loads; kept: sums that all leave.
    """

    threads: int
    ctas: int
    values: int
    wide: int = 1
    split: bool = False
    shared: bool = False
    partial: int = 0
    kept: int = 0


def reduction(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """The kernel of a reduction; a memset before it where CTAs share an output, and a cast to another type."""
    source, outputs = operation.inputs[0], operation.outputs
    given = operation.arguments.get("dim")
    axes = tuple(given) if isinstance(given, list | tuple) else () if given is None else (given,)
    if operation.name in TRUTHS and source.elements == 1:
        return [copied(source, replace(outputs[0], shape=source.shape, strides=source.strides), gpu)]
    wide, kernels = source, []
    if operation.name in PROMOTED and (source.dtype, outputs[0].dtype) not in KEPT and source.dtype != outputs[0].dtype:
        wide = scratch(source, 0, dtype=outputs[0].dtype)
        kernels = [copied(source, wide, gpu)]
    return [*kernels, *reduced(wide, outputs, axes, gpu, combining_of(operation.name))]


def combining_of(name: str) -> Combining:
    """How an operation of this name combines values."""
    if name.startswith(("std", "var")):
        return SPREAD
    if name.startswith(("arg", "max", "min")):
        return PLACED
    if name.startswith("am"):
        return LARGEST
    return SUM if "sum" in name else MEAN


def reduced(
    source: Operand, outputs: tuple[Operand, ...], axes: tuple[int, ...], gpu: Gpu, combining: Combining
) -> list[PricedKernel]:
    """The kernels that reduce a tensor along axes, or along all of them where none is given."""
    rank = len(source.shape)
    axes = tuple(axis % rank for axis in axes if rank) or tuple(range(rank))
    walked, kept = _walked(source, outputs[0], axes)
    inner = not kept or not walked or walked[0][1] < kept[0][1]
    made = max(outputs[0].elements, 1)
    division = divided(source.elements // made, made, inner, gpu)
    resident = gpu.device.max_warps_per_sm * WARP // division.threads * gpu.sms
    waves = max(division.ctas / resident, 1.0)
    steps = ceil(division.values / AT_A_TIME) * (combining.step if inner else OUTER_STEP)
    shared_s = SHARED_S + gpu.chain_s(combining.partial * division.partial, 0.0) if division.shared else 0.0
    issued = (combining.instructions if inner else combining.outer) * source.elements
    if inner and division.values <= 1:
        issued += combining.setup * division.threads * division.ctas
    if len(walked) > 1:
        issued += (INDEX + FURTHER_INDEX * (len(walked) - 2)) * source.elements / division.wide
    apart = walked[0][1] * source.item_bytes if inner and walked else source.item_bytes
    moved = (min(apart, gpu.device.sector_bytes) - source.item_bytes) * source.elements
    lines = source.elements / gpu.sms * min(apart / LINE_BYTES, 1.0) if moved > 0 else 0.0
    ends_alone = inner and division.values > 1 and not division.split
    kernel = gpu.kernel(
        "reduce",
        (source,),
        outputs,
        instructions=issued,
        chain=steps * waves,
        latency_s=CTA_S * waves * (combining.setup / SETUP if ends_alone else 1.0),
        l2_s=max(moved / gpu.device.l2_bytes_per_s, gpu.cycles_s(lines)),
        end_s=shared_s,
        scratch_bytes=division.kept * (combining.item_bytes or max(outputs[0].item_bytes, 4)),
        overlap=SERIAL if division.shared else WALKED,
    )
    return [memset(), kernel] if division.shared else [kernel]


def divided(inputs: int, outputs: int, inner: bool, gpu: Gpu) -> Division:
    """Threads and CTAs of a reduction of `inputs` values to each of `outputs`."""
    most, wide = MAX_THREADS, 1
    first, second = (inputs, outputs) if inner else (outputs, inputs)
    if inner and outputs == 1 and first > WARP * AT_A_TIME:
        first //= AT_A_TIME
    elif not inner:
        wide = next((size for size in (4, 2) if first % size == 0), 1)
        first //= wide
    most //= wide
    width = min(_power(first, most), WARP)
    height = min(_power(second, most), most // width)
    width = min(_power(first, most), most // height)
    values = ceil(inputs / width) if inner else inputs
    per_cta = wide if inner else width * wide
    split = values >= height * 16 or values >= 256
    if split:
        values = ceil(values / height)
    else:
        per_cta *= height
    ctas = ceil(outputs / per_cta)
    target = gpu.sms * (gpu.device.max_warps_per_sm * WARP // (width * height))
    if split and values >= 256 and ctas <= target:
        shared = max(min(ceil(target / ctas), ceil(values / 16)), ceil(values / 256))
        return Division(
            threads=width * height,
            ctas=ctas * shared,
            values=ceil(values / shared),
            wide=wide,
            split=True,
            shared=shared > 1,
            partial=ceil(shared / (width * height if inner else height)),
            kept=outputs * shared * (1 if inner else width * wide) if shared > 1 else 0,
        )
    return Division(threads=width * height, ctas=ctas, values=values, wide=wide, split=split)


def _walked(source: Operand, output: Operand, axes: tuple[int, ...]) -> tuple[Dimensions, Dimensions]:
    """Dimensions that are reduced, and that are kept, as TensorIterator joins them, the fastest first.

    Those reduced are in the order of the source, those kept in the order of the output: values that lie together in the
    source may so be kept far apart (`reorder_dimensions`, ATen/TensorIterator.cpp).
    """
    rank = len(source.shape)
    kept = [axis for axis in range(rank) if axis not in axes]
    places = range(rank) if len(output.shape) == rank else kept
    made = dict(zip(places, output.strides, strict=False)) if len(output.shape) in (rank, len(kept)) else {}
    steps = {axis: (0 if axis in axes else made.get(axis, rank - axis)) for axis in range(rank)}
    groups: list[list[tuple[int, int, int]]] = []
    for group in (axes, kept):
        joined: list[tuple[int, int, int]] = []
        for axis in sorted(group, key=lambda axis: (steps[axis], source.strides[axis])):
            size, stride, step = source.shape[axis], source.strides[axis], steps[axis]
            if size == 1:
                continue
            if joined and (stride, step) == tuple(joined[-1][0] * walked for walked in joined[-1][1:]):
                joined[-1] = (joined[-1][0] * size, *joined[-1][1:])
            else:
                joined.append((size, stride, step))
        groups.append(joined)
    reduced_by, kept_by = ([(size, stride) for size, stride, _ in joined] for joined in groups)
    return reduced_by, kept_by


def _power(size: int, most: int) -> int:
    """The largest power of two that is at most a size, or the most."""
    return min(1 << (max(size, 1).bit_length() - 1), most)
