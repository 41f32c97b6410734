"""Counters that CTAs add to: what an addition gives back, were CTAs to come in the order of their numbers.

A split-K kernel lets the CTA that comes last sum up: it is the one whose addition gives back all the others'. So of all
CTAs that add to one counter exactly one does, the one of the highest number. A queue of work gives CTA k item k.
The counter begins with its value, where that was given, and else with 0.
"""

from collections import defaultdict

import numpy as np

from ..emulator.access_lanes import Touch
from ..emulator.global_memory import Memory
from ..emulator.read_operands import number_of
from ..emulator.semantics import compile_instruction
from ..emulator.thread_values import SHAPE, UNSET, WORD_MASK, Array, merged
from ..emulator.threads import Step, Threads
from ..sass.decode import Instruction
from ..sass.flow import Flow
from ..sass.registers import written

GIVE_BACK = frozenset({"ATOMG", "ATOM"})
SUM, WIDE = "ADD", "64"
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


def find_counters(flow: Flow) -> frozenset[int]:
    """Places of the additions to counters that no loop repeats."""
    return frozenset(
        place
        for number, block in enumerate(flow.blocks)
        if flow.loop_of(number) < 0
        for place in range(block.first, block.stop)
        if is_counter(flow.instructions[place])
    )


class Counters:
    """What additions of the CTAs of a launch give back.

    CTAs that are followed first add first; later each is given again what it was given then.

    Args:
        memory: what pointers point to; grid: CTAs along x, y, z.

    `used`: place of an addition that has given anything back -> name of its counter.
    """

    def __init__(self, memory: Memory, grid: tuple[int, int, int]) -> None:
        self._memory, self._grid = memory, grid
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
