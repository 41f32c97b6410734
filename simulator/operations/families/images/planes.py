"""Threads that do the same on plane after plane of a batch's images: what kernels of images have in common.

Much of ATen gives a thread a place of the output, and lets it walk all images and channels there: few places leave SMs
idle, and each plane waits for its loads. Constants are of torch 2.11 on one H200 (2026-11-28,
validate/data/torch-rare-images-h200-2026-11-28.ndjson.xz), by 16 x 64 images of 112 x 112 in both types, and as many
signals of 4,096, unless they say otherwise; other shapes test them. Launches were read in ATen's files of several
versions of torch 2; that 2.11 launches the same kernels is from the names in that data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from ...gpu import LANES, SERIAL, Gpu
from ...operation import Operand
from ...priced import NoPrice, PricedKernel

TURN_LOADS = 1.4
"""Latencies that a plane takes: its loads go side by side. Kind: fitted, `upsample_linear1d`, `upsample_bilinear2d`."""
NARROW_ADD = 85.0
"""Instructions of `fastAtomicAdd` of 16 bits beyond one of 32, which pairs an element with its neighbour. Kind: fitted,
gradients of bilinear up-sampling and of padding; of fp16 taken to be as of bf16."""
SWAP_ROUND = 167.0
"""Instructions' worth of a round of `atomicAdd` of 16 bits, which swaps 32: lanes at one word take turns. Kind: fitted,
gradients of bicubic and linear up-sampling; of fp16 taken to be as of bf16."""
SECTOR_ADD_CYCLES = 2.0
"""Cycles that an SM takes for each sector to which a warp adds. Kind: fitted, gradients of `grid_sampler_2d`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A launch whose threads walk planes.

    Args:
        threads: of a CTA; ctas: of the grid; turns: planes that a thread walks.
        start, turn: instructions of a thread before all planes, and for each.
        loads: latencies of a plane, one after the other.
    """

    threads: int
    ctas: int
    turns: int
    start: float
    turn: float
    loads: float = TURN_LOADS


def walked(
    name: str,
    reads: Sequence[Operand],
    writes: Sequence[Operand],
    walk: Walk,
    gpu: Gpu,
    *,
    l2_s: float = 0.0,
    note: str = "",
) -> PricedKernel:
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
        chain=walk.loads * walk.turns * waves,
        l2_s=l2_s,
        overlap=SERIAL,
        note=note,
    )


def issued_in(cycles: float, gpu: Gpu) -> float:
    """Instructions of threads that an SM could issue in as many cycles."""
    return cycles * gpu.device.issue_per_cycle * LANES


def added_s(sectors: float, gpu: Gpu) -> float:
    """Time in which L2's slices add to as many sectors, a part of each [s]."""
    return sectors * gpu.device.l2_add_part_s / gpu.device.l2_slices


def planes_of(operand: Operand, dims: int) -> tuple[int, tuple[int, ...]]:
    """How many planes of `dims` dimensions a tensor holds, and their sizes."""
    return prod(operand.shape[: len(operand.shape) - dims]), operand.shape[len(operand.shape) - dims :]


def in_order(*operands: Operand) -> None:
    """Refuse tensors whose channels lie together, or with gaps: other kernels, or copies before these, run there."""
    if not all(operand.is_contiguous for operand in operands):
        raise NoPrice("of tensors that are not in the order of their dimensions")


def is_narrow(operand: Operand) -> bool:
    """Whether atomics add its elements in words of twice their size."""
    return operand.item_bytes < 4
