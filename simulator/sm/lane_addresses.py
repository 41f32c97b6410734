"""What each memory instruction really moves, line by line and bank by bank, instead of what its opcode says.

In: the code of a launch and the ways of a CTA; out: rates of its loads, copies, stores and accesses to shared memory,
from the addresses of lanes in CTAs all over the grid (`sass.accesses`), and copies that nobody makes taken out.
What is not known keeps what the opcode says.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ..core.sm import tables as sm
from ..device.sm_numbers import SmNumbers
from ..launch.program import Launch
from ..limits import LINE_SECTORS, SECTOR_BYTES, WARP_THREADS
from ..trace.accesses import Access, accesses
from ..trace.executions import special_registers
from ..trace.ways import OUTSIDE, Ways

LOOKED_AT, APART = 16, 0.6180339887
"""CTAs that are looked at, and how far apart, in grids: tiles at edges count about as often as they are there."""
COPIES = frozenset({sm.COPY, sm.BULK, sm.EXPECT})
ELEMENT_SHARE = 0.125
"""Of a sector's bytes that a store of single elements moves, 16 B apart: `l2_write_part_sector_factor` is of those."""


def enter_accesses(
    launch: Launch,
    ways: Ways,
    constants: Mapping[int, int],
    code: np.ndarray,
    rates: np.ndarray,
    sm_numbers: SmNumbers,
    ctas: Sequence[int] = (),
) -> None:
    """Enter lines, sectors and bank conflicts.

    Args:
        launch: with the grid that `constants` tell of; ways: of one of its CTAs; constants: as in `program.Code`;
        code, rates: as in `core.sm`; sm_numbers: of the SM that runs it.
        ctas: that all go the same ways, and take part in the same copies; some of the whole grid where none are named.
    """
    least = sm_numbers.lsu_interval_cycles
    spread = np.unique((np.arange(LOOKED_AT) * APART % 1.0 * launch.cta_count).astype(np.int64))
    special = special_registers(launch.grid, np.array(ctas) if ctas else spread, launch.warps_per_cta)
    region_of = ways.first_regions()
    found = accesses(ways.flow, _visits(ways, 1), constants, special)
    # What does not run in the first iteration of an innermost loop, or runs ahead there, may in others.
    inside = {place for place, region in region_of.items() if region != OUTSIDE and ways.regions[region].leaf}
    idle = {place for place, access in found.items() if not access.lanes and code[place, sm.KIND] in COPIES}
    if idle & inside:
        again = accesses(ways.flow, _visits(ways, 2), constants, special)
        idle -= {place for place in inside if place not in again or again[place].lanes}
    code[list(idle), sm.KIND] = sm.PLAIN
    for place, access in found.items():
        kind, row = code[place, sm.KIND], rates[place]
        if place in inside and not access.lanes:
            continue
        if kind == sm.SHARED:
            row[sm.SMEM] = access.passes
            row[sm.INTERVAL] = max(least, access.passes)
            row[sm.PASSES] = max(1.0, access.passes)
        elif kind == sm.WRITE:
            row[sm.SMEM] = _lines_out(access, sm_numbers)
            row[sm.INTERVAL] = max(least, row[sm.SMEM])
        elif kind == sm.LOAD and access.again > 0.5:
            code[place, sm.KIND] = sm.AGAIN
            row[sm.SMEM] = access.lines
        elif kind == sm.LOAD:
            row[sm.SMEM], row[sm.TAGS] = access.sectors / LINE_SECTORS, access.lines
        elif kind == sm.COPY:
            share = access.lanes / WARP_THREADS if place in inside and not ctas else 1.0
            row[sm.SMEM], row[sm.TAGS] = access.passes / share, access.lines / share


def _visits(ways: Ways, most: int) -> list[tuple[int, ...]]:
    """Per warp the blocks that it runs, each so often at most."""
    found = []
    for warp in range(len(ways.warps)):
        seen: Counter[int] = Counter()
        blocks = []
        for block, _ in ways.executed(warp):
            seen[block] += 1
            if seen[block] <= most:
                blocks.append(block)
        found.append(tuple(blocks))
    return found


def _lines_out(access: Access, its: SmNumbers) -> float:
    """Lines that leave the SM; the less of its sectors is moved, the longer they take."""
    if not access.sectors:
        return 0.0
    left = 1.0 - access.moved_bytes / (access.sectors * SECTOR_BYTES)
    longer = its.l2_write_part_sector_factor - 1.0
    return access.sectors / LINE_SECTORS * (1.0 + longer * min(1.0, left / (1.0 - ELEMENT_SHARE)))
