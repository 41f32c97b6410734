"""Which named barriers the warps of a CTA come to, one after the other, where code computes that or some pass by.

In: a CTA that was followed. Out: for each BAR its barrier, or the ring of them that it goes round (`1 + (i & 1)`), how
many warps it takes, and which come to it.
"""

from collections import defaultdict

import numpy as np

from ..emulator.compile_blocks import compile_blocks
from ..emulator.run_blocks import Arrival, run_blocks
from ..emulator.threads import Threads
from ..launch.traced import NamedBarrier
from ..refusal import CannotFollow, Refused
from ..sass.decode import Instruction
from ..sass.memory_instructions import BARRIERS
from ..sass.operands import Immediate
from ..sass.registers import read
from .cta.access_steps import access_steps
from .cta.address_slice import slice_with
from .cta.traced_kernel import TracedKernel
from .cta.unknown_values import UnknownValues


def barriers_of(subject: TracedKernel, doubts: UnknownValues, cta: int, notes: list[str]) -> dict[int, NamedBarrier]:
    """Place of each BAR -> its barriers; none where they stand in the code, or cannot be told. Args: as of `find`."""
    code, kernel = subject.flow.instructions, subject.kernel
    if not any(_is_computed(instruction) for instruction in code):
        return {}
    try:
        return find_barriers(subject, doubts, cta)
    except (CannotFollow, Refused) as error:
        where = kernel.where(error.address) if isinstance(error, CannotFollow) else ""
        notes.append(f"kernel {kernel.name}: {where}{error}")
        return {}


def find_barriers(subject: TracedKernel, doubts: UnknownValues, cta: int) -> dict[int, NamedBarrier]:
    """The same.

    Args:
        cta: its number in the grid.

    Raises:
        CannotFollow: which barrier it is depends on what is not known, or a ring is not used in order; one line.
    """
    flow, log = subject.flow, list[Arrival]()
    roots = {place: read(code) for place, code in enumerate(flow.instructions) if code.family in BARRIERS}
    code_slice = slice_with(subject, roots)
    code = compile_blocks(
        flow, code_slice.places, access_steps(subject, code_slice, doubts, lambda *_: None), doubts.settle
    )
    special = subject.kernel.special_registers(np.array([cta]))
    run_blocks(flow, code, Threads(constants=subject.constants, special=special), 1, subject.kernel.warps, log=log)
    return _rings(log, subject)


def _is_computed(instruction: Instruction) -> bool:
    if instruction.family not in BARRIERS:
        return False
    return bool(instruction.predicate) or not all(isinstance(operand, Immediate) for operand in instruction.operands)


def _rings(log: list[Arrival], subject: TracedKernel) -> dict[int, NamedBarrier]:
    ring_of = _joined(log)
    slots: dict[int, list[int]] = defaultdict(list)
    for arrival in log:
        if arrival.number not in slots[ring_of[arrival.number]]:
            slots[ring_of[arrival.number]].append(arrival.number)
    takes: dict[int, int] = {}
    coming: dict[int, int] = defaultdict(int)
    done: dict[tuple[int, int], int] = defaultdict(int)
    for arrival in log:
        ring = ring_of[arrival.number]
        takes[arrival.place] = arrival.takes
        for warp in np.flatnonzero(np.broadcast_to(arrival.warps, (1, subject.kernel.warps, 1))[0, :, 0]).tolist():
            coming[arrival.place] |= 1 << warp
            if slots[ring][done[warp, ring] % len(slots[ring])] != arrival.number:
                raise CannotFollow("slots of a ring of named barriers are not used in order: not modelled",
                                   subject.flow.instructions[arrival.place].address)  # fmt: skip
            done[warp, ring] += 1
    firsts = dict(zip(slots, np.cumsum([0, *map(len, slots.values())]).tolist(), strict=False))
    rings = {arrival.place: ring_of[arrival.number] for arrival in log}
    return {
        place: NamedBarrier(first=firsts[ring], count=len(slots[ring]), takes=takes[place], coming=coming[place])
        for place, ring in rings.items()
    }


def _joined(log: list[Arrival]) -> dict[int, int]:
    """Number of a barrier -> least number of those that instructions name together with it."""
    ring_of = {arrival.number: arrival.number for arrival in log}
    of_place: dict[int, int] = {}
    for arrival in log:
        here, there = ring_of[arrival.number], ring_of[of_place.setdefault(arrival.place, arrival.number)]
        ring_of = {number: min(here, there) if ring in (here, there) else ring for number, ring in ring_of.items()}
    return ring_of
