"""Where the accesses of all CTAs of a class begin: one run through the way of one of them, for all at a time.

Of a loop three iterations are run: the first two, and the last. In between every register goes on as from the first to
the second, by its own count of iterations in each CTA; so what stands behind a loop is as far on as it really is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..deciding import BARRIERS
from ..operands import Step, Threads
from ..threads import step_of
from ..values import TRUE, WORD_MASK, Array, Value
from ..ways import Visit, Way
from .doubts import Doubts
from .given import Subject
from .one_cta import OneCta
from .sites import Slice, noting
from .survey import PROBES, probes

Trips = tuple[int, ...]


@dataclass(slots=True)
class Seen:
    """An access in all CTAs of a class, in the first iterations of the loops around it.

    Args:
        addresses: iteration of each loop around it -> int64 (CTAs,), of the first thread of the warps that make it;
        active: the same -> bool (CTAs, 4), whether the threads of `survey.probes` take part.
    """

    addresses: dict[Trips, Array] = field(default_factory=dict)
    active: dict[Trips, Array] = field(default_factory=dict)


def bases(
    subject: Subject, found: Slice, one: OneCta, ctas: Array, trips: Mapping[int, Array], doubts: Doubts
) -> dict[int, Seen]:
    """Follow CTAs along the way of one of them.

    Args:
        ctas: numbers of CTAs that go the same way, int64 (CTAs,); trips: region -> iterations of a stay, int64 (CTAs,).

    Returns:
        Place in the code -> what was seen there.
    """
    seen: dict[int, Seen] = {}
    groups: dict[Way, list[int]] = {}
    for warp, way in enumerate(one.ways.warps):
        groups.setdefault(way, []).append(warp)
    for way, warps in groups.items():
        _Walk(subject, found, doubts, seen, trips, one.ways.region_of[warps[0]], ctas, warps).along(way, ())
    return seen


class _Walk:
    """Threads of all CTAs on the way of some warps."""

    def __init__(
        self,
        subject: Subject,
        found: Slice,
        doubts: Doubts,
        seen: dict[int, Seen],
        trips: Mapping[int, Array],
        region_of: Mapping[int, int],
        ctas: Array,
        warps: Sequence[int],
    ) -> None:
        self._places, self._trips, self._region_of, self._seen = found.places, trips, region_of, seen
        self._count = len(ctas)
        special = probes(subject.called.grid, ctas, subject.called.warps)
        first, last = min(warps), max(warps)
        tid, lanes = special["SR_TID.X"][0], special["SR_LANEID"][0]
        own = np.array([first, first, last, last], dtype=np.int64).reshape(1, PROBES, 1)
        special["SR_TID.X"] = np.where(tid >= 0, 32 * own + lanes, tid), True
        self._threads = Threads(constants=subject.constants, special=special)
        self._at: Trips | None = ()
        self._pairs = _pairs(found)
        noted = noting(subject, found, doubts, self._note)
        code = subject.flow.instructions
        self._steps: dict[int, Step] = {
            place: noted[place] if place in noted else step_of(code[place])
            for block in found.places
            for place in block
            if code[place].family not in BARRIERS
        }

    def _note(self, place: int, addresses: Array, active: Array) -> None:
        if self._at is None:
            return
        seen = self._seen.setdefault(place, Seen())
        if self._at in seen.addresses:
            return
        shape = (self._count, PROBES, 1)
        seen.addresses[self._at] = np.broadcast_to(addresses, np.broadcast_shapes(addresses.shape, shape))[
            :, 0, 0
        ].copy()
        taking = np.broadcast_to(active, np.broadcast_shapes(active.shape, shape))
        seen.active[self._at] = taking[:, :, 0].copy()

    def along(self, items: Way, at: Trips | None) -> None:
        """Run blocks, and stays in loops. Args: at: iterations of the loops around; None: nothing is noted."""
        for item in items:
            if not isinstance(item, Visit):
                self._at = at
                for place in self._places[item]:
                    if place in self._steps:
                        self._steps[place](self._threads, TRUE[0])
                continue
            iterations = item.iterations
            leaf = not any(isinstance(inner, Visit) for one in iterations for inner in one)
            if not leaf or len(iterations) < 3:
                for number, one in enumerate(iterations):
                    self.along(one, None if at is None else (*at, number))
                continue
            inside = (0,) if at is not None else None
            self.along(iterations[0], None if inside is None else (*at, 0))  # type: ignore[misc]
            before = dict(self._threads.registers)
            self.along(iterations[1], None if inside is None else (*at, 1))  # type: ignore[misc]
            self._go_on(before, self._trips[self._region_of[item.loop]] - 2)
            self.along(iterations[-1], None)

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
