"""How often each block of compiled code runs, for every warp of a launch.

The deciding instructions of the code are run for all threads of all CTAs at a time, with the launch's own arguments:
trip counts come out as the code computes them, with whatever the compiler has peeled, unrolled, pipelined or
given to some warps alone, and nothing of the schedule needs to be known.
Threads that diverge wait for each other at the lowest address, as structured code does at its reconvergence points.
Waits succeed at once: a warp that polls longer executes a few instructions more than are counted here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..jobs.stopping import check_wanted
from ..launch.program import Launch
from ..limits import WARP_THREADS
from ..refusal import CannotFollow
from ..sass.flow import Flow
from .barriers import Barriers
from .jumps import Barrier, Prepared, prepare
from .leap.leaper import Leaper
from .operands import Threads
from .values import SHAPE, Array, Value, small

Order = list[tuple[int, Array]]
"""Blocks in the order in which they are run, each with the warps that are there."""
MAX_STEPS = 2_000_000
"""Blocks that are gone through before code is taken to be endless; the longest loops of an attention take 100,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executions:
    """What the warps of a launch run.

    Args:
        counts: how often each block runs; axes CTA, warp, block; CTAs from 0 on, as many as had to be followed.
        rejoins: how often a part of a diverged warp reached the block where the warp reconverges after another part of
            it; each part issues the BSYNC there by itself. Axes as of counts.
        copies: how many CTAs of the launch do as each of those does.
    """

    counts: Array
    rejoins: Array
    copies: Array

    def instructions(self, flow: Flow) -> int:
        """Instructions that all warps of the launch issue, guarded ones included, whether or not their guard holds."""
        sizes = np.array([block.stop - block.first for block in flow.blocks], dtype=np.int64)
        issued = self.counts.sum(axis=1) @ sizes + self.rejoins.sum(axis=(1, 2))
        return int((issued * self.copies).sum())

    def per_place(self, flow: Flow) -> Array:
        """How often each instruction runs in the whole launch, all warps together; in order of address."""
        blocks, again = (np.einsum("cwb,c->b", counts, self.copies) for counts in (self.counts, self.rejoins))
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
    counts, rejoins = _follow(flow, launch, constants, np.arange(followed))
    return Executions(counts=counts, rejoins=rejoins, copies=copies)


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
    """Counts and rejoins as in `Executions`; appends to `order` which warps run what, in order."""
    warps = launch.warps_per_cta
    threads = Threads(constants=constants, special=special_registers(launch.grid, ctas, warps))
    return run_through(flow, prepare(flow), threads, len(ctas), warps, order)


def run_through(
    flow: Flow,
    code: Prepared,
    threads: Threads,
    ctas: int,
    warps: int,
    order: Order | None = None,
    most_steps: int = MAX_STEPS,
    leaper: Leaper | None = None,
) -> tuple[Array, Array]:
    """Run threads through code that has been made ready, block by block.

    Args:
        code: as `jumps.prepare` makes it; ctas, warps: how many there are, along the axes of `threads`.
        order: gets the blocks that are run, in order, each with the warps that are there;
        most_steps: blocks that are gone through before code is taken to be endless;
        leaper: goes through many iterations of a loop at a time; its log, if any, keeps the order of blocks.

    Returns:
        Counts and rejoins, as in `Executions`.

    Raises:
        CannotFollow: a branch depends on something that is not known, or the code does not end; one line.
    """
    counts, rejoins = ([np.zeros(SHAPE, dtype=np.int64) for _ in flow.blocks] for _ in range(2))
    meetings = {number for number in range(len(flow.blocks)) if flow.code(number)[0].family == "BSYNC"}
    groups: dict[tuple[int, int], Array] = {(0, 0): np.ones(SHAPE, dtype=np.bool_)}
    barriers = Barriers(warps)
    gone = 0
    while groups:
        check_wanted()
        if gone >= most_steps:
            raise CannotFollow(f"a loop does not end within {most_steps} steps")
        block, part = place = min(groups)
        mask = groups.pop(place)
        if leaper and part == 0 and not groups and (leap := leaper.at(block, threads, mask)):
            gone += leap.iterations * len(leap.blocks)
            for passed, present in leap.blocks:
                counts[passed] = counts[passed] + leap.iterations * present
            for passed, present in leap.rejoins:
                rejoins[passed] = rejoins[passed] + leap.iterations * present
            if order is not None:
                order += leap.blocks * leap.iterations
            groups[place] = leap.mask
            continue
        gone += 1
        if part == 0:
            present = _warps(mask)
            counts[block] = counts[block] + present
            if order is not None:
                order.append((block, present))
        steps, leave = code[block][part]
        for step in steps:
            step(threads, mask)
        if isinstance(leave, Barrier):
            going_on = barriers.arrive(leave.number, leave.warps, leave.waits, (block, part + 1), mask)
        else:
            going_on = [((target, 0), taken) for target, taken in leave(threads, mask)]
        for where, coming in going_on:
            if where[0] in meetings and where in groups:
                both = _warps(coming) & _warps(groups[where])
                rejoins[where[0]] = rejoins[where[0]] + both
            _join(groups, where, coming)
    if barriers.waiting:
        raise CannotFollow(f"warps wait at barrier {barriers.waiting[0]}, where other warps of their CTA never come")
    shape = (ctas, warps, 1)
    tables = [
        np.concatenate([np.broadcast_to(times, shape) for times in blocks], axis=2) for blocks in (counts, rejoins)
    ]
    return tables[0], tables[1]


def _warps(mask: Array) -> Array:
    """Which warps have a thread in a mask."""
    present: Array = np.logical_or.reduce(mask, axis=2, keepdims=True)
    return present


def _join(groups: dict[tuple[int, int], Array], place: tuple[int, int], mask: Array) -> None:
    there = groups.get(place)
    if there is not None:
        mask = mask | there
    # Masks that hold everywhere are kept small, so that common values stay common.
    groups[place] = np.ones(SHAPE, dtype=np.bool_) if mask.all() else small(mask)


def lanes_below(lanes: Array) -> Array:
    """Mask of the lanes of lower number, as SR_LTMASK."""
    below: Array = (np.int64(1) << lanes.astype(np.int64)) - 1
    return below


def special_registers(
    grid: tuple[int, int, int], ctas: Array, warps: int, first: tuple[int, int, int] = (0, 0, 0)
) -> dict[str, Value]:
    """What threads know of themselves.

    Args:
        grid: CTAs along x, y, z; ctas: their numbers; warps: of a CTA; first: where the CTA of number 0 stands.
    """

    def along(values: Array, axis: int) -> Value:
        shape = [1, 1, 1]
        shape[axis] = -1
        return values.astype(np.int64).reshape(shape), True

    lanes = np.arange(WARP_THREADS)
    zero = along(np.zeros(1), 0)
    return {
        "SR_TID.X": (
            np.arange(warps * WARP_THREADS, dtype=np.int64).reshape(1, warps, WARP_THREADS),
            True,
        ),
        "SR_TID.Y": zero,
        "SR_TID.Z": zero,
        "SR_LANEID": along(lanes, 2),
        "SR_LTMASK": along(lanes_below(lanes), 2),
        "SR_CTAID.X": along(first[0] + ctas % grid[0], 0),
        "SR_CTAID.Y": along(first[1] + ctas // grid[0] % grid[1], 0),
        "SR_CTAID.Z": along(first[2] + ctas // (grid[0] * grid[1]), 0),
        "SR_CgaCtaId": zero,
    }
