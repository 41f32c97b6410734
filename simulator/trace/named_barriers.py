"""Which named barriers the warps of a CTA come to, one after the other, where code computes that or some pass by.

In: a CTA that was followed. Out: for each BAR its barrier, or the ring of them that it goes round (`1 + (i & 1)`), how
many warps it takes, and which come to it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ..emulator.compile_blocks import compile_blocks
from ..emulator.run_blocks import Arrivals, run_blocks
from ..emulator.threads import Threads
from ..launch.traced import Mbarrier, NamedBarrier
from ..refusal import CannotFollow, Refused
from ..sass.decode import Instruction
from ..sass.memory_instructions import BARRIERS
from ..sass.operands import Immediate
from ..sass.registers import read
from .cta.access_steps import access_steps
from .cta.address_slice import slice_with
from .cta.cta_run import CtaRun
from .cta.traced_kernel import TracedKernel
from .cta.unknown_values import UnknownValues
from .mbarriers import find_mbarriers, is_on_mbarrier


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierUses:
    """What the instructions of a class of CTAs do with barriers.

    Args:
        rings: place of an instruction on mbarriers -> its ring; named: place of a BAR -> its barriers.
    """

    rings: Mapping[int, Mbarrier]
    named: Mapping[int, NamedBarrier]


def most_ahead(classes: Iterable[BarrierUses]) -> int:
    """Phases that a wait is ahead of those that complete, at most."""
    return max((use.ahead for of_class in classes for use in of_class.rings.values()), default=0)


def barriers_of(
    subject: TracedKernel, doubts: UnknownValues, representatives: Sequence[CtaRun], notes: list[str]
) -> tuple[BarrierUses, ...]:
    """Of each class of CTAs. Args: representatives: of each; notes: gets why something cannot be told, a line each."""
    rings = _of_classes(find_mbarriers, is_on_mbarrier, subject, doubts, representatives, notes)
    named = _of_classes(find_barriers, _is_bar, subject, doubts, representatives, notes)
    return tuple(BarrierUses(rings=ring, named=name) for ring, name in zip(rings, named, strict=True))


Use = TypeVar("Use")


def _of_classes(
    find: Callable[[TracedKernel, UnknownValues, int], dict[int, Use]],
    concerns: Callable[[Instruction], bool],
    subject: TracedKernel,
    doubts: UnknownValues,
    representatives: Sequence[CtaRun],
    notes: list[str],
) -> list[dict[int, Use]]:
    """What is found of each class: of one whose code another one runs as well, what was found there.

    Args:
        concerns: whether an instruction is one of those that are asked about; the rest: as of `barriers_of`.
    """
    flow, of_classes = subject.flow, list[dict[int, Use]]()
    for run in representatives:
        ran = {block for warp in range(len(run.paths.warps)) for block, _ in run.paths.executed(warp)}
        spans = (range(flow.blocks[block].first, flow.blocks[block].stop) for block in ran)
        wanted = {place for span in spans for place in span if concerns(flow.instructions[place])}
        known = next((other for other in of_classes if not other or wanted <= other.keys()), None)
        if known is None:
            try:
                known = find(subject, doubts, run.cta)
            except (CannotFollow, Refused) as error:
                where = subject.kernel.where(error.address) if isinstance(error, CannotFollow) else ""
                notes.append(f"kernel {subject.kernel.name}: {where}{error}")
                known = {}
        of_classes.append(known)
    return of_classes


def _is_bar(instruction: Instruction) -> bool:
    return instruction.family in BARRIERS


def find_barriers(subject: TracedKernel, doubts: UnknownValues, cta: int) -> dict[int, NamedBarrier]:
    """Place of each BAR -> its barriers; none where they stand in the code. Args: cta: its number in the grid.

    Raises:
        CannotFollow: which barrier it is depends on what is not known, or a ring is not used in order; one line.
    """
    flow, log, kernel = subject.flow, list[tuple[int, int, int, np.ndarray]](), subject.kernel
    places = [place for place, code in enumerate(flow.instructions) if code.family in BARRIERS]
    plain = [not code.predicate and all(isinstance(operand, Immediate) for operand in code.operands)
             for code in map(flow.instructions.__getitem__, places)]  # fmt: skip
    if all(plain):
        return {}
    code_slice = slice_with(subject, {place: read(flow.instructions[place]) for place in places})
    steps = access_steps(subject, code_slice, doubts, lambda *_: None)
    code = compile_blocks(flow, code_slice.places, steps, doubts.settle)
    threads = Threads(constants=subject.constants, special=kernel.special_registers(np.array([cta])))
    run_blocks(flow, code, threads, 1, kernel.warps, log=log)
    return _rings(log, subject)


def _rings(log: Arrivals, subject: TracedKernel) -> dict[int, NamedBarrier]:
    ring_of = {number: number for _, number, _, _ in log}
    of_place: dict[int, int] = {}
    for place, number, _, _ in log:  # those that one instruction names are of one ring, known by its least number
        both = {ring_of[number], ring_of[of_place.setdefault(place, number)]}
        ring_of = {other: min(both) if ring in both else ring for other, ring in ring_of.items()}
    slots: dict[int, dict[int, int]] = defaultdict(dict)
    coming, takes, done = defaultdict[int, int](int), dict[int, int](), defaultdict[tuple[int, int], int](int)
    for _, number, _, _ in log:
        slots[ring_of[number]].setdefault(number, len(slots[ring_of[number]]))
    for place, number, needed, present in log:
        ring, takes[place] = ring_of[number], needed
        for warp in np.flatnonzero(np.broadcast_to(present, (1, subject.kernel.warps, 1))).tolist():
            coming[place] |= 1 << warp
            if done[warp, ring] % len(slots[ring]) != slots[ring][number]:
                address = subject.flow.instructions[place].address
                raise CannotFollow("slots of a ring of named barriers are not used in order: not modelled", address)
            done[warp, ring] += 1
    firsts = dict(zip(slots, np.cumsum([0, *map(len, slots.values())]).tolist(), strict=False))
    rings = {place: ring_of[number] for place, number, _, _ in log}
    return {
        place: NamedBarrier(first=firsts[ring], count=len(slots[ring]), takes=takes[place], coming=coming[place])
        for place, ring in rings.items()
    }
