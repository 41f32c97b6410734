"""How often each block of compiled code runs, for every warp of a launch.

The deciding instructions of the code are run for all threads of all CTAs at a time, with the launch's own arguments:
trip counts come out as the code computes them, with whatever the compiler has peeled, unrolled, pipelined or
given to some warps alone, and nothing of the schedule needs to be known.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..emulator.compile_blocks import compile_blocks
from ..emulator.run_blocks import Order, run_blocks
from ..emulator.thread_values import Array
from ..emulator.threads import Threads, special_registers
from ..launch.program import Launch
from ..sass.flow import Flow
from .control_slice import control_slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Executions:
    """What the warps of a launch run.

    Args:
        counts: how often each block runs; axes CTA, warp, block; CTAs from 0 on, as many as had to be followed.
        reconvergences: how often a part of a diverged warp reached the block where the warp reconverges after another
            part of it; each part issues the BSYNC there by itself. Axes as of counts.
        copies: how many CTAs of the launch do as each of those does.
    """

    counts: Array
    reconvergences: Array
    copies: Array

    def instructions(self, flow: Flow) -> int:
        """Instructions that all warps of the launch issue, guarded ones included, whether or not their guard holds."""
        sizes = np.array([block.stop - block.first for block in flow.blocks], dtype=np.int64)
        issued = self.counts.sum(axis=1) @ sizes + self.reconvergences.sum(axis=(1, 2))
        return int((issued * self.copies).sum())

    def per_place(self, flow: Flow) -> Array:
        """How often each instruction runs in the whole launch, all warps together; in order of address."""
        blocks, again = (np.einsum("cwb,c->b", counts, self.copies) for counts in (self.counts, self.reconvergences))
        places = np.repeat(blocks, [block.stop - block.first for block in flow.blocks])
        places[[block.first for block in flow.blocks]] += again
        return places


def executions(flow: Flow, launch: Launch, constants: Mapping[int, int]) -> Executions:
    """Follow the CTAs of a launch through its code.

    Args:
        launch: with the resources of the compiled kernel, for the warps that the compiler has added.
        constants: address in constant bank 0 [B] -> 32-bit word (see `constant_bank`).

    Raises:
        CannotFollow: a branch depends on something that is not known before the launch, or the code does not end.
    """
    count, program = launch.cta_count, launch.program
    followed = min(program.period_items, count) if program.item_count == count else count
    copies = np.full(followed, count // followed, dtype=np.int64)
    counts, reconvergences = _follow(flow, launch, constants, np.arange(followed))
    return Executions(counts=counts, reconvergences=reconvergences, copies=copies)


def executed_instructions(flow: Flow, launch: Launch, constants: Mapping[int, int]) -> int:
    """Instructions that the warps of a launch issue. Args and Raises: as `executions`."""
    return executions(flow, launch, constants).instructions(flow)


def paths(flow: Flow, launch: Launch, constants: Mapping[int, int], cta: int = 0) -> tuple[tuple[int, ...], ...]:
    """The blocks that each warp of one CTA runs, in order.

    Args:
        cta: number of the CTA, x fastest; the rest, and Raises, as in `executions`.
    """
    order: Order = []
    _follow(flow, launch, constants, np.array([cta]), order)
    blocks: list[list[int]] = [[] for _ in range(launch.warps_per_cta)]
    for block, present in order:
        for warp in np.flatnonzero(np.broadcast_to(present, (1, len(blocks), 1))):
            blocks[warp].append(block)
    return tuple(tuple(path) for path in blocks)


def _follow(
    flow: Flow, launch: Launch, constants: Mapping[int, int], ctas: Array, order: Order | None = None
) -> tuple[Array, Array]:
    """Counts and reconvergences as in `Executions`; appends to `order` which warps run what, in order."""
    warps = launch.warps_per_cta
    special = special_registers(launch.grid, ctas, warps, threads=launch.resources.threads)
    threads = Threads(constants=constants, special=special)
    return run_blocks(flow, compile_blocks(flow, control_slice(flow)), threads, len(ctas), warps, order)
