"""What each memory instruction really moves, line by line and bank by bank, instead of what its opcode says.

In: the code of a launch and the control paths of a CTA. Out: the code with lines, sectors and bank conflicts of its
loads, copies, stores and accesses to shared memory, from the addresses of lanes in CTAs all over the grid
(`trace.accesses`), and without copies that no lane takes part in.
Where an address is not known, what the opcode says stays.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from ..core.sm import instruction as sm
from ..device.sm_numbers import SmNumbers
from ..emulator.threads import special_registers
from ..launch.program import Launch
from ..limits import LINE_SECTORS, SECTOR_BYTES, WARP_THREADS
from ..trace.accesses import Access, accesses
from ..trace.nests import OUTSIDE
from ..trace.paths import CtaPaths

LOOKED_AT, APART = 16, 0.6180339887
"""CTAs that are looked at, and how far apart, in grids: tiles at edges count about as often as they are there."""
COPIES = frozenset({sm.COPY, sm.BULK_COPY, sm.EXPECT})
ELEMENT_SHARE = 0.125
"""Of a sector's bytes that a store of single elements moves, 16 B apart: `l2_write_part_sector_factor` is of those."""


def with_lane_addresses(
    code: np.ndarray,
    launch: Launch,
    paths: CtaPaths,
    constants: Mapping[int, int],
    sm_numbers: SmNumbers,
) -> np.ndarray:
    """The code with lines, sectors and bank conflicts of its memory instructions.

    Args:
        code: records of `core.sm.instruction`.
        launch: with the grid that `constants` tell of; where it is traced, CTAs like the one of `paths` take part in
            the same copies, else some of the whole grid.
        paths: of one of its CTAs.
        constants: as in `program.Code`.
        sm_numbers: of the SM that runs it.
    """
    code = code.copy()
    ctas, loads = (launch.traced[0].like, launch.traced[0].loads) if launch.traced else ((), None)
    least = sm_numbers.lsu_interval_cycles
    spread = np.unique((np.arange(LOOKED_AT) * APART % 1.0 * launch.cta_count).astype(np.int64))
    special = special_registers(
        launch.grid, np.array(ctas) if ctas else spread, launch.warps_per_cta, threads=launch.resources.threads
    )
    region_of = paths.first_regions()
    known = accesses(paths.flow, _blocks_of_warps(paths, 1), constants, special, loads)
    # What does not run in the first iteration of an innermost loop, or runs ahead there, may in others.
    inside = {place for place, region in region_of.items() if region != OUTSIDE and paths.regions[region].leaf}
    idle = {place for place, access in known.items() if not access.lanes and code[place]["kind"] in COPIES}
    if idle & inside:
        again = accesses(paths.flow, _blocks_of_warps(paths, 2), constants, special, loads)
        idle -= {place for place in inside if place not in again or again[place].lanes}
    code["kind"][list(idle)] = sm.PLAIN
    for place, access in known.items():
        row = code[place]  # a view: what is set here is set in the table
        if place in inside and not access.lanes:
            continue
        if access.words > 1.0:
            # Known: requests are split into as many as there are different places (CUDA C++ Programming Guide, constant
            # memory). Assumed: that one cache of the SM serves them (the indexed constant cache of Nsight Compute's
            # units), and each takes the interval of the table. What lanes share is left to the issue slot, as before.
            row["kind"], row["interval_cycles"] = sm.CONSTANT, row["interval_cycles"] * access.words
            row["latency_cycles"] -= row["interval_cycles"] / access.words
        if row["kind"] == sm.SHARED:
            row["smem_lines"] = access.passes
            row["interval_cycles"] = max(least, access.passes)
            row["smem_passes"] = max(1.0, access.passes)
        elif row["kind"] == sm.STORE:
            row["smem_lines"] = _lines_out(access, sm_numbers)
            row["interval_cycles"] = max(least, row["smem_lines"])
        elif row["kind"] == sm.LOAD and access.again > 0.5:
            row["kind"] = sm.REUSED_LOAD
            row["smem_lines"] = access.lines
        elif row["kind"] == sm.LOAD:
            row["smem_lines"], row["tag_lines"] = access.sectors / LINE_SECTORS, access.lines
        elif row["kind"] == sm.COPY:
            share = access.lanes / WARP_THREADS if place in inside and not ctas else 1.0
            row["smem_lines"], row["tag_lines"] = access.passes / share, access.lines / share
    return code


def with_scattered(code: np.ndarray, scattered: Mapping[int, tuple[float, int]], sm_numbers: SmNumbers) -> np.ndarray:
    """The code with accesses each of whose lanes touches a sector of its own. Args: scattered: as of `TracedCode`."""
    code = code.copy()
    for place, (lanes, size) in scattered.items():
        row = code[place]  # a view: what is set here is set in the table
        if row["kind"] == sm.STORE:
            row["smem_lines"] = _lines_out(Access(lanes=lanes, sectors=lanes, moved_bytes=lanes * size), sm_numbers)
            row["interval_cycles"] = max(sm_numbers.lsu_interval_cycles, row["smem_lines"])
        elif row["kind"] in (sm.LOAD, sm.REUSED_LOAD):
            row["kind"], row["smem_lines"], row["tag_lines"] = sm.LOAD, lanes / LINE_SECTORS, lanes
        elif row["kind"] == sm.COPY:
            row["tag_lines"] = lanes
    return code


def _blocks_of_warps(paths: CtaPaths, most: int) -> list[tuple[int, ...]]:
    """Per warp the blocks that it runs, each so often at most."""
    warps = []
    for warp in range(len(paths.warps)):
        seen: Counter[int] = Counter()
        blocks = []
        for block, _ in paths.executed(warp):
            seen[block] += 1
            if seen[block] <= most:
                blocks.append(block)
        warps.append(tuple(blocks))
    return warps


def _lines_out(access: Access, numbers: SmNumbers) -> float:
    """Lines that a store sends to L2; partly written sectors count as more, the more so the less of them is written."""
    if not access.sectors:
        return 0.0
    left = 1.0 - access.moved_bytes / (access.sectors * SECTOR_BYTES)
    longer = numbers.l2_write_part_sector_factor - 1.0
    return access.sectors / LINE_SECTORS * (1.0 + longer * min(1.0, left / (1.0 - ELEMENT_SHARE)))
