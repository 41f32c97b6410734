"""Which loads of compiled code L1 serves, and what the code spills: by region, for the steps that these belong to.

Of a region's loads as large a share hits, evenly spread, as of its steps' tiles (`l1_reuse`).
Spilled registers lie at fixed places of the stack, so that the code tells how much of it a region touches,
and what of that it reads before it has written it.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .core import sm_tables as sm
from .device import Device
from .l1_reuse import Served, served_by_l1
from .program import Launch
from .sass.decode import Instruction
from .sass.opcodes import thread_bytes
from .sm_steps import Part, Share
from .sm_way import Ways

WARP_THREADS = 32
WORD_BYTES = 4
STACK_PLACE = re.compile(r"\[R1(?:\+(-?0x[0-9a-f]+))?\]")


@dataclass(frozen=True, slots=True)
class Spilled:
    """Different bytes of spilled registers of a CTA. Args: touched: in a step; kept: of them, read before written."""

    touched: int = 0
    kept: int = 0


def find_spilled(launch: Launch, ways: Ways, shares: Mapping[Part, Share]) -> dict[str, Spilled]:
    """What each step touches of its CTA's spilled registers; the most, where it has several parts of the code."""
    touched: Counter[int] = Counter()
    kept: Counter[int] = Counter()
    for way, warps in Counter(ways.warps).items():
        read: dict[int, set[int]] = {}
        seen: dict[int, set[int]] = {}
        for number, region in dict.fromkeys(ways.executed(ways.warps.index(way))):
            block = ways.flow.blocks[number]
            for one in ways.flow.instructions[block.first : block.stop]:
                if one.family in ("LDL", "STL"):
                    words = _words(one, launch.resources.spilled_bytes_per_thread)
                    before = seen.setdefault(region, set())
                    if one.family == "LDL":
                        read.setdefault(region, set()).update(words - before)
                    before |= words
        for region, words in seen.items():
            touched[region] += len(words) * WORD_BYTES * WARP_THREADS * warps
            kept[region] += len(read.get(region, ())) * WORD_BYTES * WARP_THREADS * warps
    found: dict[str, Spilled] = {}
    for part, share in shares.items():
        own = Spilled(touched[part.region], kept[part.region])
        for name in share.steps:
            found[name] = max(found.get(name, Spilled()), own, key=lambda one: one.touched)
    return found


def serve_from_l1(
    launch: Launch,
    device: Device,
    resident: int,
    item: int,
    ways: Ways,
    shares: Mapping[Part, Share],
    spilled: Mapping[str, Spilled],
    code: np.ndarray,
) -> None:
    """Turn loads from L2 (LOAD) that hit L1 into reads of shared memory (SHARED), which is the same memory.

    Args:
        resident: CTAs of an SM; item: whose steps are followed; shares: who pays for which part of the code;
        spilled: by step; code: as in `core.sm`.
    """
    served = served_by_l1(launch, device, resident, item, {name: one.touched for name, one in spilled.items()})
    region_of = _regions(ways)
    due: dict[tuple[int, int], float] = {}
    for place in np.flatnonzero(code[:, sm.KIND] == sm.LOAD):
        if place not in region_of:
            continue
        region, of_stack = region_of[place], int(code[place, sm.ARGUMENT])
        steps = {name for part, share in shares.items() if part.region == region for name in share.steps}
        hits = [served.get(name, Served()) for name in steps]
        share = max((one.spilled if of_stack else one.plain for one in hits), default=0.0)
        due[region, of_stack] = due.get((region, of_stack), 0.5) + share
        if due[region, of_stack] >= 1.0:
            due[region, of_stack] -= 1.0
            code[place, sm.KIND], code[place, sm.ARGUMENT] = sm.SHARED, 0


def _regions(ways: Ways) -> dict[int, int]:
    """Instruction -> region in which a warp runs it first."""
    found: dict[int, int] = {}
    for way in dict.fromkeys(ways.warps):
        for number, region in dict.fromkeys(ways.executed(ways.warps.index(way))):
            block = ways.flow.blocks[number]
            for place in range(block.first, block.stop):
                found.setdefault(place, region)
    return found


def _words(one: Instruction, stack_bytes: int) -> set[int]:
    """Words of a thread's stack that an instruction reads or writes; all of them where it does not tell."""
    found = STACK_PLACE.search(" ".join(one.operands))
    if not found:
        return set(range(stack_bytes // WORD_BYTES))
    first = int(found.group(1) or "0", 16) // WORD_BYTES
    return set(range(first, first + max(1, thread_bytes(one) // WORD_BYTES)))
