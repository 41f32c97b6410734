"""Straight code and loop bodies cut where they wait for what they have loaded: each piece becomes a step.

A step loads, waits for all of it, and works until the next one begins. So code is cut where it waits for a scoreboard
that a load since the last cut will release, or for the mbarrier of copies by TMA since then, or, in straight code, for
asynchronous copies; the work before the first
wait goes with what comes after it, and a store belongs to the step whose work it ends.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ...sass.decode import Instruction
from ..accesses import COPY
from ..cta.kinds import gives_back, is_access
from ..cta.one_cta import Position
from ..operations import is_try
from ..paths import CtaPaths
from ..tma.boxes import BOX_LOAD, is_copy

Part = tuple[int, int]
"""Region, and which piece of it, between the regions inside."""
SCOREBOARDS = 6
FETCHES = frozenset({"LDG", "LD"})
STACK = frozenset({"LDL", "STL"})
"""What moves spilled registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """How the parts of a way are cut.

    Args:
        sizes: part -> instructions of each of its phases; phase: (part, place of an access) -> phase it is issued in.
        spills: (part, phase) -> places that move spilled registers in its work, in order.
    """

    sizes: Mapping[Part, tuple[int, ...]]
    phase: Mapping[tuple[Part, int], int]
    spills: Mapping[tuple[Part, int], tuple[int, ...]]

    def of(self, part: Part, place: int, stores: bool) -> int:
        """The phase of an access. Args: stores: it belongs to the work before it, not to what comes after."""
        issued = self.phase.get((part, place), 0)
        return min(max(0, issued - 1) if stores else issued, len(self.sizes[part]) - 1)


def find_phases(ways: CtaPaths, positions: tuple[tuple[int, Position], ...]) -> Phases:
    """Cut the parts of a CTA's way.

    Args:
        positions: blocks that its warps run, in order, each with where it stands.
    """
    codes: dict[Part, dict[tuple[int, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    for block, position in positions:
        codes[position.region, position.piece][position.trips].append(block)
    sizes: dict[Part, tuple[int, ...]] = {}
    phase: dict[tuple[Part, int], int] = {}
    spills: dict[tuple[Part, int], list[int]] = defaultdict(list)
    for part, iterations in codes.items():
        # One that runs most of the code stands for all.
        blocks = max(iterations.values(), key=len)
        looped = part[0] >= 0
        code = [
            (place, ways.flow.instructions[place])
            for block in blocks
            for place in range(ways.flow.blocks[block].first, ways.flow.blocks[block].stop)
        ]
        sizes[part] = _cut(code, looped, part, phase, spills)
    return Phases(sizes=sizes, phase=phase, spills={where: tuple(places) for where, places in spills.items()})


def _cut(
    code: list[tuple[int, Instruction]],
    looped: bool,
    part: Part,
    phase: dict[tuple[Part, int], int],
    spills: dict[tuple[Part, int], list[int]],
) -> tuple[int, ...]:
    pending: set[int] = set()
    sizes, issued, copied, boxed = [0], False, False, False
    for place, one in code:
        waits = {number for number in range(SCOREBOARDS) if one.wait_mask >> number & 1}
        arrives = bool(waits & pending)
        if one.family == "DEPBAR" and copied and not looped:
            arrives, copied = True, False
        if boxed and one.family == "SYNCS" and is_try(one.opcode):
            arrives, boxed = True, False
        if arrives:
            pending -= waits
            if issued:
                sizes.append(0)
                issued = False
        if (one.family in FETCHES or gives_back(one)) and one.write_barrier >= 0:
            pending.add(one.write_barrier)
            issued = True
        if one.family == COPY and not looped:
            copied = issued = True
        if one.family == BOX_LOAD and is_copy(one):
            boxed = issued = True
        if is_access(one):
            phase.setdefault((part, place), len(sizes) - 1)
        if one.family in STACK:
            spills[part, max(0, len(sizes) - 2)].append(place)
        sizes[-1] += 1
    return (sizes[0] + sizes[1], *sizes[2:]) if len(sizes) > 1 else tuple(sizes)
