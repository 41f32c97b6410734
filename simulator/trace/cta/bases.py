"""Base addresses: where each access of each CTA of a group begins, and whether its probe threads take part.

A few threads of each CTA are followed along the control paths of the representative.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...emulator.compute.warp_lanes import LanesDiffer
from ...emulator.thread_values import Array
from ...emulator.tma.boxes import Boxes
from ...sass.flow import Flow
from ..nests import OUTSIDE
from ..positions import Iteration
from .address_slice import Tracer
from .block_counts import PROBES
from .cta_run import CtaRun
from .group import CtaGroup, Shape, chunks, walk_group
from .path_replay import RecordAt

Execution = tuple[int, int]
"""Place of an instruction, and its turn, as of `positions.Position`."""


@dataclass(slots=True)
class Bases:
    """An access in all CTAs of a group, in the first iterations of the loops around it.

    Args:
        addresses: iteration -> int64 (CTAs,), address of the first thread of the warps that make it [B];
        active: iteration -> bool (CTAs, 4), which of the probe threads take part (`block_counts.probe_registers`);
        clips, numbers: of copies by TMA, iteration -> int64 (CTAs, 2 x axes), as in `Boxes`, of the first warp's box.
    """

    addresses: dict[Iteration, Array] = field(default_factory=dict)
    active: dict[Iteration, Array] = field(default_factory=dict)
    clips: dict[Iteration, Array] = field(default_factory=dict)
    numbers: dict[Iteration, Array] = field(default_factory=dict)

    def add(self, iteration: Iteration, shape: Shape, addresses: Array, active: Array, boxes: Boxes | None) -> None:
        """Take an iteration down. Args: shape: of the threads; the rest: as in `address_slice.Record`."""
        probes = ([0, 0, -1, -1], [0, -1, 0, -1]) if shape[2] > 1 else (list(range(PROBES)), [0] * PROBES)
        taking = np.broadcast_to(active, (len(active), *shape[1:]))[:, probes[0], probes[1]]
        self.active[iteration] = np.broadcast_to(taking, (shape[0], taking.shape[1]))
        if boxes is None:
            self.addresses[iteration] = np.broadcast_to(addresses[:, 0, 0].copy(), shape[:1])
            return
        self.addresses[iteration] = _of_first_warp(boxes.origin, active, shape)[:, 0]
        self.clips[iteration] = _of_first_warp(boxes.clips(), active, shape)
        self.numbers[iteration] = _of_first_warp(boxes.numbers(), active, shape)

    def unlike(self, at: Iteration, other: Iteration) -> bool:
        """Whether threads that take part in two iterations differ, or how their boxes are clipped."""
        tables = (table for table in (self.active, self.clips) if at in table or other in table)
        return any(not _equal(table.get(at), table.get(other)) for table in tables)

    def goes_on(self, at: Iteration, before: Iteration, first: Iteration) -> bool:
        """Whether an iteration is as far from the one before as that one from the first of the three."""
        if before not in self.addresses:
            return True
        if at not in self.addresses or first not in self.addresses:
            return False
        now, then, begin = (self.addresses[iteration] for iteration in (at, before, first))
        return bool(np.array_equal(now - then, then - begin))

    def subset(self, ranks: Array) -> "Bases":
        """The same of some of the CTAs. Args: ranks: their indices in the group, rising."""

        def rows(table: dict[Iteration, Array]) -> dict[Iteration, Array]:
            return {iteration: _rows_of(values, ranks) for iteration, values in table.items()}

        return Bases(rows(self.addresses), rows(self.active), rows(self.clips), rows(self.numbers))

    def like(self, rank: int) -> "Bases":
        """The same where all CTAs access what one does. Args: rank: its index in the group."""
        of_one = {at: np.broadcast_to(values[rank], values.shape) for at, values in self.addresses.items()}
        return replace(self, addresses=of_one)


def probe_masks(accesses: Sequence[tuple[Bases, Iteration]], ctas: int) -> Array:
    """Numbers that are equal for CTAs whose probe threads take part in the same of some accesses, uint64 (CTAs,)."""
    masks: Array = np.zeros(ctas, dtype=np.uint64)
    for bases, iteration in accesses:
        taking = bases.active[iteration] @ (1 << np.arange(PROBES, dtype=np.uint64))
        masks = masks * np.uint64(0x9E3779B97F4A7C15) + taking
    return masks


def find_bases(tracer: Tracer, group: CtaGroup, in_full: frozenset[int] = frozenset()) -> dict[Execution, Bases]:
    """Follow the probe threads of each CTA; all threads where these exchange values that addresses depend on.

    Args:
        in_full: regions all of whose iterations are executed, as addresses there are no affine function of them.

    Returns:
        Accesses -> their bases.
    """
    if not tracer.code_slice.all_threads:
        try:
            return _in_parts(tracer, group, in_full)
        except LanesDiffer:
            pass
    return _in_parts(tracer.with_all_threads(), group, in_full)


def _in_parts(tracer: Tracer, group: CtaGroup, in_full: frozenset[int]) -> dict[Execution, Bases]:
    """The same, some CTAs at a time."""
    parts = [
        _find_bases(tracer, group.subset(ranks), in_full)
        for ranks in chunks(tracer.subject, len(group), tracer.code_slice.all_threads)
    ]
    return _joined(parts) if len(parts) > 1 else parts[0]


def _find_bases(tracer: Tracer, group: CtaGroup, in_full: frozenset[int]) -> dict[Execution, Bases]:
    bases: dict[Execution, Bases] = {}

    def recorder(shape: Shape) -> RecordAt:
        turns: Counter[tuple[int, Iteration]] = Counter()

        def record(place: int, iteration: Iteration, addresses: Array, active: Array, boxes: Boxes | None) -> None:
            recorded = bases.setdefault((place, turns[place, iteration]), Bases())
            turns[place, iteration] += 1
            if iteration not in recorded.addresses and min(iteration, default=0) >= 0:
                recorded.add(iteration, shape, addresses, active, boxes)

        return record

    walk_group(tracer, group, recorder, all_threads=tracer.code_slice.all_threads, in_full=in_full)
    return bases


def even_stretches(flow: Flow, run: CtaRun, bases: Mapping[Execution, Bases]) -> dict[int, Array]:
    """Loops outside of others -> how many iterations from each on go on evenly: all that begins there, in all CTAs.

    A loop over the tiles of a CTA and over their pieces at once goes on evenly from one tile to the next.

    Args:
        run: a CTA; bases: of all that it accesses.

    Returns:
        By region, int64 (iterations,); none of a loop of which not all iterations were followed.
    """
    stretches: dict[int, Array] = {}
    for region in {number for regions in run.paths.region_of for number in regions.values()}:
        if run.paths.regions[region].parent != OUTSIDE or not run.paths.regions[region].leaf:
            continue
        loops = [loop for regions in run.paths.region_of for loop, number in regions.items() if number == region]
        blocks = [flow.blocks[number] for loop in set(loops) for number in flow.loops[loop].blocks]
        inside = [of for (place, _), of in bases.items() if any(block.first <= place < block.stop for block in blocks)]
        count = max((at[0] + 1 for of_all in inside for at in of_all.addresses if len(at) == 1), default=0)
        if sum((number,) in of_all.addresses for of_all in inside for number in (count // 2, count // 2 + 1)) < 2:
            continue
        changes, turns = np.zeros((2, count + 2), dtype=np.bool_)
        changes[[0, -1, -2]] = turns[[0, -1, -2]] = True
        for of_all in inside:
            for number in range(1, count):
                here, before = (number,), (number - 1,)
                changes[number] |= of_all.unlike(here, before)
                turns[number] |= number > 1 and not of_all.goes_on(here, before, (number - 2,))
        stops = [
            np.minimum.accumulate(np.where(of, np.arange(count + 2), count)[::-1])[::-1] for of in (changes, turns)
        ]
        begin = np.arange(count)
        stretches[region] = np.minimum(stops[0][begin + 1], stops[1][begin + 2]) - begin
    return stretches


def _joined(parts: Sequence[Mapping[Execution, Bases]]) -> dict[Execution, Bases]:
    """Bases of all CTAs from those of some and then of others: accesses and iterations that all parts have."""
    joined: dict[Execution, Bases] = {}
    for access in parts[0]:
        bases = [part[access] for part in parts if access in part]
        if len(bases) < len(parts):
            continue
        first = bases[0]
        iterations = [at for at in first.addresses if all(at in other.addresses for other in bases)]
        # Parts are dropped once they are joined, to bound memory.
        joined[access] = Bases(
            {at: _end_to_end([part.addresses.pop(at) for part in bases]) for at in iterations},
            {at: _end_to_end([part.active.pop(at) for part in bases]) for at in iterations},
            {at: _end_to_end([part.clips.pop(at) for part in bases]) for at in iterations if at in first.clips},
            {at: _end_to_end([part.numbers.pop(at) for part in bases]) for at in iterations if at in first.numbers},
        )
    return joined


def _equal(values: Array | None, others: Array | None) -> bool:
    return values is others or (values is not None and others is not None and np.array_equal(values, others))


def _end_to_end(parts: Sequence[Array]) -> Array:
    """Rows of all parts, one after the other; a broadcast of one row where all rows are the same broadcast row."""
    first = parts[0][:1]
    if all(part.strides[0] == 0 and np.array_equal(part[:1], first) for part in parts):
        return np.broadcast_to(first, (sum(len(part) for part in parts), *first.shape[1:]))
    return np.concatenate(parts)


def _rows_of(values: Array, ranks: Array) -> Array:
    if len(ranks) == len(values):
        return values
    rows: Array = values[:1] if values.strides[0] == 0 else values[ranks]
    return np.broadcast_to(rows, (len(ranks), *values.shape[1:]))


def _of_first_warp(values: Array, active: Array, shape: Shape) -> Array:
    """Values of the first warp that copies, int64 (CTAs, numbers). Args: values: (CTAs, warps, numbers)."""
    first = np.broadcast_to(active, (*shape[:2], 1)).argmax(axis=1)[:, None]
    return np.take_along_axis(np.broadcast_to(values, (*shape[:2], values.shape[2])), first, 1)[:, 0]
