"""Which mbarrier waits are for which arrivals, and what bulk copies and stores move, as far as code and ways tell.

The copies that a kernel without specialised warps announces are waited for one after the other, in that order.
Specialised warps have a ring of mbarriers for each thing that they pass on: a *channel*, told by the offset in shared
memory that all instructions on it name. Who gives room back finds as many places free at the begin as it has stages.
"""

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np

from ..core.sm import tables as sm
from ..launch.program import Launch
from ..launch.walk import moved_bytes, steps
from ..limits import SMEM_LINE_BYTES
from ..sass.decode import Instruction
from ..trace.ways import Ways
from .match_steps import Part, Share

OFFSET = re.compile(r"\+0x([0-9a-f]+)\]$")
ON_CHANNELS = (sm.EXPECT, sm.BULK_WAIT, sm.ARRIVE)


def join_mbarriers(launch: Launch, ways: Ways, code: np.ndarray) -> None:
    """Enter who leads, and on which channel it goes, where an instruction is about mbarriers.

    Raises:
        ValueError: more channels than the simulation has; one line.
    """
    flow = ways.flow
    leaders: dict[int, int] = {}
    for warp in range(len(ways.warps)):
        for number in {number for number, _ in ways.executed(warp)}:
            leaders.setdefault(number, warp)
    for number, block in enumerate(flow.blocks):
        code[block.first : block.stop, sm.LEADER] = leaders.get(number, -1)
    if not launch.consumer_warps:
        code[code[:, sm.KIND] == sm.EXPECT, sm.ARGUMENT] = sm.CHANNELS
        code[code[:, sm.KIND] == sm.BULK_WAIT, sm.ARGUMENT] = -1
        return
    on_channels = [place for place in range(len(code)) if code[place, sm.KIND] in ON_CHANNELS]
    offsets = sorted({_offset(flow.instructions[place]) for place in on_channels})
    if len(offsets) > sm.CHANNELS:
        raise ValueError(f"kernel {launch.name}: {len(offsets)} rings of mbarriers; at most {sm.CHANNELS} are followed")
    given_back = {_offset(flow.instructions[place]) for place in on_channels if code[place, sm.KIND] == sm.ARRIVE}
    for place in on_channels:
        offset = _offset(flow.instructions[place])
        extra = launch.num_stages if offset in given_back else 0
        if code[place, sm.KIND] == sm.EXPECT:
            extra = _copies_after(code, place)
        code[place, sm.ARGUMENT] = offsets.index(offset) + sm.CHANNELS * extra


def _offset(instruction: Instruction) -> int:
    found = [match for operand in instruction.operands if (match := OFFSET.search(operand))]
    return int(found[0][1], 16) if found else 0


def _copies_after(code: np.ndarray, place: int) -> int:
    """Bulk copies between an announcement and the next one."""
    later = code[place + 1 :, sm.KIND]
    ends = np.flatnonzero(later == sm.EXPECT)
    return int((later[: ends[0] if len(ends) else None] == sm.BULK).sum())


def fill_bulk_copies(
    launch: Launch,
    ways: Ways,
    shares: Mapping[Part, Share],
    executed: Mapping[str, int],
    code: np.ndarray,
    rates: np.ndarray,
) -> None:
    """Enter what a bulk copy moves, which its instruction does not tell: an even part of what its step loads by TMA."""
    moved = {
        step.name: executed[step.name]
        * sum(
            moved_bytes(launch.program.tensor(tile.tensor), tile.rows, tile.cols)
            for tile in step.loads
            if tile.path == "tma"
        )
        for step, _ in steps(launch.program.body)
    }
    copies: dict[int, Counter[int]] = {}
    for warp in range(len(ways.warps)):
        for number, region in ways.executed(warp):
            here = ways.flow.blocks[number]
            for place in range(here.first, here.stop):
                if code[place, sm.KIND] == sm.BULK and code[place, sm.LEADER] == warp:
                    copies.setdefault(region, Counter())[place] += 1
    rest = float(sum(moved.values()))
    straight: Counter[int] = Counter()
    for region, places in copies.items():
        inside = region >= 0 and ways.regions[region].leaf
        share = shares.get(Part(region))
        if not inside or share is None:
            straight += places
            continue
        # What is copied ahead of a loop is what its first iterations need.
        wanted = share.times * sum(executed[name] for name in share.steps)
        total = sum(moved[name] for name in share.steps) * ways.regions[region].count / wanted
        rest -= total
        for place in places:
            rates[place, sm.SMEM] = total / sum(places.values()) / SMEM_LINE_BYTES
    for place in straight:
        rates[place, sm.SMEM] = max(0.0, rest) / sum(straight.values()) / SMEM_LINE_BYTES


def fill_bulk_stores(
    launch: Launch, ways: Ways, executed: Mapping[str, int], code: np.ndarray, rates: np.ndarray
) -> None:
    """The same for bulk stores: what a kernel stores is known. Args: executed: step -> executions in the CTA."""
    wanted = 0
    for step, _ in steps(launch.program.body):
        for tile in step.stores:
            tensor = launch.program.tensor(tile.tensor)
            elements = min(tile.rows, tensor.rows) * min(tile.cols, tensor.cols)
            wanted += executed[step.name] * elements * tensor.element_bytes
    stores = code[:, sm.KIND] == sm.BULK_WRITE
    issued = 0
    for place in np.flatnonzero(stores):
        leader = int(code[place, sm.LEADER])
        block = next(number for number, one in enumerate(ways.flow.blocks) if one.first <= place < one.stop)
        issued += sum(number == block for number, _ in ways.executed(leader)) if leader >= 0 else 0
    if issued:
        rates[stores, sm.SMEM] = wanted / issued / SMEM_LINE_BYTES
