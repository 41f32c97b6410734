"""Counters that CTAs add to: what an addition gives back, were CTAs to come in the order of their numbers.

A split-K kernel lets the CTA that comes last sum up: it is the one whose addition gives back all the others'. So of all
CTAs that add to one counter exactly one does, the one of the highest number. A queue of work gives CTA k item k.
In a loop, where CTAs take tiles from one counter, they take turns, in the order of their numbers, as if all tiles took
equally long: what each turn gives back goes on evenly, so it is held like a register.
The counter begins with its value, where that was given, and else with 0.
"""

from collections import defaultdict
from math import prod

import numpy as np

from ..emulator.access_lanes import Touch
from ..emulator.global_memory import Memory
from ..emulator.read_operands import number_of
from ..emulator.semantics import compile_instruction
from ..emulator.thread_values import SHAPE, UNSET, WORD_MASK, Array, known_to_all, merged, narrowed_to
from ..emulator.threads import THREAD, Step, Threads
from ..limits import WARP_THREADS
from ..refusal import CannotFollow
from ..sass.decode import Instruction
from ..sass.flow import Flow
from ..sass.registers import written

GIVE_BACK = frozenset({"ATOMG", "ATOM"})
SUM, WIDE = "ADD", "64"
NO_QUEUE = "an atomic in a loop, of which CTA order decides what it gives back, and not a queue of tiles: not modelled"
FLOATS = frozenset({"F16x2", "F32", "F64", "BF16x2", "FTZ"})


def is_counter(instruction: Instruction) -> bool:
    """Whether an instruction adds whole numbers of 32 bits, and what it gives back is used."""
    words = set(instruction.modifiers)
    return (
        instruction.family in GIVE_BACK
        and SUM in words
        and WIDE not in words
        and not words & FLOATS
        and bool(counted(instruction))
    )


def counted(instruction: Instruction) -> tuple[str, ...]:
    """Registers with what an atomic gives back."""
    return tuple(name for name in written(instruction) if name.startswith("R"))


def find_counters(flow: Flow) -> dict[int, bool]:
    """Places of the additions to counters -> whether a loop repeats them."""
    return {
        place: flow.loop_of(number) >= 0
        for number, block in enumerate(flow.blocks)
        for place in range(block.first, block.stop)
        if is_counter(flow.instructions[place])
    }


class Counters:
    """What additions of the CTAs of a launch give back.

    CTAs that are followed first add first; later each is given again what it was given then.

    Args:
        memory: what pointers point to; grid: CTAs along x, y, z; warps: of a CTA.

    `used`: place of an addition that has given anything back -> name of its counter.
    """

    def __init__(self, memory: Memory, grid: tuple[int, int, int], warps: int) -> None:
        self._memory, self._grid, self._warps = memory, grid, warps
        self._queues: dict[int, tuple[int, int, int]] = {}
        self._given: dict[int, dict[int, int]] = defaultdict(dict)
        self._totals: dict[int, int] = {}
        self.used: dict[int, str] = {}

    def step(self, instruction: Instruction, place: int, touch: Touch) -> Step:
        """An addition by one thread of each CTA; what it gives back is not known where several threads add."""
        address, addend = touch.addresses[-1], number_of(instruction.operands[-1])
        forget, (result, *_) = compile_instruction(instruction), counted(instruction)

        def step(threads: Threads, mask: Array) -> None:
            active = mask
            for guard in touch.guards:
                holds, known = guard(threads)
                active = active & holds & np.asarray(known)
            where, where_known = address(threads)
            number, number_known = addend(threads)
            forget(threads, mask)
            sure = np.asarray(where_known) & np.asarray(number_known) & active
            ctas = cta_numbers(threads, self._grid)
            shape = np.broadcast_shapes(sure.shape, ctas.shape, where.shape, number.shape)
            sure = np.broadcast_to(sure, shape)
            alone = sure & (sure.sum(axis=(1, 2), keepdims=True) == 1)
            if not alone.any():
                return
            values = np.zeros(shape, dtype=np.int64)
            numbers, addresses, added = (np.broadcast_to(array, shape)[alone] for array in (ctas, where, number))
            values[alone] = [
                self._give(place, *addition)
                for addition in zip(numbers.tolist(), addresses.tolist(), added.tolist(), strict=True)
            ]
            old = threads.registers.get(result, UNSET)
            threads.registers[result] = merged(alone, (values, np.ones(SHAPE, dtype=np.bool_)), old)

        return step

    def turns(self, instruction: Instruction, place: int, touch: Touch) -> Step:
        """An addition by one thread of each CTA, or of each of its warps, in a loop: they take turns."""
        address, addend, held = touch.addresses[-1], number_of(instruction.operands[-1]), f"K{place}"
        forget, (result, *_) = compile_instruction(instruction), counted(instruction)

        def step(threads: Threads, mask: Array) -> None:
            active = mask
            for guard in touch.guards:
                active = narrowed_to(active, guard(threads))
            both, warps = (address(threads), addend(threads)), threads.special[THREAD][0] // WARP_THREADS
            forget(threads, mask)
            shape = np.broadcast_shapes(active.shape, both[0][0].shape, warps.shape)
            taking = np.broadcast_to(active, shape)
            if not taking.any():
                return
            where, sizes, by = (np.unique(np.broadcast_to(of, shape)[taking]) for of in (both[0][0], both[1][0], warps))
            width, said = self._warps if len(by) > 1 else 1, (int(where[0]), int(sizes[0]))
            begin, size, width = self._queues.setdefault(place, (*said, width))
            sure = all(known_to_all(known, active) for _, known in both) and said == (begin, size)
            if not sure or len(where) > 1 or len(sizes) > 1 or taking.sum(axis=2).max() > 1:
                raise CannotFollow(NO_QUEUE, instruction.address)
            ranks = cta_numbers(threads, self._grid) * width + (warps[:, :, :1] if width > 1 else 0)
            ranks = ranks + prod(self._grid) * (begin in self._totals)  # each CTA has taken one before the loop
            now = threads.registers.get(held, (self._first(place, begin) + size * ranks & WORD_MASK, True))
            threads.registers[result] = merged(taking, now, threads.registers.get(result, UNSET))
            later = now[0] + size * width * prod(self._grid)
            threads.registers[held] = np.where(taking.any(axis=2, keepdims=True), later, now[0]), True

        return step

    def _give(self, place: int, cta: int, address: int, added: int) -> int:
        given = self._given[place]
        if cta not in given:
            if address not in self._totals:
                self._totals[address] = self._first(place, address)
            given[cta] = self._totals[address]
            self._totals[address] = self._totals[address] + added & WORD_MASK
        return given[cta]

    def _first(self, place: int, address: int) -> int:
        """What is in a counter before the launch. Args: place: of the addition; address: of the counter."""
        (word,), known = self._memory.fetch(np.full(SHAPE, address, dtype=np.int64), 4)
        storage = self._memory.storages.get(self._memory.number_of(address))
        if storage:
            self.used[place] = storage.name
        return int(word.flat[0]) if known.all() else 0


def cta_numbers(threads: Threads, grid: tuple[int, int, int]) -> Array:
    """Numbers of the CTAs that are followed, int64 (CTAs, 1, 1). Args: grid: CTAs along x, y, z."""
    x, y, z = (threads.special[f"SR_CTAID.{axis}"][0] for axis in "XYZ")
    numbers: Array = x + grid[0] * (y + grid[1] * z)
    return numbers
