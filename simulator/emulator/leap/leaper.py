"""Leaps of threads that run through code block by block: when to try one, and what it comes to."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...sass.flow import Flow
from ...sass.memory_instructions import GLOBAL, SHARED_LOADS, SHARED_STORES
from ..compile_blocks import Barrier, CompiledBlocks
from ..thread_values import SHAPE, Array
from ..threads import Threads
from .guess import Guess, equal
from .induction_variables import InductionVariable
from .live_registers import live_at
from .stack import Stack

MOST_LOOPS = 64
"""Loops of a kernel, in order of address, that leaps are tried in."""
OF_EACH_CTA = GLOBAL | {"S2R", "S2UR", "CS2R"}
"""Families of instructions that may do something else in each CTA, whatever is in registers."""
MayLeap = Callable[[Collection[int]], bool]
"""Whether instructions at some places of the code touch nothing that other iterations of them could have changed."""


class Log(Protocol):
    """Keeps what threads do, in order."""

    def hold(self, position: int) -> None:
        """What is kept from here on belongs to a block of an iteration. Args: position: of it in the iteration."""

    def let_go(self, blocks: Sequence[tuple[int, Array]], stack: Stack, iterations: int) -> None:
        """Keep the first iterations of those held. Args: blocks: of an iteration, each with the warps there."""


@dataclass(slots=True)
class Leap:
    """What a leap came to.

    Args:
        blocks: of each iteration, each with the warps there; reconvergences: the same, of warps that reconverge there;
        iterations: that were right; mask: threads that go on from the header.
    """

    blocks: list[tuple[int, Array]]
    reconvergences: list[tuple[int, Array]]
    iterations: int
    mask: Array


class _InVain(Exception):
    """A leap that cannot be made."""


class Leaper:
    """Tries leaps where all threads come to the header of a loop together.

    Args:
        flow, code: as of `run_blocks`; places: block -> places in the code of `code`; ctas: as of it;
        may_leap: asked again before each leap; log: of what threads do;
        exchanging: blocks in which threads exchange values by shared memory.
    """

    def __init__(
        self,
        flow: Flow,
        code: CompiledBlocks,
        places: tuple[tuple[int, ...], ...],
        ctas: int,
        may_leap: MayLeap,
        log: Log | None,
        exchanging: frozenset[int] = frozenset(),
    ) -> None:
        self._flow, self._code, self._ctas, self._may_leap, self._log = flow, code, ctas, may_leap, log
        self._meetings = {number for number in range(len(flow.blocks)) if flow.code(number)[0].family == "BSYNC"}
        self._loops: dict[int, frozenset[int]] = {}
        self._places: dict[int, tuple[int, ...]] = {}
        self._guesses: dict[int, Guess] = {}
        families = [instruction.family for instruction in flow.instructions]
        for loop in flow.loops[:MOST_LOOPS]:
            inside = tuple(place for block in loop.blocks for place in places[block])
            shared = any(families[place] in SHARED_STORES | SHARED_LOADS for place in inside)
            shared = shared or not exchanging.isdisjoint(loop.blocks)
            waits = any(isinstance(leave, Barrier) for block in loop.blocks for _, leave in code[block])
            if not shared and not waits:
                self._loops[loop.header], self._places[loop.header] = loop.blocks, inside
        live = live_at(flow, places) if self._loops else ()
        self._guesses = {
            header: Guess(live[header], ctas, any(families[place] in OF_EACH_CTA for place in self._places[header]))
            for header in self._loops
        }

    def at(self, block: int, threads: Threads, mask: Array) -> Leap | None:
        """A leap from the begin of a block, which moves the threads; None where there is none to be made.

        Args:
            mask: the threads, all that there are.
        """
        if block not in self._loops:
            return None
        for other in self._loops[block] & self._guesses.keys() - {block}:
            self._guesses[other].forget()
        guess = self._guesses[block]
        guessed = guess.leap(threads.registers, mask)
        if guessed is None or not self._may_leap(self._places[block]):
            return None
        if not guess.names.isdisjoint(threads.unknown_bits) or (threads.descriptors and self._ctas > 1):
            return None
        return self._try(block, threads, mask, *guessed)

    def _try(
        self, block: int, threads: Threads, mask: Array, courses: dict[str, InductionVariable], stack: Stack
    ) -> Leap | None:
        guess = self._guesses[block]
        stacked = stack.threads(threads, courses, guess.names)
        begun = dict(stacked.registers)
        try:
            leap = self._iterate(block, stacked, stack, mask)
        except (_InVain, ValueError):
            leap = None
        if leap is None or not guess.names.isdisjoint(stacked.unknown_bits):
            guess.learn(stack, begun, 0)
            if self._log:
                self._log.let_go([], stack, 0)
            return None
        leap.iterations = min(leap.iterations, stack.right(begun, stacked.registers, guess.names))
        if not equal(leap.mask, mask):
            leap.iterations = 1
        guess.learn(stack, begun, leap.iterations)
        stack.settle(threads, stacked.registers, mask, leap.iterations)
        if self._log:
            self._log.let_go(leap.blocks, stack, leap.iterations)
        return leap

    def _iterate(self, header: int, threads: Threads, stack: Stack, mask: Array) -> Leap:
        """All iterations at once, as the first one goes: others that branch otherwise are wrong from there on."""
        groups: dict[int, Array] = {header: mask}
        leap = Leap(blocks=[], reconvergences=[], iterations=stack.iterations, mask=mask)
        while True:
            block = min(groups)
            if leap.blocks and block == header:
                if len(groups) > 1:
                    raise _InVain
                leap.mask = groups[header]
                return leap
            if block not in self._loops[header]:
                raise _InVain
            here = groups.pop(block)
            if self._log:
                self._log.hold(len(leap.blocks))
            leap.blocks.append((block, np.logical_or.reduce(here, axis=2, keepdims=True)))
            steps, leave = self._code[block][0]
            repeated = stack.repeated(here)
            for step in steps:
                step(threads, repeated)
            assert not isinstance(leave, Barrier)
            for target, taken in leave(threads, repeated):
                leap.iterations = min(leap.iterations, stack.alike(taken))
                coming = stack.of(taken, 0)
                if not coming.any():
                    continue
                if target in groups:
                    if target in self._meetings:
                        both = [np.logical_or.reduce(part, axis=2, keepdims=True) for part in (coming, groups[target])]
                        leap.reconvergences.append((target, both[0] & both[1]))
                    coming = coming | groups[target]
                groups[target] = np.ones(SHAPE, dtype=np.bool_) if coming.all() else coming
            if not groups:
                raise _InVain
