"""What each memory instruction really moves, line by line and bank by bank, instead of what its opcode says.

In: the code of a launch and the ways of a CTA; out: rates of its loads, copies, stores and accesses to shared memory,
from the addresses of lanes in CTAs all over the grid (`sass.accesses`), and copies that nobody makes taken out.
What is not known keeps what the opcode says.
"""

from collections.abc import Mapping

import numpy as np

from .core import sm_tables as sm
from .program import Launch
from .sass.accesses import LANES, LINE_BYTES, SECTOR_BYTES, Access, accesses, bytes_of
from .sass.executions import special_registers
from .sm_code import LINE_SECTORS, LSU_INTERVAL, PART_SECTOR
from .sm_way import OUTSIDE, Ways

LOOKED_AT = 16
"""CTAs, evenly spread over the grid: tiles at edges count as often as they are there, about."""
WHOLE = 0.999
"""Sectors are whole where so much of them is moved."""


def enter_accesses(
    launch: Launch, ways: Ways, constants: Mapping[int, int], code: np.ndarray, rates: np.ndarray
) -> None:
    """Enter lines, sectors and bank conflicts.

    Args:
        launch: with the grid that `constants` tell of; constants: as in `program.Code`; code, rates: as in `core.sm`.
    """
    ctas = np.unique(np.linspace(0, launch.cta_count - 1, LOOKED_AT).astype(np.int64))
    once = [tuple(dict.fromkeys(block for block, _ in ways.executed(warp))) for warp in range(len(ways.warps))]
    special = special_registers(launch.grid, ctas, launch.warps_per_cta)
    region_of = ways.first_regions()
    for place, access in accesses(ways.flow, once, constants, special).items():
        kind, row, region = code[place, sm.KIND], rates[place], region_of[place]
        # In a loop, copies run ahead: how far it goes on decides whether they do, not where the CTA is.
        ahead = region != OUTSIDE and ways.regions[region].leaf
        if kind in (sm.COPY, sm.BULK, sm.EXPECT) and not access.lanes and not ahead:
            code[place, sm.KIND] = sm.PLAIN
        elif kind == sm.SHARED:
            row[sm.SMEM] = access.passes
            row[sm.INTERVAL] = max(LSU_INTERVAL, access.passes)
            row[sm.PASSES] = max(1.0, access.passes)
        elif kind == sm.WRITE:
            row[sm.SMEM] = _lines_out(access)
            row[sm.INTERVAL] = max(LSU_INTERVAL, row[sm.SMEM])
        elif kind == sm.LOAD:
            row[sm.SMEM], row[sm.TAGS] = access.moved_bytes / LINE_BYTES, access.lines
        elif kind == sm.COPY and access.moved_bytes:
            share = access.moved_bytes / (LANES * bytes_of(ways.flow.instructions[place]))
            row[sm.TAGS] = access.lines / share if ahead else access.lines
            row[sm.SMEM] *= 1.0 if ahead else share


def _lines_out(access: Access) -> float:
    """Lines that leave the SM; a sector in parts takes longer than a whole one."""
    whole = access.moved_bytes >= WHOLE * access.sectors * SECTOR_BYTES
    return access.sectors / LINE_SECTORS * (1.0 if whole else PART_SECTOR)
