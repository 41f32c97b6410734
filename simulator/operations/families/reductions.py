"""Reductions: `reduce_kernel` as torch's `setReduceConfig` (ATen/native/cuda/Reduce.cuh) divides it among threads.

A row of inputs is walked by a warp, by a CTA, or by several CTAs, each thread loading four values at a time;
the loads of a thread follow each other, so few long walks wait for latencies, many short ones for bytes.
Lanes whose values lie apart ask for a sector each, and L1 takes one line a cycle; where dimensions cannot be joined,
each load costs index arithmetic.
Where CTAs share an output, the last of them adds up what all have left, one sum after the other, and nothing hides it.
"""

from dataclasses import dataclass, replace
from math import ceil

from ..cost_model import SERIAL, KernelCostModel, memset, scratch
from ..operation import Operand, Operation
from ..priced import Kernels
from .elementwise import LINE_BYTES, copied

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
WALKED = "reduction.walked_norm"
"""Norm of rows that CTAs walk by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceOp:
    """How two values become one: keys of what it costs (`KernelCostModel.cost`).

    Args:
        step: latencies of loads that four values take along the innermost dimension.
        instructions: of a value, beyond its load; outer: the same where a thread combines four outputs at once.
        partial: latencies that a thread takes for a sum that another CTA has left.
        item_bytes: of such a sum; 0: as a result has it, floats at least [B].
        setup: instructions of each thread of a row that no CTA walks alone, beside its values.
    """

    step: str
    partial: str = "reduction.partial_loads"
    instructions: str = ""
    outer: str = ""
    item_bytes: int = 0
    setup: str = "reduction.setup_instructions"


SUM, MEAN = ReduceOp(step="reduction.sum_loads"), ReduceOp(step="reduction.mean_loads")

LARGEST = ReduceOp(
    step="reduction.extreme_loads",
    outer="reduction.extreme_outer_instructions",
    setup="reduction.extreme_setup_instructions",
)

PLACED = ReduceOp(
    step="reduction.place_loads",
    instructions="reduction.place_instructions",
    outer="reduction.place_outer_instructions",
    item_bytes=16,
)

SPREAD = ReduceOp(
    step="reduction.variance_loads",
    partial="reduction.variance_partial_loads",
    instructions="reduction.variance_instructions",
    outer="reduction.variance_outer_instructions",
    item_bytes=16,
)
"""Sums; means and norms; maxima; these with their places; variances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceConfig:
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


def reduction(operation: Operation, gpu: KernelCostModel) -> Kernels:
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
    return [*kernels, *reduced(wide, outputs, axes, gpu, reduce_op_of(operation.name))]


def reduce_op_of(name: str) -> ReduceOp:
    """How an operation of this name combines values."""
    if name.startswith(("std", "var")):
        return SPREAD
    if name.startswith(("arg", "max", "min")):
        return PLACED
    if name.startswith("am"):
        return LARGEST
    return SUM if "sum" in name else MEAN


def reduced(
    source: Operand, outputs: tuple[Operand, ...], axes: tuple[int, ...], gpu: KernelCostModel, combining: ReduceOp
) -> Kernels:
    """The kernels that reduce a tensor along axes, or along all of them where none is given."""
    rank = len(source.shape)
    axes = tuple(axis % rank for axis in axes if rank) or tuple(range(rank))
    walked, kept = _walked(source, outputs[0], axes)
    inner = not kept or not walked or walked[0][1] < kept[0][1]
    made = max(outputs[0].elements, 1)
    division = divided(source.elements // made, made, inner, gpu)
    resident = gpu.device.max_warps_per_sm * WARP // division.threads * gpu.sms
    waves = max(division.ctas / resident, 1.0)
    steps = ceil(division.values / AT_A_TIME) * gpu.cost(combining.step if inner else "reduction.outer_loads")
    shared_s = (
        gpu.cost("reduction.shared_s") + gpu.chain_s(gpu.cost(combining.partial) * division.partial, 0.0)
        if division.shared
        else 0.0
    )
    value_key = combining.instructions if inner else combining.outer
    issued = (gpu.cost(value_key) if value_key else 0.0) * source.elements
    if inner and division.values <= 1:
        issued += gpu.cost(combining.setup) * division.threads * division.ctas
    if len(walked) > 1:
        issued += (
            (
                gpu.cost("reduction.index_instructions")
                + gpu.cost("elementwise.further_index_instructions") * (len(walked) - 2)
            )
            * source.elements
            / division.wide
        )
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
        latency_s=gpu.cost("reduction.cta_s")
        * waves
        * (gpu.cost(combining.setup) / gpu.cost("reduction.setup_instructions") if ends_alone else 1.0),
        l2_s=max(moved / gpu.device.l2_bytes_per_s, gpu.cycles_s(lines)),
        end_s=shared_s,
        scratch_bytes=division.kept * (combining.item_bytes or max(outputs[0].item_bytes, 4)),
        overlap=SERIAL if division.shared else WALKED,
    )
    return [memset(gpu), kernel] if division.shared else [kernel]


def divided(inputs: int, outputs: int, inner: bool, gpu: KernelCostModel) -> ReduceConfig:
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
        return ReduceConfig(
            threads=width * height,
            ctas=ctas * shared,
            values=ceil(values / shared),
            wide=wide,
            split=True,
            shared=shared > 1,
            partial=ceil(shared / (width * height if inner else height)),
            kept=outputs * shared * (1 if inner else width * wide) if shared > 1 else 0,
        )
    return ReduceConfig(threads=width * height, ctas=ctas, values=values, wide=wide, split=split)


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
