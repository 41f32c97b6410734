"""The way of a warp through compiled code, for chosen trips of each loop: what `core.sm` walks.

Loops that only test an mbarrier, or nothing at all, until it lets them go are passed through once.
A working loop is any that calculates or moves data.
The way stays in a loop until its trips are done, and otherwise goes straight on.
"""

from collections.abc import Mapping

import numpy as np

from .sass.flow import Flow

WORK = tuple(
    [
        "HGMMA",
        "QGMMA",
        "IGMMA",
        "HMMA",
        "IMMA",
        "QMMA",
        "MUFU",
        "FFMA",
        "FADD",
        "FMUL",
        "F2F",
        "LD",
        "ST",
        "UTMA",
        "RED",
        "ATOM",
    ]
)
"""Begins of the families that calculate or move data."""
MOST_BLOCKS = 1_000_000
HEADER, AFTER = 0, 1
"""Marks of a stretch: 2 * loop + HEADER where an iteration begins, 2 * loop + AFTER where the loop has been left."""


def working_loops(flow: Flow) -> tuple[int, ...]:
    """Numbers of the loops that do something, in order of address."""
    return tuple(
        number
        for number, loop in enumerate(flow.loops)
        if any(one.family.startswith(WORK) for block in loop.blocks for one in flow.code(block))
    )


def find_trace(flow: Flow, trips: Mapping[int, int]) -> np.ndarray:
    """Stretches of code that a warp walks from the entry to its end.

    Args:
        trips: loop -> iterations each time that it is entered; others run once.

    Returns:
        int64 (stretches, 3): first instruction, one past the last, mark or -1.

    Raises:
        ValueError: the way comes to no end.
    """
    headers = {loop.header: number for number, loop in enumerate(flow.loops)}
    inner = [flow.loop_of(block) for block in range(len(flow.blocks))]
    entered: dict[int, int] = {}
    stretches: list[tuple[int, int, int]] = []
    block, before = 0, -1
    while len(stretches) < MOST_BLOCKS:
        mark = -1
        if block in headers:
            number = headers[block]
            inside = before in flow.loops[number].blocks
            entered[number] = entered.get(number, 0) + 1 if inside else 1
            mark = 2 * number + HEADER
        elif before >= 0 and inner[before] >= 0 and block not in flow.loops[inner[before]].blocks:
            mark = 2 * inner[before] + AFTER
        here = flow.blocks[block]
        stretches.append((here.first, here.stop, mark))
        number = inner[block]
        leaves = flow.instructions[here.stop - 1].family == "EXIT"
        if not here.successors or (leaves and number >= 0 and entered[number] >= trips.get(number, 1)):
            return np.array(stretches, dtype=np.int64)
        before, block = block, _next(flow, block, headers, inner, entered, trips)
    raise ValueError(f"a warp's way through the code is longer than {MOST_BLOCKS} blocks")


def _next(
    flow: Flow,
    block: int,
    headers: dict[int, int],
    inner: list[int],
    entered: dict[int, int],
    trips: Mapping[int, int],
) -> int:
    successors = flow.blocks[block].successors
    if len(successors) == 1:
        return successors[0]
    taken, straight = successors[0], successors[-1]
    for ahead, other in ((taken, straight), (straight, taken)):
        if ahead in headers and block in flow.loops[headers[ahead]].blocks:
            number = headers[ahead]
            return ahead if entered[number] < trips.get(number, 1) else other
    number = inner[block]
    if number >= 0:
        blocks = flow.loops[number].blocks
        over = entered[number] > trips.get(number, 1)
        if straight not in blocks:
            return straight if over else taken
        if taken not in blocks:
            return taken if over else straight
    return straight
