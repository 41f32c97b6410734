"""Threads that run through compiled blocks, those of lowest address first.

Threads that diverge wait for each other at the lowest address, as structured code does at its reconvergence points.
Waits succeed at once: a warp that polls longer executes a few instructions more than are counted here.
"""

import numpy as np

from ..jobs.stopping import check_wanted
from ..refusal import CannotFollow
from ..sass.flow import Flow
from .compile_blocks import Barrier, CompiledBlocks
from .leap.leaper import Leaper
from .thread_values import SHAPE, TRUE, Array, holds_for_all, small
from .threads import Threads, existing

Order = list[tuple[int, Array]]
"""Blocks in the order in which they are run, each with the warps that are there."""
Arrivals = list[tuple[int, int, int, Array]]
"""Warps that come to barriers, in order: place of the instruction, number, warps that it takes (0: all), and which."""
MAX_STEPS = 2_000_000
"""Blocks that are gone through before code is taken to be endless; the longest loops of an attention take 100,000."""
Place = tuple[int, int]
"""A block, and the number of its barriers that were passed."""


class Barriers:
    """Who waits where. Args: warps: of a CTA."""

    def __init__(self, warps: int) -> None:
        self._warps = warps
        self._waiting: dict[int, dict[Place, Array]] = {}
        self._arrived: dict[int, Array] = {}

    def refuse_waiting(self) -> None:
        """Raises: CannotFollow: some warp still waits at a barrier; one line."""
        for number in sorted(number for number, places in self._waiting.items() if places):
            raise CannotFollow(f"warps wait at barrier {number}, where other warps of their CTA never come")

    def arrive(self, number: int, warps: int, waits: bool, place: Place, mask: Array) -> list[tuple[Place, Array]]:
        """Warps come to a barrier.

        Args:
            warps: how many it takes, 0: all of the CTA; waits: whether they stay until then, or only report.
            place: where they go on; mask: which threads.

        Returns:
            Who goes on, and where.
        """
        present = mask.any(axis=2, keepdims=True)
        shape = np.broadcast_shapes(present.shape, (1, self._warps, 1))
        arrived = np.broadcast_to(present, shape) | self._arrived.get(number, False)
        complete = arrived.sum(axis=1, keepdims=True) >= (warps or self._warps)
        self._arrived[number] = arrived & ~complete
        there = self._waiting.setdefault(number, {})
        if waits:
            there[place] = mask | there.get(place, False)
        released = [(where, them & complete) for where, them in there.items()]
        left = {where: them & ~complete for where, them in there.items()}
        self._waiting[number] = {where: them for where, them in left.items() if them.any()}
        going_on = [(where, them) for where, them in released if them.any()]
        return going_on if waits else [*going_on, (place, mask)]


def run_blocks(
    flow: Flow,
    code: CompiledBlocks,
    threads: Threads,
    ctas: int,
    warps: int,
    order: Order | None = None,
    most_steps: int = MAX_STEPS,
    leaper: Leaper | None = None,
    log: Arrivals | None = None,
) -> tuple[Array, Array]:
    """Run threads through compiled code, block by block.

    Args:
        code: as `compile_blocks` makes it; ctas, warps: how many there are, along the axes of `threads`.
        order: gets the blocks that are run, in order, each with the warps that are there;
        most_steps: blocks that are gone through before code is taken to be endless;
        leaper: goes through many iterations of a loop at a time; its log, if any, keeps the order of blocks;
        log: gets what comes to barriers, in order.

    Returns:
        How often each block runs, axes CTA, warp, block; and how often a part of a diverged warp reached the block
        where the warp reconverges after another part of it, axes alike.

    Raises:
        CannotFollow: a branch depends on something that is not known, or the code does not end; one line.
    """
    counts, reconvergences = ([np.zeros(SHAPE, dtype=np.int64) for _ in flow.blocks] for _ in range(2))
    meetings = {number for number in range(len(flow.blocks)) if flow.code(number)[0].family == "BSYNC"}
    groups: dict[tuple[int, int], Array] = {(0, 0): existing(threads.special)}
    barriers, gone = Barriers(warps), 0
    while groups:
        check_wanted()
        if gone >= most_steps:
            raise CannotFollow(f"a loop does not end within {most_steps} steps")
        block, part = place = min(groups)
        mask = groups.pop(place)
        if leaper and part == 0 and not groups and (leap := leaper.at(block, threads, mask)):
            gone += leap.iterations * len(leap.blocks)
            _add(counts, leap.blocks, leap.iterations, order)
            _add(reconvergences, leap.reconvergences, leap.iterations)
            groups[place] = leap.mask
            continue
        gone += 1
        if part == 0:
            _add(counts, [(block, _warps(mask))], order=order)
        steps, leave = code[block][part]
        for step in steps:
            step(threads, mask)
        if isinstance(leave, Barrier):
            going_on = _past(leave, (block, part + 1), threads, mask, barriers, log)
        else:
            going_on = [((target, 0), taken) for target, taken in leave(threads, mask)]
        for where, coming in going_on:
            _add(reconvergences, _join(groups, where, coming, where[0] in meetings))
    barriers.refuse_waiting()
    return _table(counts, ctas, warps), _table(reconvergences, ctas, warps)


def _past(
    barrier: Barrier, behind: Place, threads: Threads, mask: Array, barriers: Barriers, log: Arrivals | None
) -> list[tuple[Place, Array]]:
    """Who goes on where threads come to a barrier. Args: behind: where that is; log: as of `run_blocks`."""
    passing, arrivals = barrier.arrivals(threads, mask)
    going_on = [(behind, passing)] if passing.any() else []
    for number, takes, who in arrivals:
        going_on += barriers.arrive(number, takes, barrier.waits, behind, who)
        if log is not None:
            log.append((barrier.place, number, takes, _warps(who)))
    return going_on


def _add(counts: list[Array], passes: Order, times: int = 1, order: Order | None = None) -> None:
    """Count passes through blocks, all of them equally often. Args: order: gets them."""
    for block, present in passes:
        counts[block] = counts[block] + (present if times == 1 else times * present)
    if order is not None:
        order += passes * times


def _table(counts: list[Array], ctas: int, warps: int) -> Array:
    """Counts of blocks as one array, axes CTA, warp, block."""
    return np.concatenate([np.broadcast_to(times, (ctas, warps, 1)) for times in counts], axis=2)


def _warps(mask: Array) -> Array:
    """Which warps have a thread in a mask."""
    present: Array = np.logical_or.reduce(mask, axis=2, keepdims=True)
    return present


def _join(groups: dict[tuple[int, int], Array], place: tuple[int, int], mask: Array, meets: bool) -> Order:
    """Let threads go on at a place. Args: meets: whether warps reconverge there. Returns: those that do now."""
    there = groups.get(place)
    met = [(place[0], _warps(mask) & _warps(there))] if meets and there is not None else []
    if there is not None:
        mask = mask | there
    # Masks that hold everywhere are kept small, so that common values stay common.
    groups[place] = TRUE[0] if holds_for_all(mask) else small(mask)
    return met
