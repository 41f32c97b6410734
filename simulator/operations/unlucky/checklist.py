"""Advice on a step: what makes it slow and could be otherwise, and what cures it.

Only what concerns more than `LEAST_SHARE` of the step is said.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import ceil, prod

from ... import units
from ...device.device import Device
from ...prediction.what_helps import Advice
from ..cost_model import KernelCostModel
from ..families.products.matmul import ALIGNMENT_BYTES, ctas_of, is_aligned
from ..gaps import StreamTimeline, host_key, measured_hosts_s, paces, queued
from ..groups import time_of
from ..operation import Operand, Operation, RecordedStep
from ..priced import KernelEstimate
from ..streams import enqueued
from .fusing import copies, grown, slow_attention, unfused_norms, written_scores
from .hint import concerning, listed, places_text, time_at

LEAST_SHARE = 0.01
"""Of the step."""
FAR, SHORT_S = 4.0, 10e-6
"""Times the floor from which on an operation is named; time below which it is no matter of bytes [s]."""
ANOTHER_LAYOUT = ("nchw_to_nhwc", "nhwc_to_nchw")
SCANS = ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin")
INNERMOST = "have the dimension that it goes along innermost (a transposed copy before)"
CURES = {
    **dict.fromkeys(SCANS, f"{INNERMOST}, or scan it in chunks"),
    **dict.fromkeys(("_softmax", "_log_softmax"), INNERMOST),
}
"""Of operations along a dimension that is not the innermost."""
PATCHES = "patches do not overlap: unfold or reshape the input, and a Linear of the same weights"
MATMULS = {"mm": 0, "addmm": 1, "bmm": 0, "baddbmm": 1, "_scaled_mm": 0}
"""Products -> which input is the first matrix."""
EVEN = 64
"""Dimensions that are multiples of it fill the tiles of vendors' matrix products."""


def hints_of(
    step: RecordedStep,
    priced: Sequence[Sequence[KernelEstimate]],
    device: Device,
    stream: StreamTimeline,
    graph: StreamTimeline,
) -> tuple[Advice, ...]:
    """What is unlucky about a step, what costs most first.

    Args:
        priced: of each operation its kernels; stream, graph: how they follow each other.
    """
    costs_s = [sum(map(time_of, kernels)) for kernels in priced]
    rules = (written_scores, unfused_norms, copies, grown, alignment, uneven, full_precision)
    hints = [hint for rule in rules if (hint := rule(step.operations, costs_s))]
    hints += filter(None, slow_attention(step.operations, costs_s))
    hints += [*far_from_floor(step.operations, costs_s, device), *reordered(step.operations, priced)]
    waits = None if step.graphed else _launches(step, priced, device, stream, graph)
    hints += [hint for hint in (tails(step.operations, priced, device), waits) if hint]
    whole_s = stream.end_s or 1.0
    shared = [replace(hint, share=hint.time_s / whole_s) for hint in hints if hint.time_s > LEAST_SHARE * whole_s]
    return tuple(sorted(shared, key=lambda hint: -hint.time_s))


def _launches(
    step: RecordedStep,
    priced: Sequence[Sequence[KernelEstimate]],
    device: Device,
    stream: StreamTimeline,
    graph: StreamTimeline,
) -> Advice | None:
    """What the GPU waits for the host, beyond the first operation, and what hosts make of the step."""
    first_s = next((start_s for starts_s in stream.starts_s for start_s in starts_s), 0.0)
    saved_s = stream.end_s - graph.end_s
    if saved_s <= first_s:
        return None
    works, hosts_s = enqueued(step.operations, priced), measured_hosts_s(step.mode, device)
    beside = paces(device)
    steps_s = (queued(works, host_s=one_s, gap_s=device.launch_graph_s, beside=beside).end_s for one_s in hosts_s)
    taken, made = (" to ".join(map(units.duration, pair)) for pair in (hosts_s, steps_s))
    known = f" (measured hosts: {taken} an operation, a step of {made}; --set {host_key(step.mode)} states yours)"
    return Advice(
        cause="launches",
        text=f"the GPU waits for the host between kernels{known if hosts_s[0] < hosts_s[1] else ''}",
        cure='a CUDA graph: torch.compile(mode="reduce-overhead"), or larger batches',
        time_s=saved_s,
    )


def far_from_floor(operations: Sequence[Operation], costs_s: Sequence[float], device: Device) -> Iterator[Advice]:
    """What has a known cure, and takes over `FAR` times as long as its bytes at HBM and its FLOP at their peaks."""
    floors: dict[tuple[str, str], dict[int, float]] = {}
    for place, operation in enumerate(operations):
        cure = PATCHES if _is_of_patches(operation) else CURES.get(operation.name, "") if _is_outer(operation) else ""
        if cure and costs_s[place] > max(FAR * (least_s := _floor_s(operation, device)), SHORT_S):
            floors.setdefault((operation.name, cure), {})[place] = least_s
    for (name, cure), least in floors.items():
        cost_s, floor_s = time_at(least, costs_s), sum(least.values())
        wheres = places_text([operations[place] for place in least])
        text = f"{name} takes {cost_s / floor_s:.0f} times as long as its bytes or FLOP{wheres}"
        yield Advice(cause=name, text=text, cure=cure, time_s=cost_s - floor_s)


def _floor_s(operation: Operation, device: Device) -> float:
    """The longer of its bytes at HBM's peak, and a convolution's FLOP at the tensor cores' [s]."""
    size = sum(operand.bytes for operand in {*operation.inputs, *operation.outputs})
    patch = prod(operation.inputs[1].shape[1:]) if operation.name == "convolution" else 0
    rate = device.fastest_flop_per_cycle("bf16") * device.sms * device.tensor_boost_clock_hz
    return max(size / device.hbm_peak_bytes_per_s, 2.0 * operation.outputs[0].elements * patch / rate)


def _is_outer(operation: Operation) -> bool:
    shape, axis = operation.inputs[0].shape if operation.inputs else (), operation.arguments.get("dim")
    return bool(shape) and isinstance(axis, int) and prod(shape[axis % len(shape) + 1 :]) > 1


def _is_of_patches(operation: Operation) -> bool:
    """Whether it is a convolution that steps by its filters' size."""
    kernel = operation.inputs[1].shape[2:] if operation.name == "convolution" else ()
    return prod(kernel) > 1 and tuple(operation.arguments.get("stride") or ()) == kernel


def reordered(operations: Sequence[Operation], priced: Sequence[Sequence[KernelEstimate]]) -> Iterator[Advice]:
    """Copies that a library makes between NCHW and NHWC, around kernels that no other hint is about."""
    copied = [
        (operation, time_of(kernel))
        for operation, kernels in zip(operations, priced, strict=True)
        for kernel in kernels
        if kernel.name in ANOTHER_LAYOUT and not _is_of_patches(operation)
    ]
    cure = "model and inputs in torch.channels_last; profile that, too: group norms then copy instead"
    if copied:
        text = f"convolutions copy between NCHW and NHWC{places_text([operation for operation, _ in copied])}"
        yield Advice(cause="layout", text=text, cure=cure, time_s=sum(time_s for _, time_s in copied))


def alignment(operations: Sequence[Operation], costs_s: Sequence[float]) -> Advice | None:
    """Matrices whose rows do not begin at multiples of `ALIGNMENT_BYTES`."""
    places = [
        place
        for place, operation in enumerate(operations)
        if _matrices(operation) and not all(map(is_aligned, (*_matrices(operation), *operation.outputs)))
    ]
    return concerning(
        *("alignment", places, operations, costs_s),
        text=f"matrix products whose rows are no multiple of {ALIGNMENT_BYTES} bytes: {_shapes(operations, places)}",
        cure=f"pad the dimension to a multiple of {EVEN}",
    )


def uneven(operations: Sequence[Operation], costs_s: Sequence[float]) -> Advice | None:
    """Tiles of products that stand over the edge of the result: vocabularies, widths of experts."""
    lost_s: dict[int, float] = {}
    for place, operation in enumerate(operations):
        for result in operation.outputs[:1] if _matrices(operation) else ():
            filled = prod(size / (ceil(size / EVEN) * EVEN) for size in result.shape[-2:] if size > EVEN)
            if filled < 1:
                lost_s[place] = (1 - filled) * costs_s[place]
    if not lost_s:
        return None
    return Advice(
        cause="uneven",
        text=f"matrix products with a dimension that is no multiple of {EVEN}: {_shapes(operations, lost_s)}",
        cure=f"pad it to a multiple of {EVEN}",
        time_s=sum(lost_s.values()),
    )


def full_precision(operations: Sequence[Operation], costs_s: Sequence[float]) -> Advice | None:
    """Products of 32 or 64 bits, which tensor cores do not take as they are."""
    places = [
        place
        for place, operation in enumerate(operations)
        if any(matrix.dtype in ("float32", "float64") for matrix in _matrices(operation))
        and not operation.arguments.get("tf32")
    ]
    return concerning(
        *("precision", places, operations, costs_s),
        text="matrix products of float32 or float64",
        cure='bfloat16, or torch.set_float32_matmul_precision("high") for TF32',
    )


def tails(operations: Sequence[Operation], priced: Sequence[Sequence[KernelEstimate]], device: Device) -> Advice | None:
    """What the last waves of matrix products leave idle."""
    lost_s: dict[int, float] = {}
    gpu = KernelCostModel(device)
    for place, (operation, kernels) in enumerate(zip(operations, priced, strict=True)):
        at_cores = [kernel for kernel in kernels if kernel.bound_by == "tensor cores"]
        waves = ctas_of(operation, gpu) / device.sms if at_cores and _matrices(operation) else 0.0
        if waves > 1:
            lost_s[place] = (1 - waves / ceil(waves)) * sum(map(time_of, at_cores))
    if not any(lost_s.values()):
        return None
    worst = sorted((place for place in lost_s if lost_s[place]), key=lambda place: -lost_s[place])
    return Advice(
        cause="tails",
        text=f"last waves of matrix products leave SMs idle: {_shapes(operations, worst)}",
        cure=f"another batch, or products in one, so that tiles fill waves of {device.sms} SMs",
        time_s=sum(lost_s.values()),
    )


def _matrices(operation: Operation) -> tuple[Operand, ...]:
    """What a matrix product reads; nothing of other operations."""
    if operation.kind != "torch" or operation.name not in MATMULS:
        return ()
    first = MATMULS[operation.name]
    return operation.inputs[first : first + 2]


def _shapes(operations: Sequence[Operation], places: Iterable[int]) -> str:
    """Shapes of some products, e.g. `4096 x 50257 x 768`."""
    return listed(list(dict.fromkeys(text for place in places for text in _shape(operations[place]))))


def _shape(operation: Operation) -> Iterator[str]:
    matrices = _matrices(operation)
    if len(matrices) == 2:
        (*_, m, k), (*_, n) = matrices[0].shape, matrices[1].shape
        yield f"{m} x {n} x {k}"
