"""Advice on a step: what makes it slow and could be otherwise, and what cures it.

Only what concerns more than `LEAST_SHARE` of the step is said.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from ... import units
from ...device.device import Device
from ...prediction.what_helps import Advice
from ..gaps import StreamTimeline, host_key, measured_hosts_s, paces, queued
from ..groups import time_of
from ..operation import Operation, RecordedStep
from ..priced import KernelEstimate
from ..streams import enqueued
from .fusing import copies, grown, slow_attention, unfused_norms, written_scores
from .hint import places_text, time_at
from .matmuls import alignment, full_precision, tails, uneven

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
