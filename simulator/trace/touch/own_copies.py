"""What the CTAs of a launch copy by TMA, each in its own order: tiles dealt out to persistent CTAs in unlike rounds.

All CTAs run at once, by the first lane of each warp, along their own branches. A CTA's n-th copy at a place belongs to
the n-th iteration that it makes of the loops around, whichever round that is in.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ...emulator.compile_blocks import compile_blocks
from ...emulator.run_blocks import run_blocks
from ...emulator.thread_values import Array
from ...emulator.threads import Threads, lanes_below, thread_numbers
from ...emulator.tma.boxes import Boxes
from ...limits import WARP_THREADS
from ..cta.access_steps import access_steps
from ..cta.address_slice import Tracer
from .access_patterns import IrregularAddresses
from .listed_boxes import Planes, goes_on, listed, planes_of
from .rounds import Trips


@dataclass(slots=True)
class _Place:
    """Copies at a place. Args: made: by each CTA, int64 (CTAs,); planes: CTAs, number of the copy in each, planes."""

    made: Array
    planes: list[tuple[Array, Planes]] = field(default_factory=list)
    pitch: int = 0
    box_rows: int = 1


@dataclass(frozen=True, slots=True)
class OwnCopies:
    """What CTAs of a launch copy. Args: places: place in the code -> its copies by all CTAs of the launch."""

    places: Mapping[int, _Place]

    def of(self, places: Iterable[int], members: Array, around: tuple[Trips, ...]) -> IrregularAddresses | None:
        """Boxes of a use in a loop, or in one inside another; None where iterations are no copies, one for one.

        Args:
            places: of its instructions; members: CTAs of the class; around: iterations of the loops around, of all
                CTAs, outermost first.
        """
        chosen = [self.places[place] for place in sorted(places) if place in self.places]
        if not chosen or len(around) not in (1, 2):
            return None
        rounds = around[0].per_round[members]
        width = int(around[1].per_round[members].max()) if len(around) > 1 else 1
        total = rounds if len(around) == 1 else rounds * around[1].per_round[members] - around[1].shorter[members]
        if any((place.made[members] != total).any() for place in chosen):
            return None
        starts, rows, widths, slots = ([] for _ in range(4))  # type: ignore[var-annotated]
        for place in chosen:
            for number, planes in place.planes:
                slots.append(_slot(number[members], around, members, width))
                for kept, plane in zip((starts, rows, widths), planes, strict=True):
                    kept.append(plane[members])
        iteration = np.stack(slots)
        boxes = listed(
            iteration, (np.stack(starts), np.stack(rows), np.stack(widths)), chosen[0].pitch, chosen[0].box_rows
        )
        sizes = (int(rounds.max()), width)[: len(around)]
        unused = np.zeros((len(members), prod(sizes)), dtype=np.int64)
        return IrregularAddresses(origins=unused, shapes=(), sizes=sizes, boxes=boxes)


def _slot(number: Array, around: tuple[Trips, ...], members: Array, width: int) -> Array:
    """Flat index, in a nest, of the iteration with a number among all that a program makes. Args: width: of a round."""
    if len(around) == 1:
        return number
    rounds, inner = around[0].per_round[members], around[1].per_round[members]
    longer = rounds - around[1].shorter[members]
    behind = np.maximum(number - longer * inner, 0)
    early = number < longer * inner
    shorter = np.maximum(inner - 1, 1)
    round_number = np.where(early, number // np.maximum(inner, 1), longer + behind // shorter)
    trip = np.where(early, number % np.maximum(inner, 1), behind % shorter)
    slot: Array = round_number * width + trip
    return slot


def follow_copies(tracer: Tracer) -> OwnCopies:
    """Follow all CTAs of a launch, each on its own way. Raises: as `follow_ctas`."""
    subject = tracer.subject
    kernel, flow = subject.kernel, subject.flow
    shape = kernel.ctas, kernel.warps, 1
    places: dict[int, _Place] = defaultdict(lambda: _Place(np.zeros(kernel.ctas, dtype=np.int64)))

    def record(place: int, addresses: Array, active: Array, boxes: Boxes | None) -> None:
        if boxes is None:
            return
        copying, of_place = np.broadcast_to(active, shape), places[place]
        number, before = of_place.made.copy(), len(of_place.planes)
        for warp in np.flatnonzero(copying.any(axis=(0, 2))):
            of_warp = boxes.of(lambda array, warp=warp: np.broadcast_to(array, shape)[:, warp])  # type: ignore[misc]
            for starts, rows, width in planes_of(of_warp):
                planes = starts, rows * copying[:, warp, 0], width
                if len(of_place.planes) > before and goes_on(of_place.planes[-1][1], planes):
                    last = of_place.planes[-1][1]
                    planes = last[0], last[1], last[2] + planes[2]
                    of_place.planes.pop()
                of_place.planes.append((number, planes))
        of_place.made += copying.any(axis=(1, 2))
        descriptor = boxes.descriptor
        if len(descriptor.box) > 1:
            of_place.pitch, of_place.box_rows = descriptor.strides[1], descriptor.box[1]

    steps = access_steps(subject, tracer.code_slice, tracer.doubts, record)
    code = compile_blocks(flow, tracer.code_slice.places, steps, tracer.doubts.settle)
    special = kernel.special_registers(np.arange(kernel.ctas))
    lane = np.zeros((1, 1, 1), dtype=np.int64)
    special |= {"SR_LANEID": (lane, True), "SR_LTMASK": (lanes_below(lane), True)}
    first_lanes = WARP_THREADS * np.arange(kernel.warps, dtype=np.int64).reshape(1, -1, 1)
    special |= thread_numbers(first_lanes, kernel.resources.threads)
    run_blocks(flow, code, Threads(constants=subject.constants, special=special), kernel.ctas, kernel.warps)
    return OwnCopies(dict(places))
