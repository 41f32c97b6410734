"""Which mbarriers the warps of a CTA wait for and arrive at, one after the other: their rings.

In: a CTA that was followed. Out: for each instruction on mbarriers its ring, how many phases it is ahead of those that
complete, and how many arrivals complete one. The slot of a ring is computed at run time (`i % stages`), and so is the
parity of the phase that is waited for: so all values that addresses and parities depend on are followed.
A ring's slots are those that an instruction names; each is used in turn, in order.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from ..emulator.compile_blocks import compile_blocks
from ..emulator.compute.by_opcode import is_try
from ..emulator.read_operands import global_address_of, number_of, predicate_of
from ..emulator.run_blocks import run_blocks
from ..emulator.semantics import compile_instruction
from ..emulator.thread_values import Array, known_to_all, narrowed_to
from ..emulator.threads import Step, Threads
from ..launch.traced import Mbarrier
from ..limits import WARP_THREADS
from ..refusal import CannotFollow
from ..sass.decode import Instruction
from ..sass.memory_instructions import addressed
from ..sass.operands import Predicate
from ..sass.registers import read
from .cta.access_steps import access_steps
from .cta.address_slice import slice_with
from .cta.traced_kernel import TracedKernel
from .cta.unknown_values import UnknownValues

ARRIVAL = "SYNCS.ARRIVE"
ARRIVES_ALONE = frozenset({"ART0", "A1T0"})
"""Modifiers of arrivals that announce no copy."""
PARITY_BIT = 31
"""Of the operand of a wait."""


@dataclass(frozen=True, slots=True)
class _Event:
    """A warp's execution of an instruction. Args: parity: of the phase that is waited for; None: it arrives."""

    place: int
    warp: int
    address: int
    parity: int | None


def find_mbarriers(subject: TracedKernel, doubts: UnknownValues, cta: int) -> dict[int, Mbarrier]:
    """Place of each instruction on mbarriers that a CTA runs -> its ring, of specialised warps, which give slots back.

    Args:
        cta: its number in the grid.

    Raises:
        CannotFollow: an mbarrier depends on what is not known, or the slots of a ring are not used in order; one line.
    """
    on_mbarriers = filter(is_on_mbarrier, subject.flow.instructions)
    if not subject.kernel.is_specialised and all(ARRIVES_ALONE.isdisjoint(code.modifiers) for code in on_mbarriers):
        return {}
    return _rings(_events(subject, doubts, cta), subject)


def _events(subject: TracedKernel, doubts: UnknownValues, cta: int) -> list[_Event]:
    """What all warps do with mbarriers, those of each in order."""
    flow, events = subject.flow, list[_Event]()
    places = {place: code for place, code in enumerate(flow.instructions) if is_on_mbarrier(code)}
    code_slice = slice_with(subject, {place: read(code) for place, code in places.items()})

    def step_of(place: int, instruction: Instruction) -> Step:
        address = global_address_of(addressed(instruction)[0])
        waits = is_try(instruction.opcode)
        parity = number_of(instruction.operands[-1]) if waits else None
        guard = predicate_of(instruction.guard) if isinstance(instruction.guard, Predicate) else None
        then = compile_instruction(instruction)
        shape = (1, subject.kernel.warps, WARP_THREADS)

        def step(threads: Threads, mask: Array) -> None:
            active = narrowed_to(mask, guard(threads)) if guard else mask
            values = [reader(threads) for reader in (address, parity) if reader]
            if not all(known_to_all(known, active) for _, known in values):
                raise CannotFollow("an mbarrier depends on a value that is not known", instruction.address)
            present = np.broadcast_to(active, shape)[0]
            where, *which = (np.broadcast_to(value, shape)[0] for value, _ in values)
            for warp in np.flatnonzero(present.any(axis=1)):
                lane = int(np.argmax(present[warp]))
                phase = int(which[0][warp, lane]) >> PARITY_BIT & 1 if which else None
                events.append(_Event(place, int(warp), int(where[warp, lane]), phase))
            if waits:
                then(threads, mask)

        return step

    steps = access_steps(subject, code_slice, doubts, lambda *_: None)
    steps |= {place: step_of(place, instruction) for place, instruction in places.items()}
    code = compile_blocks(flow, code_slice.places, steps, doubts.settle)
    kernel = subject.kernel
    special = kernel.special_registers(np.array([cta]))
    run_blocks(flow, code, Threads(constants=subject.constants, special=special), 1, kernel.warps)
    return events


def is_on_mbarrier(instruction: Instruction) -> bool:
    """Whether it waits for an mbarrier, or arrives at one."""
    waits = is_try(instruction.opcode) and instruction.family == "SYNCS"
    return not instruction.never_runs and (waits or instruction.opcode.startswith(ARRIVAL))


def _rings(events: list[_Event], subject: TracedKernel) -> dict[int, Mbarrier]:
    ring_of = _joined(events)
    slots: dict[int, dict[int, int]] = defaultdict(dict)
    # Slots in the order in which whoever announces copies, or waits for free ones, comes by them.
    announcing = {ring_of[event.address] for event in events if _announces(subject, event)}
    for event in events:
        ring = ring_of[event.address]
        if _announces(subject, event) if ring in announcing else event.parity is not None:
            slots[ring].setdefault(event.address, len(slots[ring]))
    phases: dict[tuple[int, int], int] = {}
    parities: dict[tuple[int, int], int] = {}
    done: dict[tuple[int, int, bool], int] = {}
    first: dict[int, int] = {}
    arriving: dict[int, set[int]] = defaultdict(set)
    arriving_at: dict[int, set[int]] = defaultdict(set)
    for event in events:
        ring, key = ring_of[event.address], (event.warp, event.address)
        waits = event.parity is not None
        if event.parity is None:
            phases[key] = phases.get(key, -1) + 1
            arriving[ring].add(event.warp)
            arriving_at[event.place].add(event.warp)
        elif key not in phases:
            phases[key] = -event.parity
        elif key not in parities:
            raise CannotFollow("a warp arrives at an mbarrier and then waits for it: not modelled",
                               subject.flow.instructions[event.place].address)  # fmt: skip
        else:
            phases[key] += event.parity != parities[key]
        if event.parity is not None:
            parities[key] = event.parity
        number = phases[key] * len(slots[ring]) + slots[ring].get(event.address, 0)
        before = done.get((event.warp, ring, waits), 0)
        done[event.warp, ring, waits] = before + 1
        if first.setdefault(event.place, number - before) != number - before:
            raise CannotFollow("slots of a ring of mbarriers are not used in order: not modelled",
                               subject.flow.instructions[event.place].address)  # fmt: skip
    numbers = {ring: number for number, ring in enumerate(sorted(set(ring_of.values())))}
    return {
        event.place: Mbarrier(
            ring=numbers[ring_of[event.address]],
            ahead=-first[event.place],
            arrivals=len(arriving[ring_of[event.address]]),
            arriving=sum(1 << warp for warp in arriving_at[event.place]),
        )
        for event in events
    }


def _announces(subject: TracedKernel, event: _Event) -> bool:
    return event.parity is None and ARRIVES_ALONE.isdisjoint(subject.flow.instructions[event.place].modifiers)


def _joined(events: list[_Event]) -> dict[int, int]:
    """Address of an mbarrier -> least address of those that instructions name together with it."""
    ring_of = {event.address: event.address for event in events}

    def least(address: int) -> int:
        while ring_of[address] != address:
            address = ring_of[address]
        return address

    of_place: dict[int, int] = {}
    for event in events:
        here, there = least(event.address), least(of_place.setdefault(event.place, event.address))
        ring_of[max(here, there)] = min(here, there)
    return {address: least(address) for address in ring_of}
