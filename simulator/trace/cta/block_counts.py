"""How often each CTA of a launch executes each basic block: many CTAs at a time, by four probe threads of each.

Probe threads are the first and the last lane of the first and of the last warp: where code branches at the edges of a
tile, these do. Where they run different blocks in some CTA, as where warps beyond a tile exit, the two lanes of every
warp are followed. Where branches depend on what threads exchange, all threads are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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

PROBES_AT_ONCE = 1 << 17
"""Probe threads that are followed at a time, to bound memory."""
THREADS_AT_ONCE = 1 << 18
"""Threads where all of each CTA are followed: their state stays in the caches of the host's processor."""
ENDS = 2
"""Probe threads of a warp."""
PROBES = 2 * ENDS
"""Probe threads of a CTA."""


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """Which blocks CTAs run.

    Args:
        executions: of each block, in the warp of a CTA that executes it most often, int64 (CTAs, blocks);
        warps: how many of the warps that were followed execute it at all, int64 (CTAs, blocks).
    """

    executions: Array
    warps: Array


def count_blocks(
    subject: TracedKernel, doubts: UnknownValues, ctas: Sequence[int] | None = None, most_steps: int = MAX_STEPS
) -> BlockCounts:
    """Which blocks each CTA runs, and how often.

    Args:
        ctas: numbers of CTAs, all where None; most_steps: as of `run_blocks`.

    Raises:
        Refused: a branch depends on what is not known.
        ValueError: the code does not end; one line.
    """
    code_slice = find_deciding_slice(subject)
    counted = range(subject.kernel.ctas) if ctas is None else ctas
    warps = range(subject.kernel.warps)
    if not code_slice.all_threads:
        try:
            ends = _count(subject, code_slice, doubts, counted, most_steps, (warps[0], warps[-1]))
            alike = len(warps) <= 2 or not (ends.warps == 1).any()
            return ends if alike else _count(subject, code_slice, doubts, counted, most_steps, warps)
        except LanesDiffer:
            pass
    return _count(subject, code_slice, doubts, counted, most_steps, None)


def _count(
    subject: TracedKernel,
    code_slice: AddressSlice,
    doubts: UnknownValues,
    counted: Sequence[int],
    most_steps: int,
    ends_of: Sequence[int] | None,
) -> BlockCounts:
    """The same. Args: ends_of: warps of which two lanes are followed, which wait at no barrier; None: all threads."""
    kernel, flow, places = subject.kernel, subject.flow, code_slice.places
    if ends_of is not None:
        places = tuple(tuple(p for p in block if flow.instructions[p].family not in BARRIERS) for block in places)
    code = compile_blocks(flow, places, access_steps(subject, code_slice, doubts, lambda *_: None), doubts.settle)
    may_leap = Tracer(subject, code_slice, doubts).may_leap
    width = kernel.warps if ends_of is None else ENDS * len(ends_of)
    step = max(1, (THREADS_AT_ONCE // WARP_THREADS if ends_of is None else PROBES_AT_ONCE) // width)
    executions, warps = [], []
    for begin in range(0, len(counted), step):
        ctas = np.array(counted[begin : begin + step], dtype=np.int64)
        special = kernel.special_registers(ctas) if ends_of is None else probe_registers(kernel, ctas, ends_of)
        threads = Threads(constants=subject.constants, special=special, whole=ends_of is None)
        leaper = Leaper(flow, code, places, len(ctas), may_leap, None, code_slice.exchanging)
        counts, _ = run_blocks(flow, code, threads, len(ctas), width, most_steps=most_steps, leaper=leaper)
        by_warp = counts.reshape(len(ctas), -1, 1 if ends_of is None else ENDS, len(flow.blocks))
        executions.append(counts.max(axis=1))
        warps.append(by_warp.any(axis=2).sum(axis=1))
    return BlockCounts(np.concatenate(executions), np.concatenate(warps))


def probe_registers(kernel: CompiledKernel, ctas: Array, warps: Sequence[int]) -> dict[str, Value]:
    """Special registers of the first and the last lane of some warps of each CTA.

    Each is taken for a warp of one lane: arrays of (CTAs, 2 * warps, 1).
    """
    special = kernel.special_registers(ctas)
    lanes = np.array([lane for warp in warps for lane in (0, _last_lane(kernel, warp))], dtype=np.int64)
    lanes = lanes.reshape(1, -1, 1)
    special["SR_LANEID"] = lanes, True
    special["SR_LTMASK"] = lanes_below(lanes), True
    numbers = lanes + WARP_THREADS * np.repeat(np.array(warps, dtype=np.int64), ENDS).reshape(1, -1, 1)
    return special | thread_numbers(numbers, kernel.resources.threads)


def _last_lane(kernel: CompiledKernel, warp: int) -> int:
    """The last lane of a warp; the last warp of a CTA may not be full."""
    threads = prod(kernel.resources.threads) if kernel.resources.threads else kernel.warps * WARP_THREADS
    return min(threads - warp * WARP_THREADS, WARP_THREADS) - 1
