"""Threads that do the same on plane after plane of a batch's images: what kernels of images have in common.

Much of ATen gives a thread a place of the output, and lets it walk all images and channels there: few places leave SMs
idle, and each plane waits for its loads. Launches were read in ATen's files of several versions of torch 2; that 2.11
launches the same kernels is from names in validate/data/torch-rare-images-h200-2026-11-28.ndjson.xz.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from ...cost_model import LANES, SERIAL, KernelCostModel
from ...operation import Operand
from ...priced import KernelEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A launch whose threads walk planes.

    Args:
        threads: of a CTA; ctas: of the grid; turns: planes that a thread walks.
        start, turn: instructions of a thread before all planes, and for each.
    """

    threads: int
    ctas: int
    turns: int
    start: float
    turn: float


def walked(
    name: str,
    reads: Sequence[Operand],
    writes: Sequence[Operand],
    walk: Walk,
    gpu: KernelCostModel,
    *,
    l2_s: float = 0.0,
    note: str = "",
) -> KernelEstimate:
    """The kernel of a walk: the SM with most CTAs issues, and waves of CTAs wait for the latencies of their planes."""
    resident = min(gpu.device.max_warps_per_sm * LANES // walk.threads, gpu.device.max_ctas_per_sm)
    waves = max(walk.ctas / (max(resident, 1) * gpu.sms), 1.0)
    threads = walk.threads * ceil(walk.ctas / gpu.sms) * gpu.sms
    return gpu.kernel(
        name,
        reads,
        writes,
        instructions=threads * (walk.start + walk.turn * walk.turns),
        ctas=walk.ctas,
        chain=gpu.cost("image.plane_loads") * walk.turns * waves,
        l2_s=l2_s,
        overlap=SERIAL,
        note=note,
    )


def issued_in(cycles: float, gpu: KernelCostModel) -> float:
    """Instructions of threads that an SM could issue in as many cycles."""
    return cycles * gpu.device.issue_per_cycle * LANES


def added_s(sectors: float, gpu: KernelCostModel) -> float:
    """Time in which L2's slices add to as many sectors, a part of each [s]."""
    return sectors * gpu.device.l2_add_part_s / gpu.device.l2_slices


def planes_of(operand: Operand, dims: int) -> tuple[int, tuple[int, ...]]:
    """How many planes of `dims` dimensions a tensor holds, and their sizes."""
    return prod(operand.shape[: len(operand.shape) - dims]), operand.shape[len(operand.shape) - dims :]


def is_narrow(operand: Operand) -> bool:
    """Whether atomics add its elements in words of twice their size."""
    return operand.item_bytes < 4
