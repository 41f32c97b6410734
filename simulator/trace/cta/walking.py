"""Threads of many CTAs on the way of one of them: loops are gone through in a few iterations, wherever that will do.

Of a loop the first two iterations are run, and the last ones. In between every register goes on as from the first to
the second, by its own count of iterations in each CTA; so what stands behind a loop is as far on as it really is.
"""

from collections.abc import Callable, Mapping

import numpy as np

from ...sass.flow import BLOCK_ENDS
from ..deciding import BARRIERS
from ..jumps import leave_of, traps_of
from ..operands import Step, Threads
from ..paths import ControlPath, LoopVisit
from ..threads import step_of
from ..tma.boxes import Boxes
from ..values import FALSE, TRUE, WORD_MASK, Array, Value, small
from .doubts import Doubts
from .given import Subject
from .sites import Slice, noting

Trips = tuple[int, ...]
Told = Callable[[int, Trips, Array, Array, Boxes | None], None]
"""Gets the place of an access, iterations of the loops around it (the last one: -1, the one before: -2), and what
`sites.Note` gets."""
Watch = Callable[[int, Threads, Array], None]
"""Gets the place of an instruction that is about to be run, the threads, and who of them runs it."""


class Walk:
    """Threads of CTAs on the way of some warps.

    Args:
        trips: region -> iterations of a stay, int64 (CTAs,); region_of: loop -> region.
        special: what the threads know of themselves, as in `Threads`; told: gets every access.
        whole: regions of which all iterations are run; tail: iterations at the end of the others.
        together: whether all lanes of the warps are there, as in `Threads`.
        before: other warps of the same CTAs that have gone their way, for what they left in memory;
        watch: gets every instruction.
    """

    def __init__(
        self,
        subject: Subject,
        found: Slice,
        doubts: Doubts,
        trips: Mapping[int, Array],
        region_of: Mapping[int, int],
        special: Mapping[str, Value],
        told: Told,
        whole: frozenset[int] = frozenset(),
        tail: int = 1,
        together: bool = True,
        before: "Walk | None" = None,
        watch: Watch | None = None,
    ) -> None:
        self._places, self._trips, self._region_of, self._told = found.places, trips, region_of, told
        self._whole, self._tail, self._watch = whole, tail, watch
        self._threads = Threads(constants=subject.constants, special=special, whole=together)
        if before:
            self._threads.shared, self._threads.descriptors = before._threads.shared, before._threads.descriptors
        self._at: Trips = ()
        self._pairs = _pairs(found)
        self._coming: dict[int, Array] = {}
        self._next: Array | None = TRUE[0]
        self._gone: Array = FALSE[0]
        noted = noting(subject, found, doubts, self._note)
        flow, code = subject.flow, subject.flow.instructions
        self._steps: dict[int, Step] = {
            place: noted[place] if place in noted else step_of(code[place])
            for block in found.places
            for place in block
            if code[place].family not in BARRIERS | BLOCK_ENDS
        }
        traps = traps_of(flow)
        self._leave = [leave_of(flow, number, traps, doubts.settle) for number in range(len(flow.blocks))]

    def _note(self, place: int, addresses: Array, active: Array, boxes: Boxes | None) -> None:
        self._told(place, self._at, addresses, active, boxes)

    def along(self, items: ControlPath, at: Trips = ()) -> None:
        """Run blocks, and stays in loops. Args: at: iterations of the loops around."""
        for item in items:
            if isinstance(item, LoopVisit):
                self._stay(item, at)
            else:
                self._run(item, at)

    def _run(self, block: int, at: Trips) -> None:
        """Run a block, by the threads that come there."""
        self._at, mask = at, self._arrived(block)
        for place in self._places[block]:
            if self._watch:
                self._watch(place, self._threads, mask)
            if place in self._steps:
                self._steps[place](self._threads, mask)
        left: Array = FALSE[0]
        for target, leaving in self._leave[block](self._threads, mask):
            left = left | leaving
            self._coming[target] = small(self._coming.get(target, FALSE[0]) | leaving)
        self._gone = self._gone | (mask & ~left)

    def _arrived(self, block: int) -> Array:
        """Threads that come to a block, from wherever they have jumped there."""
        mask = self._coming.pop(block, FALSE[0])
        if self._next is not None:
            mask = mask | self._next
        self._next = None
        return TRUE[0] if mask.all() else mask

    def _stay(self, visit: LoopVisit, at: Trips) -> None:
        iterations, region = visit.iterations, self._region_of[visit.loop]
        header = _first_block(iterations[0])
        entering = self._arrived(header)
        count, trips = len(iterations), self._trips[region]
        leaf = not any(isinstance(inner, LoopVisit) for one in iterations for inner in one)
        straight = not leaf or count < 2 + self._tail or region in self._whole
        for number, one in enumerate(iterations if straight else iterations[:2]):
            self._begin(header, entering & _column(trips > number) if count > 1 and leaf else entering)
            before = dict(self._threads.registers) if number == 1 else {}
            self.along(one, (*at, number))
        if not straight:
            self._go_on(before, trips - self._tail - 1)
            for left in range(self._tail, 0, -1):
                self._begin(header, entering & _column(trips >= left))
                self.along(iterations[count - left], (*at, -left))
        # Whoever has not ended in the loop comes out of it.
        self._coming.clear()
        self._next = entering & ~self._gone

    def _begin(self, header: int, mask: Array) -> None:
        """Threads begin an iteration together."""
        self._coming, self._next = {header: small(mask & ~self._gone)}, None

    def _go_on(self, before: Mapping[str, Value], times: Array) -> None:
        """Set registers to what they are so many iterations after `before`, each by its own pace."""
        now = self._threads.registers
        often = times.reshape(-1, 1, 1)
        carries: dict[str, Array] = {}
        for name, (array, known) in list(now.items()):
            if array.dtype == np.bool_ or known is not True or name not in before or before[name][1] is not True:
                continue
            pace = (array - before[name][0] + (1 << 31) & WORD_MASK) - (1 << 31)
            if not pace.any():
                continue
            total = before[name][0] + pace * often
            now[name] = total & WORD_MASK, True
            carry = total >> 32
            if name in self._pairs and carry.any():
                carries[self._pairs[name]] = carry
        for name, carry in carries.items():
            # The upper half of an address stands in the next register, and does not move by itself.
            if name in now and name in before and np.array_equal(now[name][0], before[name][0]):
                now[name] = now[name][0] + carry & WORD_MASK, now[name][1]


def _column(values: Array) -> Array:
    return values.reshape(-1, 1, 1)


def _first_block(items: ControlPath) -> int:
    return _first_block(items[0].iterations[0]) if isinstance(items[0], LoopVisit) else items[0]


def _pairs(found: Slice) -> dict[str, str]:
    """Lower half of an address -> its upper half."""
    pairs = [
        names[at : at + 2]
        for names in (touch.names for touch in found.touching.values())
        for at in range(len(names) - 1)
    ]
    kinds = [(low, high, low.rstrip("0123456789")) for low, high in pairs]
    return {
        low: high
        for low, high, kind in kinds
        if kind in ("R", "UR")
        and high.startswith(kind)
        and low[len(kind) :].isdigit()
        and high == f"{kind}{int(low[len(kind) :]) + 1}"
    }
