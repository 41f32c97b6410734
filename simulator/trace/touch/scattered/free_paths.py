"""Threads of many CTAs that go their own ways through the code, and the sectors that they touch.

One of the CTAs says which loops count: an access belongs to the outermost of these around it, and to the iteration
that its warp is in; all else is straight code. What a warp does beyond the iterations of its CTA counts in the last.
"""

from collections.abc import Mapping

import numpy as np

from ....emulator.compile_blocks import compile_blocks
from ....emulator.run_blocks import Order, run_blocks
from ....emulator.thread_values import Array
from ....emulator.threads import Threads
from ....emulator.tma.boxes import Boxes
from ....limits import WARP_THREADS
from ...cta.access_steps import access_steps
from ...cta.address_slice import Tracer
from ...cta.cta_run import CtaRun, follow_cta
from ...cta.every_thread import RecordAll
from ...cta.group import chunks
from ...nests import OUTSIDE
from ...positions import blocks_of
from ..bounds import check_bounds
from ..cta_class import CtaClass
from ..phases import Part, Phases
from .sectors import BySectors, Listed, TooMany

MOST_WORK = 1 << 31
"""Instructions of threads that are followed: a few seconds of work. Of CTAs that would take more, the first are."""


class FreePaths:
    """CTAs on paths of their own.

    Args:
        run: the one of them whose loops count; phases: of it; work: instructions that a CTA executes, by thread.

    Attributes:
        executed, reconverged: how often the warps of those that were followed last together ran each block, and how
            often the BSYNC at its begin once more, int64 (blocks,); ctas: how many they are.
    """

    def __init__(self, tracer: Tracer, run: CtaRun, phases: Phases, work: float) -> None:
        self._tracer, self._most = tracer, max(1, int(MOST_WORK / max(1.0, work)))
        self._regions = {loop: region for of_warp in run.paths.region_of for loop, region in of_warp.items()}
        self._headers = {tracer.subject.flow.loops[loop].header: at for loop, at in self._regions.items()}
        self._parts = self._parts_of(run, phases)
        self.executed = self.reconverged = np.zeros(len(tracer.subject.flow.blocks), dtype=np.int64)
        self.ctas = 0

    def sectors_of(self, tracer: Tracer, cta_class: CtaClass, places: frozenset[int], followed: int) -> BySectors:
        """As `sectors.sectors_of`. Args: tracer: that of these CTAs."""
        subject, group = tracer.subject, cta_class.group
        if (followed or len(group)) > self._most:
            raise TooMany(self._most)

        def outside(_: int, rank: int) -> None:
            check_bounds(subject, follow_cta(tracer, int(group.ctas[rank])))

        listed = Listed(cta_class, self._parts, followed, outside)
        first, which = listed.in_turn()
        record = listed.recorder(places, first, which)
        self.executed, self.reconverged = np.zeros_like(self.executed), np.zeros_like(self.executed)
        self.ctas = len(first)
        for ranks in chunks(subject, len(first)):
            some = first[ranks]
            trips = {region: counts[some] for region, counts in group.trips.items()}
            self._follow(group.ctas[some], trips, int(some[0]), record)
        return listed.by_key

    def _follow(self, ctas: Array, trips: Mapping[int, Array], at: int, record: RecordAll) -> None:
        """Follow some of the CTAs. Args: trips: region -> its iterations, int64 (CTAs,); at: rank of the first CTA."""
        tracer, order = self._tracer, Order()
        subject, shape = tracer.subject, (len(ctas), tracer.subject.kernel.warps, WARP_THREADS)
        begun = {region: np.zeros((*shape[:2], 1), dtype=np.int64) for region in trips}

        def recorded(place: int, addresses: Array, active: Array, _: Boxes | None) -> None:
            for block, present in order:
                if block in self._headers:
                    begun[self._headers[block]] += present
            order.clear()
            where, taking = np.broadcast_to(addresses, shape), np.broadcast_to(active, shape)
            region = self._parts[place][0]
            if region == OUTSIDE:
                record(place, (), at, where, taking)
                return
            numbers = np.minimum(begun[region], trips[region].reshape(-1, 1, 1)).clip(1) - 1
            for number in np.unique(numbers[taking.any(axis=2)]).tolist():
                record(place, (number,), at, where, taking & (numbers == number))

        steps = access_steps(subject, tracer.code_slice, tracer.doubts, recorded)
        code = compile_blocks(subject.flow, tracer.code_slice.places, steps, tracer.doubts.settle)
        threads = Threads(constants=subject.constants, special=subject.kernel.special_registers(ctas))
        executed, reconverged = run_blocks(subject.flow, code, threads, *shape[:2], order)
        self.executed += executed.sum(axis=(0, 1))
        self.reconverged += reconverged.sum(axis=(0, 1))

    def _parts_of(self, run: CtaRun, phases: Phases) -> dict[int, Part]:
        """Place of an access -> the part of the code that it counts in."""
        flow, parts = self._tracer.subject.flow, dict[int, Part]()
        unlike = {path: warp for warp, path in enumerate(run.paths.warps)}
        pieces = {block: at for warp in unlike.values() for block, at in blocks_of(run.paths, warp)}
        first = {part[0]: part for part in sorted(phases.sizes, reverse=True)}
        for block, places in enumerate(self._tracer.code_slice.places):
            loop, region = flow.loop_of(block), OUTSIDE
            while loop >= 0:
                region = self._regions.get(loop, region)
                loop = flow.loops[loop].parent
            at = pieces.get(block)
            part = (at.region, at.piece) if at else (region, 0)
            known = part[0] == region and part in phases.sizes
            parts |= dict.fromkeys(places, part if known else first.get(region, first[OUTSIDE]))
        return parts
