"""Phases: straight code and loop bodies, cut where they wait for what they have loaded. Each becomes a step.

A step loads, waits for all that it loads, and computes until the next step begins. So code is cut where it waits for a
scoreboard that a load since the last cut sets, for the mbarrier of copies by TMA since then, or, in straight code, for
asynchronous copies. The code before the first wait belongs to the first step, and a store to the step whose results it
stores.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ...emulator.compute.by_opcode import is_try
from ...limits import SCOREBOARDS
from ...sass.decode import Instruction
from ...sass.memory_instructions import COPY, gives_back, is_access, is_box_load
from ..paths import CtaPaths
from ..positions import Iteration, Position

Part = tuple[int, int]
"""Region, and which piece of its code: 0 before the first region inside, 1 before the second, and so on."""
FETCHES = frozenset({"LDG", "LD"})
STACK = frozenset({"LDL", "STL"})
"""Loads and stores of spilled registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """How the parts of a control path are cut.

    Args:
        sizes: part -> instructions of each of its phases; phase: (part, place of an access) -> phase that issues it;
        spills: (part, phase) -> places of loads and stores of spilled registers, in order.
    """

    sizes: Mapping[Part, tuple[int, ...]]
    phase: Mapping[tuple[Part, int], int]
    spills: Mapping[tuple[Part, int], tuple[int, ...]]

    def of(self, part: Part, place: int, stores: bool) -> int:
        """The phase of an access. Args: stores: whether it belongs to the phase before the one that issues it."""
        issued = self.phase.get((part, place), 0)
        return min(max(0, issued - 1) if stores else issued, len(self.sizes[part]) - 1)


def find_phases(paths: CtaPaths, positions: tuple[tuple[int, Position], ...]) -> Phases:
    """Cut the parts of a CTA's control path.

    Args:
        paths: of the CTA; positions: blocks that a warp runs, in order, each with its position.
    """
    codes: dict[Part, dict[Iteration, list[int]]] = defaultdict(lambda: defaultdict(list))
    for block, position in positions:
        codes[position.region, position.piece][position.iteration].append(block)
    sizes: dict[Part, tuple[int, ...]] = {}
    phase: dict[tuple[Part, int], int] = {}
    spills: dict[tuple[Part, int], list[int]] = defaultdict(list)
    for part, iterations in codes.items():
        # The iteration that runs most blocks stands for all.
        blocks = max(iterations.values(), key=len)
        looped = part[0] >= 0
        code = [
            (place, paths.flow.instructions[place])
            for block in blocks
            for place in range(paths.flow.blocks[block].first, paths.flow.blocks[block].stop)
        ]
        sizes[part] = cut_code(code, looped, part, phase, spills)
    return Phases(sizes=sizes, phase=phase, spills={where: tuple(places) for where, places in spills.items()})


def cut_code(
    code: list[tuple[int, Instruction]],
    looped: bool,
    part: Part,
    phase: dict[tuple[Part, int], int],
    spills: dict[tuple[Part, int], list[int]],
) -> tuple[int, ...]:
    """Instructions of each phase of a part.

    Args:
        code: (place, instruction), in order; looped: whether the part is in a loop;
        phase, spills: as in `Phases`, get those of the part.
    """
    pending: set[int] = set()
    sizes, issued, copied, boxed = [0], False, False, False
    for place, instruction in code:
        waits = {number for number in range(SCOREBOARDS) if instruction.wait_mask >> number & 1}
        arrives = bool(waits & pending)
        if instruction.family == "DEPBAR" and copied and not looped:
            arrives, copied = True, False
        if boxed and instruction.family == "SYNCS" and is_try(instruction.opcode):
            arrives, boxed = True, False
        if arrives:
            # The step that begins waits for all loads before it, those of other scoreboards too.
            pending.clear()
            if issued:
                sizes.append(0)
                issued = False
        if (instruction.family in FETCHES or gives_back(instruction)) and instruction.write_barrier >= 0:
            pending.add(instruction.write_barrier)
            issued = True
        if instruction.family == COPY and not looped:
            copied = issued = True
        if is_box_load(instruction):
            boxed = issued = True
        if is_access(instruction):
            phase.setdefault((part, place), len(sizes) - 1)
        if instruction.family in STACK:
            spills[part, max(0, len(sizes) - 2)].append(place)
        sizes[-1] += 1
    return (sizes[0] + sizes[1], *sizes[2:]) if len(sizes) > 1 else tuple(sizes)
