"""CTAs that run the same basic blocks as one that was followed, and their threads along its control paths."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ...emulator.thread_values import Array, Value
from ...emulator.threads import Step, thread_numbers
from ...limits import WARP_THREADS
from ...sass.flow import FLOWS_KEPT, Flow
from ...sass.memory_instructions import GLOBAL_LOADS
from ...sass.registers import read, written
from ..control_slice import slice_of
from ..mixed_visits import ControlPath
from .address_slice import Tracer
from .block_counts import PROBES, probe_registers
from .cta_run import CtaRun
from .path_replay import Loops, PathReplay, RecordAt, Watch
from .traced_kernel import TracedKernel

THREADS_AT_ONCE = 1 << 17
"""Threads that are followed at a time, to bound memory."""
Shape = tuple[int, int, int]
"""CTAs, warps and lanes of an array; probe threads: (CTAs, 4, 1)."""
Recorder = Callable[[Shape], RecordAt]
"""From the shape of the arrays of some warps to what records their accesses."""


@dataclass(frozen=True, slots=True)
class CtaGroup:
    """CTAs whose warps take the control paths of one CTA, with trip counts of their own.

    Args:
        representative: what that CTA did; ctas: numbers in the grid, int64 (CTAs,), rising;
        trips: region -> trip count of each visit, int64 (CTAs,);
        unlike: regions of loops that count as one, of which CTAs run the first unequally often.
    """

    representative: CtaRun
    ctas: Array
    trips: Mapping[int, Array]
    unlike: frozenset[int] = frozenset()

    def __len__(self) -> int:
        """CTAs."""
        return len(self.ctas)

    @property
    def rank(self) -> int:
        """Index of the representative among the CTAs, which have to include it."""
        return int(np.searchsorted(self.ctas, self.representative.cta))

    @property
    def representative_trips(self) -> dict[int, int]:
        """Region -> trip count of each visit in the representative."""
        return {region: int(counts[self.rank]) for region, counts in self.trips.items()}

    @property
    def all_regions(self) -> frozenset[int]:
        """Regions of the control paths."""
        return frozenset(range(len(self.representative.paths.regions)))

    def short_loops(self, tail: int) -> frozenset[int]:
        """Innermost regions that are followed in full, as they have so few iterations. Args: tail: as in `Loops`."""
        around = {region.parent for region in self.representative.paths.regions}
        return frozenset(
            region for region, count in self.representative_trips.items() if region not in around and count < 2 + tail
        )

    def subset(self, ranks: Array | slice) -> "CtaGroup":
        """Some of the CTAs, with the same representative. Args: ranks: indices of the CTAs in the group."""
        trips = {region: counts[ranks] for region, counts in self.trips.items()}
        return replace(self, ctas=self.ctas[ranks], trips=trips)


def walk_group(
    tracer: Tracer,
    group: CtaGroup,
    recorder: Recorder,
    all_threads: bool = True,
    in_full: frozenset[int] = frozenset(),
    tail: int = 1,
    watch: Watch | None = None,
    replaced: Mapping[int, Step] | None = None,
    even: Mapping[int, Array] | None = None,
) -> None:
    """Follow threads of all CTAs of a group.

    Args:
        recorder: records each access; all_threads: or the probe threads of each CTA alone;
        in_full, tail, even: as in `Loops`; watch: gets every instruction; replaced: as of `PathReplay`.

    Raises:
        LanesDiffer: threads exchange values, and not all of them are followed.
    """
    run, code_slice = group.representative, tracer.code_slice
    exchanging = regions_exchanging(tracer, run)
    in_full |= regions_in_full(tracer, group)
    even = {region: lengths for region, lengths in (even or {}).items() if region not in exchanging}
    walk: PathReplay | None = None
    paths = [*warps_by_path(run, code_slice.all_threads)]
    for path, warps in paths:
        shape = (len(group), len(warps), WARP_THREADS) if all_threads else (len(group), PROBES, 1)
        region_of = run.paths.region_of[run.paths.warps.index(path)]
        loops = Loops(trips=group.trips, region_of=region_of, in_full=in_full, tail=tail, even=even)
        special = (_all_registers if all_threads else _probe_registers)(tracer.subject, group.ctas, warps)
        record = recorder(shape)
        walk = PathReplay(tracer, loops, special, record, all_threads, before=walk, watch=watch, replaced=replaced)
        walk.along(path, parted=len(paths) > 1)
        walk.end()


def regions_in_full(tracer: Tracer, group: CtaGroup) -> frozenset[int]:
    """Regions whose iterations are all followed in every walk."""
    run = group.representative
    return group.unlike | regions_exchanging(tracer, run) | regions_searching(tracer, run)


def regions_exchanging(tracer: Tracer, run: CtaRun) -> frozenset[int]:
    """Regions in which threads exchange values by shared memory, all of whose iterations are followed."""
    exchanging, loops = tracer.code_slice.exchanging, tracer.subject.flow.loops
    return frozenset(
        region
        for regions in run.paths.region_of
        for loop, region in regions.items()
        if not exchanging.isdisjoint(loops[loop].blocks)
    )


def regions_searching(tracer: Tracer, run: CtaRun) -> frozenset[int]:
    """Regions that look for a place by values in memory, as a binary search: their registers do not go on evenly."""
    searching = _searching(tracer.subject.flow, tracer.code_slice.places)
    return frozenset(region for regions in run.paths.region_of for loop, region in regions.items() if loop in searching)


@lru_cache(maxsize=FLOWS_KEPT)
def _searching(flow: Flow, places: tuple[tuple[int, ...], ...]) -> frozenset[int]:
    """Loops in which what a load gives is among what its next address is computed of. Args: places: of a slice."""
    code = flow.instructions

    def searches(blocks: frozenset[int], load: int) -> bool:
        address = slice_of(flow, {load: read(code[load])})
        users = (place for block in blocks for place in address[block] if place != load)
        return any(not set(written(code[load])).isdisjoint(read(code[place])) for place in users)

    return frozenset(
        number
        for number, loop in enumerate(flow.loops)
        if any(
            code[place].family in GLOBAL_LOADS and searches(loop.blocks, place)
            for block in loop.blocks
            for place in places[block]
        )
    )


def chunks(subject: TracedKernel, ctas: int, all_threads: bool = True) -> Iterator[slice]:
    """Ranks of CTAs that are followed at a time. Args: all_threads: or the probe threads of each CTA alone."""
    step = max(1, THREADS_AT_ONCE // (subject.kernel.warps * WARP_THREADS if all_threads else PROBES))
    return (slice(begin, begin + step) for begin in range(0, ctas, step))


def warps_by_path(run: CtaRun, joined: bool) -> Iterator[tuple[ControlPath, Sequence[int]]]:
    """Control paths of a CTA, each with the warps that take it.

    Args:
        joined: whether the longest path serves all warps, where the others only leave out parts of it.
    """
    groups: dict[ControlPath, list[int]] = {}
    for warp, path in enumerate(run.paths.warps):
        groups.setdefault(path, []).append(warp)
    longest = max(range(len(run.blocks)), key=lambda warp: len(run.blocks[warp]))
    if joined and all(_is_part(run.blocks[warps[0]], run.blocks[longest]) for warps in groups.values()):
        yield run.paths.warps[longest], range(len(run.blocks))
    else:
        yield from groups.items()


def _is_part(blocks: Sequence[int], of: Sequence[int]) -> bool:
    """Whether blocks are a subsequence of others."""
    others = iter(of)
    return all(block in others for block in blocks)


def _all_registers(subject: TracedKernel, ctas: Array, warps: Sequence[int]) -> dict[str, Value]:
    """Special registers of all threads of some warps."""
    numbers = np.arange(subject.kernel.warps * WARP_THREADS, dtype=np.int64).reshape(1, -1, WARP_THREADS)[:, warps]
    return subject.kernel.special_registers(ctas) | thread_numbers(numbers, subject.kernel.resources.threads)


def _probe_registers(subject: TracedKernel, ctas: Array, warps: Sequence[int]) -> dict[str, Value]:
    """Special registers of the probe threads, were the CTA made of these warps alone."""
    return probe_registers(subject.kernel, ctas, (min(warps), max(warps)))
