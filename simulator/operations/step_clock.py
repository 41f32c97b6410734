"""The clock of a step that repeats: products and attention at what the power limit leaves where much of it is theirs.

A product is priced at `tensor_clock_hz`, the clock of tensor cores alone. What feeds them from L2 and HBM draws power
too, as the mean of the step: the limit acts over tens of milliseconds. Only GPUs whose clock under both loads was
measured sink further (`mixed_clock_hz`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import repeat

from ..device.device import Device
from ..engine.clock import Activity, sustained_clock_hz
from .groups import time_of
from .priced import KernelEstimate

LOADS = {"matmul": (0.88, 0.55), "attention": (0.6, 0.2)}
"""Source of a kernel that tensor cores bind -> what it asks of them and of the way from L2 to the SMs, of their peaks.

Products at an assumed 0.88 of the peak, in tiles of 256 x 128 by clusters of two, which ask L2 for (256 + 64) x 2 B
each 64 Ki FLOP; attention of 128 queries at the 540 TFLOP/s that cuDNN's reaches on an H200
(`validate/data/step-clocks-h200-2026-11-29.ndjson.xz`).
"""


NOTED = 1.01
"""Slowdown from which on an answer names it."""


def slowdown(priced: Sequence[Sequence[KernelEstimate]], device: Device, counts: Iterable[int] = repeat(1)) -> float:
    """How much longer products and attention take where the power limit lowers the clock below that of their prices.

    Args:
        priced: kernels of each operation; counts: how often each of these runs.

    Returns:
        1 or more.
    """
    # Collectives are left out: most of their time others run beside them.
    times = zip(counts, priced, strict=False)
    every = [(count, kernel) for count, kernels in times for kernel in kernels if kernel.source != "collective"]
    total_s = max(sum(count * time_of(kernel) for count, kernel in every), 1e-9)
    shares = {
        name: sum(count * kernel.time_s for count, kernel in every if _load_of(kernel) == name) / total_s
        for name in LOADS
    }
    moved = sum(count * (kernel.hbm_read_bytes + kernel.hbm_write_bytes) for count, kernel in every if time_of(kernel))
    tensor, fill = (sum(share * LOADS[name][part] for name, share in shares.items()) for part in (0, 1))
    activity = Activity(tensor, fill, moved / total_s / device.hbm_peak_bytes_per_s)
    return max(1.0, device.tensor_clock_hz / sustained_clock_hz(device.tensor_boost_clock_hz, activity, device))


def slowed(priced: Sequence[Sequence[KernelEstimate]], slower: float) -> Sequence[Sequence[KernelEstimate]]:
    """A step's kernels at its clock. Args: slower: as of `slowdown`."""
    return [
        [replace(kernel, time_s=kernel.time_s * slower) if _load_of(kernel) else kernel for kernel in kernels]
        for kernels in priced
    ]


def slowdown_notes(slower: float) -> tuple[str, ...]:
    """A line, where a step is slower by a hundredth."""
    text = f"products and attention take {slower:.2f}x: the power limit lowers the clock of a step that repeats"
    return (text,) if slower >= NOTED else ()


def _load_of(kernel: KernelEstimate) -> str:
    """Key of `LOADS`, empty for what tensor cores do not bind."""
    return kernel.source if kernel.source in LOADS and kernel.bound_by == "tensor cores" else ""
