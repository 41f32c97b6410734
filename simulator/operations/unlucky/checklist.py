"""What makes a step slow and could be otherwise. In: a step and its prices; out: a line for each, and what cures it.

Only what concerns more than `LEAST_SHARE` of the step is said.
"""

from collections.abc import Sequence
from dataclasses import replace

from ... import units
from ...device.device import Device
from ...prediction.what_helps import Advice
from ..gaps import StreamTimeline, host_key, measured_hosts_s, paces, queued
from ..groups import time_of
from ..operation import RecordedStep
from ..priced import KernelEstimate
from ..streams import enqueued
from .floors import far_from_floor, reordered
from .fusing import copies, grown, slow_attention, unfused_norms, written_scores
from .matmuls import alignment, full_precision, tails, uneven

LEAST_SHARE = 0.01
"""Of the step."""


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
