"""How often each CTA of a launch executes each basic block: many CTAs at a time, by four probe threads of each.

Probe threads are the first and the last lane of the first and of the last warp: where code branches at the edges of a
tile, these do. Where branches depend on what threads exchange, all threads are followed.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from ...emulator.compile_blocks import compile_blocks
from ...emulator.compute.warp_lanes import LanesDiffer
from ...emulator.leap.leaper import Leaper
from ...emulator.run_blocks import MAX_STEPS, run_blocks
from ...emulator.thread_values import Array, Value
from ...emulator.threads import Threads, lanes_below, thread_numbers
from ...limits import WARP_THREADS
from ...sass.memory_instructions import BARRIERS
from .access_steps import access_steps
from .address_slice import AddressSlice, Tracer, find_deciding_slice
from .traced_kernel import CompiledKernel, TracedKernel
from .unknown_values import UnknownValues

CTAS_AT_ONCE = 1 << 15
"""CTAs that are followed at a time, to bound memory."""
THREADS_AT_ONCE = 1 << 18
"""Threads where all of each CTA are followed: their state stays in the caches of the host's processor."""
PROBES = 4
"""Probe threads of a CTA."""


def count_blocks(
    subject: TracedKernel, doubts: UnknownValues, ctas: Sequence[int] | None = None, most_steps: int = MAX_STEPS
) -> Array:
    """Executions of each basic block, in the warp of a CTA that executes it most often.

    Args:
        ctas: numbers of CTAs, all where None; most_steps: as of `run_blocks`.

    Returns:
        int64 (CTAs, blocks).

    Raises:
        Refused: a branch depends on what is not known.
        ValueError: the code does not end; one line.
    """
    code_slice = find_deciding_slice(subject)
    counted = range(subject.kernel.ctas) if ctas is None else ctas
    if code_slice.all_threads:
        return _count(subject, code_slice, doubts, counted, most_steps, all_threads=True)
    try:
        return _count(subject, code_slice, doubts, counted, most_steps, all_threads=False)
    except LanesDiffer:
        return _count(subject, code_slice, doubts, counted, most_steps, all_threads=True)


def _count(
    subject: TracedKernel,
    code_slice: AddressSlice,
    doubts: UnknownValues,
    counted: Sequence[int],
    most_steps: int,
    all_threads: bool,
) -> Array:
    """The same. Args: all_threads: or the probe threads alone, which wait at no barrier."""
    kernel, flow, places = subject.kernel, subject.flow, code_slice.places
    if not all_threads:
        places = tuple(tuple(p for p in block if flow.instructions[p].family not in BARRIERS) for block in places)
    code = compile_blocks(flow, places, access_steps(subject, code_slice, doubts, lambda *_: None), doubts.settle)
    may_leap = Tracer(subject, code_slice, doubts).may_leap
    width = kernel.warps if all_threads else PROBES
    step = max(1, THREADS_AT_ONCE // (kernel.warps * WARP_THREADS)) if all_threads else CTAS_AT_ONCE
    parts = []
    for begin in range(0, len(counted), step):
        ctas = np.array(counted[begin : begin + step], dtype=np.int64)
        special = kernel.special_registers(ctas) if all_threads else probe_registers(kernel, ctas)
        threads = Threads(constants=subject.constants, special=special, whole=all_threads)
        leaper = Leaper(flow, code, places, len(ctas), may_leap, None, code_slice.exchanging)
        counts, _ = run_blocks(flow, code, threads, len(ctas), width, most_steps=most_steps, leaper=leaper)
        parts.append(counts.max(axis=1))
    return np.concatenate(parts)


def probe_registers(kernel: CompiledKernel, ctas: Array, warps: tuple[int, int] | None = None) -> dict[str, Value]:
    """Special registers of the probe threads: the first and last lane of the first and last warp of each CTA.

    Each is taken for a warp of one lane: arrays of (CTAs, 4, 1). Args: warps: these, in the place of those two.
    """
    special = kernel.special_registers(ctas)
    first, last = warps or (0, kernel.warps - 1)
    ends = [_last_lane(kernel, warp) for warp in (first, last)]
    lanes = np.array([0, ends[0], 0, ends[1]], dtype=np.int64).reshape(1, PROBES, 1)
    warp = np.array([first, first, last, last], dtype=np.int64).reshape(1, PROBES, 1)
    special["SR_LANEID"] = lanes, True
    special["SR_LTMASK"] = lanes_below(lanes), True
    return special | thread_numbers(lanes + WARP_THREADS * warp, kernel.resources.threads)


def _last_lane(kernel: CompiledKernel, warp: int) -> int:
    """The last lane of a warp; the last warp of a CTA may not be full."""
    threads = prod(kernel.resources.threads) if kernel.resources.threads else kernel.warps * WARP_THREADS
    return min(threads - warp * WARP_THREADS, WARP_THREADS) - 1
