"""Threads of many CTAs follow the control path of one of them; of most loops they execute a few iterations alone.

Of a loop the first two iterations are executed, and the last ones; or so of each stretch that goes on evenly, where it
has several, as of two loops that count as one. Between them registers are extrapolated: each goes on by its difference
between the first two, as often as the trip count of its CTA says. So what follows a loop starts from the values that
the whole loop would leave.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...emulator.compile_blocks import leave_of, onward
from ...emulator.leap.guess import FIRST_LEAP, Guess
from ...emulator.leap.induction_variables import InductionVariable, extrapolate
from ...emulator.leap.live_registers import live_at
from ...emulator.leap.stack import Stack
from ...emulator.semantics import compile_instruction
from ...emulator.thread_values import FALSE, TRUE, Array, Value, holds_for_all, small
from ...emulator.threads import Step, Threads, existing
from ...emulator.tma.boxes import Boxes
from ...jobs.stopping import check_wanted
from ...sass.flow import BLOCK_ENDS
from ...sass.memory_instructions import BARRIERS
from ...sass.traps import checks_of
from ..mixed_visits import ControlPath, LoopVisit, alike_runs, first_block, stretches_of, way_on, with_all_blocks
from ..positions import Iteration
from .access_steps import access_steps
from .address_slice import Tracer, pairs_of

RecordAt = Callable[[int, Iteration, Array, Array, Boxes | None], None]
"""Gets the place of an access, its iteration (the last one of a loop: -1, the one before: -2), and what
`address_slice.Record` gets."""
_Held = tuple[Iteration, int, Array, Array, Boxes | None]
"""An access in iterations that run side by side: that in the first of them, and what `address_slice.Record` gets."""
Watch = Callable[[int, Threads, Array], None]
"""Gets the place of an instruction that is about to be executed, the threads, and the mask of those that execute it."""
SHORTEST = 5
"""Iterations that go on evenly of which three are executed, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loops:
    """How loops are executed.

    Args:
        trips: region -> trip count of each visit, int64 (CTAs,); region_of: loop -> region;
        in_full: regions of which all iterations are executed; tail: iterations executed at the end of the others;
        even: region -> how many iterations from each on go on evenly in all CTAs, of which few are executed.
    """

    trips: Mapping[int, Array]
    region_of: Mapping[int, int]
    in_full: frozenset[int] = frozenset()
    tail: int = 1
    even: Mapping[int, Array] = field(default_factory=dict)

    def differ(self, loop: int) -> bool:
        """Whether CTAs make unlike numbers of iterations of a loop."""
        return bool(np.ptp(self.trips[self.region_of[loop]]))


class PathReplay:
    """Threads of CTAs that follow the control path of some warps.

    Args:
        tracer: the code, and what is executed of it; loops: how often, and which iterations;
        special: special registers, as in `Threads`; record: gets every access;
        whole_warps: whether all lanes of the warps are there, as in `Threads`;
        before: other warps of the same CTAs that have been followed, for what they left in memory;
        watch: gets every instruction; replaced: place in the code -> what is done there instead.
    """

    def __init__(
        self,
        tracer: Tracer,
        loops: Loops,
        special: Mapping[str, Value],
        record: RecordAt,
        whole_warps: bool = True,
        before: "PathReplay | None" = None,
        watch: Watch | None = None,
        replaced: Mapping[int, Step] | None = None,
    ) -> None:
        subject, code_slice = tracer.subject, tracer.code_slice
        self._places, self._loops, self._record_at, self._watch = code_slice.places, loops, record, watch
        self._threads = Threads(constants=subject.constants, special=special, whole=whole_warps)
        if before:
            self._threads.shared, self._threads.descriptors = before._threads.shared, before._threads.descriptors
        self._iteration: Iteration = ()
        self._doubts = tracer.doubts
        self._held: list[_Held] | None = None
        self._ctas = max(len(array) for array, _ in special.values())
        every = {place for block in code_slice.places for place in block}
        self._may_leap = not (watch or code_slice.writes) and tracer.may_leap(every)
        self._exchanging = code_slice.exchanging
        self._pairs = pairs_of(code_slice)
        self._arriving: dict[int, Array] = {}
        self._entering: Array | None = existing(special)
        self._ended: Array = FALSE[0]
        accesses = access_steps(subject, code_slice, tracer.doubts, self._record) | dict(replaced or {})
        self._flow = flow = subject.flow
        code = flow.instructions
        self._steps: dict[int, Step] = {
            place: accesses[place] if place in accesses else compile_instruction(code[place])
            for block in code_slice.places
            for place in block
            if code[place].family not in BARRIERS | BLOCK_ENDS
        }
        checks = checks_of(flow)
        self._leave = [
            onward(code_slice.successor[number])
            if number in code_slice.successor
            else leave_of(flow, number, checks, tracer.doubts.settle)
            for number in range(len(flow.blocks))
        ]

    def _record(self, place: int, addresses: Array, active: Array, boxes: Boxes | None) -> None:
        if self._held is not None:
            self._held.append((self._iteration, place, addresses, active, boxes))
            return
        self._record_at(place, self._iteration, addresses, active, boxes)

    def along(self, path: ControlPath, iteration: Iteration = (), parted: bool = False) -> None:
        """Execute blocks, and visits of loops.

        Args:
            iteration: of the loops around; parted: whether other warps take other paths: these stay on theirs, as what
                tells a warp its part lies in shared memory, where it would find what was written last.
        """
        visits = Counter(item.loop for item in path if isinstance(item, LoopVisit))
        begun: Counter[int] = Counter()
        for at, item in enumerate(path):
            if isinstance(item, LoopVisit):
                # Where CTAs make unlike numbers of iterations, which visit one belongs to is not known.
                once = visits[item.loop] == 1 or self._loops.differ(item.loop)
                self._visit(item, iteration, 0 if once else begun[item.loop], once)
                begun[item.loop] += len(item.iterations)
            else:
                self._run(item, iteration, way_on(path, at, self._flow.blocks[item].successors) if parted else None)

    def end(self) -> None:
        """Let registers of all threads go: the steps, which record in the walk, would keep it."""
        self._steps.clear()

    def _run(self, block: int, iteration: Iteration, way: int | None = None) -> None:
        """Execute a block, by the threads that arrive there. Args: way: where all go on, None: as each decides."""
        check_wanted()
        self._iteration, mask = iteration, self._arrived(block)
        for place in self._places[block]:
            if self._watch:
                self._watch(place, self._threads, mask)
            if place in self._steps:
                self._steps[place](self._threads, mask)
        all_leaving: Array = FALSE[0]
        for target, leaving in self._leave[block](self._threads, mask) if way is None else [(way, mask)]:
            all_leaving = all_leaving | leaving
            self._arriving[target] = small(self._arriving.get(target, FALSE[0]) | leaving)
        self._ended = self._ended | (mask & ~all_leaving)

    def _arrived(self, block: int) -> Array:
        """Mask of the threads that have jumped to a block, or enter a loop there."""
        mask = self._arriving.pop(block, FALSE[0])
        if self._entering is not None:
            mask = mask | self._entering
        self._entering = None
        return TRUE[0] if holds_for_all(mask) else mask

    def _visit(self, visit: LoopVisit, around: Iteration, begun: int, once: bool) -> None:
        """Execute the iterations of a visit.

        Args:
            around: iteration of the loops around; begun: those that visits before it have made there;
            once: whether all that a CTA makes are made here.
        """
        bodies, region, tail = visit.iterations, self._loops.region_of[visit.loop], self._loops.tail
        headers = tuple(dict.fromkeys(map(first_block, bodies)))
        entering = self._arrived(headers[0])
        inside, arriving = self._flow.loops[visit.loop].blocks, self._arriving
        self._arriving = {}
        count, of_all = len(bodies), self._loops.trips[region]
        trips = of_all if once else np.full_like(of_all, count)
        innermost = not any(isinstance(item, LoopVisit) for body in bodies for item in body)
        *before, last = stretches_of(bodies)
        if not innermost or last[1] < 2 + tail or region in self._loops.in_full:
            masked = trips if count > 1 and innermost else None
            may_leap = self._may_leap and self._exchanging.isdisjoint(self._flow.loops[visit.loop].blocks)
            those = with_all_blocks(bodies, 0 if around else int(trips.max())) if innermost else bodies
            even = self._loops.even.get(region) if innermost and not around and once else None
            self._all_of(those, headers, (*around, begun), entering, masked, may_leap, () if even is None else even)
        else:
            for first, length in before:
                every = np.full_like(trips, length)
                self._few_of(bodies[first : first + length], (*around, begun + first), entering, every, length)
            self._few_of(bodies[last[0] :], (*around, begun + last[0]), entering, trips - last[0], 0)
        # Threads that have not ended in the loop leave it; others that have jumped over it wait there.
        self._arriving = {block: threads for block, threads in arriving.items() if block not in inside}
        self._entering = entering & ~self._ended

    def _few_of(
        self, bodies: Sequence[ControlPath], iteration: Iteration, entering: Array, trips: Array, length: int
    ) -> None:
        """Execute the first two iterations of a stretch, and the last ones; all where these are not fewer.

        Args:
            iteration: first of them; entering: threads that enter the loop; trips: iterations of each CTA, int64
                (CTAs,); length: of the stretch in all CTAs; 0: these end the loop, and are counted from its end.
        """
        around, number, tail = iteration[:-1], iteration[-1], self._loops.tail
        headers = (first_block(bodies[0]),)
        if length and length < 2 + tail:
            self._all_of(bodies, headers, iteration, entering, None, False, ())
            return
        masks = [entering & _column(trips > ahead) for ahead in range(2)]
        self._skip(bodies[:2], headers, iteration, masks, trips - tail)
        self._doubts.extrapolated = True
        try:
            for left in range(tail, 0, -1):
                self._begin(headers, entering & _column(trips >= left))
                self.along(bodies[-left], (*around, number + length - left if length else -left))
        finally:
            self._doubts.extrapolated = False

    def _all_of(
        self,
        bodies: Sequence[ControlPath],
        headers: tuple[int, ...],
        iteration: Iteration,
        entering: Array,
        trips: Array | None,
        may_leap: bool,
        even: Sequence[int] | Array,
    ) -> None:
        """Execute all iterations, many at a time where registers go on evenly.

        Args:
            headers: as of `_begin`; iteration: the first one; entering: threads that enter the loop;
            trips: iterations that each CTA makes, int64 (CTAs,); None: all;
            may_leap: whether many may be executed at a time; even: as of `Loops`.
        """
        around, begun = iteration[:-1], iteration[-1]
        leaps = may_leap and len(headers) == 1 and len(bodies) > FIRST_LEAP // 2
        guess = Guess(self._live[headers[0]], self._ctas) if leaps else None
        runs, alike = alike_runs(bodies, trips), alike_runs(bodies, None)
        number = 0
        while number < len(bodies):
            body, here = bodies[number], (*around, begun + number)
            mask = entering if trips is None else entering & _column(trips > number)
            mask = small(mask & ~self._ended)
            left = min(int(even[number]), alike[number]) if number < len(even) else 0
            if left >= SHORTEST:
                self._skip((body, body), headers, here, (mask, mask), np.full(1, left - 1))
                number += left - 1
                continue
            guessed = guess.leap(self._threads.registers, mask, runs[number]) if guess else None
            if guess and guessed and (right := self._leap(body, headers, here, mask, guess, *guessed)):
                number += right
                continue
            self._begin(headers, mask)
            self.along(body, here)
            number += 1
            if trips is not None:
                entering = entering & self._going_on(headers)

    def _going_on(self, headers: tuple[int, ...]) -> Array:
        """Threads that have jumped back to begin another iteration; all where none has, as at the last one's end."""
        back = (self._arriving[block] for block in headers if block in self._arriving)
        going: Array = sum(back, start=FALSE[0])
        return going if going.any() else TRUE[0]

    def _skip(
        self,
        bodies: Sequence[ControlPath],
        headers: tuple[int, ...],
        iteration: Iteration,
        masks: Sequence[Array],
        iterations: Array,
    ) -> None:
        """Execute two iterations, and go on as they do.

        Args:
            headers: as of `_begin`; iteration: the first of the two; masks: threads that make each;
            iterations: to go on by, these two among them, int64 (CTAs,).
        """
        for ahead, (body, mask) in enumerate(zip(bodies, masks, strict=True)):
            first = dict(self._threads.registers)
            self._begin(headers, mask)
            self.along(body, (*iteration[:-1], iteration[-1] + ahead))
        extrapolate(self._threads.registers, first, _column(iterations - 1), self._pairs)

    def _leap(
        self,
        body: ControlPath,
        headers: tuple[int, ...],
        iteration: Iteration,
        mask: Array,
        guess: Guess,
        courses: Mapping[str, InductionVariable],
        stack: Stack,
    ) -> int:
        """Execute iterations side by side; how many were right, none where it was in vain. Args: iteration: first."""
        threads, ended = self._threads, self._ended
        if not guess.names.isdisjoint(threads.unknown_bits):
            return 0
        self._threads = stack.threads(threads, courses, guess.names)
        begun, held = dict(self._threads.registers), self._held
        self._held, self._ended = [], FALSE[0]
        try:
            self._begin(headers, stack.repeated(mask))
            self.along(body, iteration)
            sure = not self._ended.any() and guess.names.isdisjoint(self._threads.unknown_bits)
        except ValueError:
            sure = False
        accesses, stacked = self._held, self._threads
        self._threads, self._ended, self._held = threads, ended, held
        right = stack.right(begun, stacked.registers, guess.names) if sure else 0
        guess.learn(stack, begun, right)
        axis = len(iteration) - 1
        for ahead in range(right):
            for at, place, addresses, active, boxes in accesses:
                self._iteration = (*at[:axis], at[axis] + ahead, *at[axis + 1 :])
                self._record(
                    place,
                    stack.of(addresses, ahead),
                    stack.of(active, ahead),
                    boxes.of(lambda array, number=ahead: stack.of(array, number)) if boxes else None,  # type: ignore[misc]
                )
        if right:
            stack.settle(threads, stacked.registers, mask, right)
        return right

    @cached_property
    def _live(self) -> tuple[frozenset[str], ...]:
        """Registers that count at the begin of each block."""
        return live_at(self._flow, self._places)

    def _begin(self, headers: tuple[int, ...], mask: Array) -> None:
        """Threads begin an iteration together. Args: headers: where: at the first, or at that they have gone on to."""
        mask = mask & ~self._ended
        gone = {block: small(self._arriving[block] & mask) for block in headers[1:] if block in self._arriving}
        for there in gone.values():
            mask = mask & ~there
        self._arriving, self._entering = {headers[0]: small(mask), **gone}, None


def _column(values: Array) -> Array:
    return values.reshape(-1, 1, 1)
