"""Runs launches through the compiled loops of `core/`: cycles and bytes of each.

CTAs go to SMs as slots free up; every CTA walks its program; time and caches advance together.
Launches of a pipeline follow each other on the same L2.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from ..arguments import USUAL, Settings
from ..core.engine import event_loop, links
from ..core.engine.l1 import make_l1
from ..core.engine.links import COUNTERS, STEPS
from ..core.engine.lru import make_lru
from ..core.engine.memory import COALESCER_LINE_SLOTS, COALESCER_SLOTS, Memory
from ..core.jit import can_keep, is_kept
from ..device.device import Device
from ..integers import cdiv
from ..launch.before import Before
from .continued import Comparison, GoesOn, Marks
from .costed import CostedLaunch
from .launch_state import LaunchState
from .lower import LoweredLaunch, LoweredTensors, lower_launch, lower_tensors
from .past import Past
from .steady_state import extrapolate_steady_state

MOST_SAMPLES = 500
"""Times at which a recorded launch says how many bytes have moved: where a CTA begins, and at the end."""
Attempt = Callable[[int], AbstractContextManager[None]]
"""Around what is done for a launch, by its number; it may keep what that raises to itself."""
MOST_GROUPS, GROUP_GRANULES = 16, 8
"""Groups of sets of an L2 partition that are told apart, and granules that each has room for at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRun:
    """What the engine saw of one launch; skipped windows included.

    Args:
        cycles: from start to the end of the last CTA [cycles].
        idle_cycles: of these, after its last CTA, in the mean over SMs; all of them where it got none [cycles].
        hbm_read_bytes, hbm_write_bytes, l2_read_bytes, fabric_bytes, l1_hit_bytes: see `traffic.Traffic` [B].
        simulated_fraction: share of the launch's steps that were stepped through; 1 where it has none.
        timeline: float64 of shape (CTAs, 4): SM, slot, start and end cycle; or of shape (0, 4).
        samples: float64 of shape (samples, 3), where a timeline is recorded: cycles since the start, from 0 to the end,
            and bytes moved until then at HBM, and at L2 by SMs; or of shape (0, 3).
        marks: by which it can be simulated again; None: it was not on empty caches, or not all stepped through.
    """

    cycles: float
    idle_cycles: float
    hbm_read_bytes: int
    hbm_write_bytes: int
    l2_read_bytes: int
    fabric_bytes: int
    l1_hit_bytes: int
    simulated_fraction: float
    timeline: np.ndarray
    samples: np.ndarray
    marks: Marks | None = None


def is_compiled() -> bool:
    """Whether numba finds the engine compiled on disk, so that a first call need not wait for the compiler."""
    return is_kept(event_loop.run)


def load_tables() -> None:
    """Have numba load its own tables, as the first compiled function that is called does."""
    links.first_channel(1, 1)


def keeps_code() -> bool:
    """Whether what numba compiles stays on disk; else a warning has said that every run has to wait for it."""
    return can_keep()


def run_launches(
    costed: Sequence[CostedLaunch],
    device: Device,
    settings: Settings = USUAL,
    *,
    before: Before = (),
    record: bool = False,
    attempt: Attempt = lambda number: nullcontext(),
    marks: Marks | None = None,
    marked: bool = False,
) -> list[LaunchRun | None]:
    """Simulate the launches of a pipeline, one after the other on the same L2.

    Args:
        before: what ran before the first launch, by the numbers of its tensors' storages; a `cold` L2 holds its data.
        record: whether to record a timeline (steps through every CTA).
        attempt: around each launch.
        marks: of the same launch on empty caches, where there is one launch: it is stepped through until it goes on so.
        marked: whether the first launch may be simulated again.

    Returns:
        What the engine saw of each; None where `attempt` has ended it, which leaves L2 to the next as it was then.
    """
    launches = tuple(launch.launch for launch in costed)
    tensors = lower_tensors(launches, device, settings.resolution)
    lowered = [lower_launch(launch.launch, launch.costs, tensors.index) for launch in costed]
    memory = _memory_before(costed, lowered, tensors, device, settings, before)
    warm, empty = settings.l2 == "warm", settings.l2 == "cold" and not before
    begin = 0.0
    runs: dict[int, LaunchRun] = {}
    left = list(range(len(launches)))
    for _ in range(2 if warm else 1):
        for number in left:
            state: LaunchState | None = None
            runs.pop(number, None)
            with attempt(number):
                state = LaunchState(
                    costed[number], lowered[number], tensors, memory, device, begin=begin, record=record
                )
                last = number == len(launches) - 1 and not warm
                alike = marks and (marks.program, marks.slots) == (launches[number].program, state.slot_count)
                lone = marks if alike and len(launches) == 1 else None
                first = marked and number == 0 and empty
                runs[number] = _finish(state, settings.steady_state and not record, not last, lone, marked=first)
            begin = state.end if state else begin
        left = [number for number in left if number in runs]
    return [runs.get(number) for number in range(len(launches))]


def _memory_before(
    costed: Sequence[CostedLaunch],
    lowered: Sequence[LoweredLaunch],
    tensors: LoweredTensors,
    device: Device,
    settings: Settings,
    before: Before,
) -> Memory:
    """What the first launch finds in the caches."""
    sizes = tensors.table["granule_rows"] * tensors.table["granule_row_bytes"]
    largest_bytes = max([int(sizes.max(initial=1)), *(low.spilled_bytes for low in lowered if low.spilled_granules)])
    # Spilled registers lie behind all tensors, those of all launches in the same place.
    spilled = max(
        launch.residency.concurrent_ctas * low.spilled_granules for launch, low in zip(costed, lowered, strict=True)
    )
    past = Past(before, tuple(launch.launch for launch in costed), tensors, first=tensors.granules + spilled)
    memory = _make_memory(past.granules, max(largest_bytes, past.largest_bytes), tensors, device, settings)
    past.replay(memory.l2, device, interleaved=tensors.interleaved)
    return memory


def _make_memory(
    granules: int, largest_bytes: int, tensors: LoweredTensors, device: Device, settings: Settings
) -> Memory:
    """Caches without entries. Args: largest_bytes: of a granule [B]."""
    parts, far = device.l2_partitions, tensors.size_bytes > device.sm.tlb_reach_bytes
    slots = COALESCER_LINE_SLOTS if settings.resolution == "line" else COALESCER_SLOTS
    capacities = np.tile(_group_bytes(device, largest_bytes), parts)
    return Memory(
        l2=make_lru(
            granules * parts * parts,
            capacities,
            device.l2_dirty_fraction,
            device.l2_dirty_fraction if settings.l2 == "dirty" else 0.0,
            device.sm.l2_driven_out_fraction,
        ),
        l1=make_l1(device.sms),
        ready=np.zeros(granules),
        windows=np.zeros(granules, dtype=np.int32),
        free=np.zeros(links.first_channel(parts, device.sms) + device.hbm_channels),
        slices=np.zeros((device.l2_slices, 2)),
        translated=np.zeros(device.sm.tlb_reach_bytes // device.sm.tlb_entry_bytes if far else 0, dtype=np.int64),
        asked=np.zeros((slots, cdiv(device.sms, device.coalescer_sms), 2)),
        counter=np.zeros(links.COUNTER_ELEMENTS),
    )


def _group_bytes(device: Device, largest_bytes: int) -> np.ndarray:
    """Capacities of the groups of sets of one partition [B]; each has room for some of the largest granules.

    Data do not fall evenly on the sets of a cache, so that some overflow before others.
    Sets that get more or less than their share are groups with less or more room: quantiles of a normal distribution.
    """
    partition_bytes = device.l2_bytes / device.l2_partitions
    groups = max(1, min(MOST_GROUPS, int(partition_bytes // (GROUP_GRANULES * largest_bytes))))
    if device.l2_set_spread == 0:
        groups = 1
    quantiles = [NormalDist().inv_cdf((group + 0.5) / groups) for group in range(groups)]
    return partition_bytes / groups * (1.0 + device.l2_set_spread * np.array(quantiles))


def _finish(run: LaunchState, steady_state: bool, refresh: bool, known: Marks | None, *, marked: bool) -> LaunchRun:
    """Step through a launch, or through as much of it as it takes.

    Args:
        steady_state: whether it may be continued from a steady state.
        refresh: leave the L2 as the whole launch would.
        known: marks of the same launch; it may be left where it goes on as that did.
        marked: whether it leaves marks.
    """
    skipped = np.zeros(COUNTERS + 1)
    at: dict[int, np.ndarray] = {}
    if known:
        run.mark = Comparison(run, known).compare
    elif marked:
        run.mark = lambda steps: at.update({steps: run.snapshot()})
    persistent = run.launch.cta_count < run.launch.program.item_count
    samples = np.zeros((0, 3))
    try:
        if len(run.record):
            samples = _step_sampled(run, persistent)
        elif steady_state and not persistent:
            skipped = extrapolate_steady_state(run, refresh)
        else:
            run.step_to(run.launch.program.item_count)
        total, idle_cycles = run.snapshot() + skipped, run.idle_cycles
    except GoesOn as known_end:
        assert known is not None
        total, idle_cycles = known_end.args[0], known.idle_cycles
    finally:
        del run.mark, run.look  # which hold the run: its memory would stay until garbage is collected
    whole = marked and not (known or skipped[STEPS])
    program, slots, costs = run.launch.program, run.slot_count, run.lowered.costs
    return LaunchRun(
        cycles=float(total[-1]),
        idle_cycles=idle_cycles,
        hbm_read_bytes=round(total[links.HBM_READ]),
        hbm_write_bytes=round(total[links.HBM_WRITE]),
        l2_read_bytes=round(total[links.L2_READ]),
        fabric_bytes=round(total[links.FABRIC]),
        l1_hit_bytes=round(total[links.L1_HIT]),
        simulated_fraction=float(1.0 - skipped[STEPS] / max(1.0, total[STEPS])),
        timeline=run.record,
        samples=samples,
        marks=Marks(program=program, slots=slots, costs=costs, at=at, total=total, idle_cycles=idle_cycles)
        if whole
        else None,
    )


def _step_sampled(run: LaunchState, persistent: bool) -> np.ndarray:
    """Step through a launch, with `LaunchRun.samples` on the way; CTAs of a persistent grid all begin at the start."""
    items = run.launch.program.item_count
    stride = max(1, (items - run.slot_count) // MOST_SAMPLES)
    stops = [] if persistent else range(run.slot_count, items, stride)
    samples, before = [[0.0, 0.0, 0.0]], 0
    for stop in (*stops, items):
        run.step_to(stop, before)
        before = stop
        seen = run.snapshot()
        cycles = run.now - run.begin if stop < items else seen[-1]
        moved = (seen[links.HBM_READ] + seen[links.HBM_WRITE], seen[links.L2_READ] + seen[links.L2_WRITE])
        if cycles <= samples[-1][0] and len(samples) > 1:
            samples.pop()
        samples.append([cycles, *moved])
    return np.array(samples)
