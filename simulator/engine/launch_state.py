"""The state of one launch: the arrays that the compiled loop changes, and how far it has come."""

from collections.abc import Callable

import numpy as np

from ..core.engine import event_loop, events, links, slices, sm_sharing, walk
from ..core.engine.links import Rates
from ..core.engine.memory import Memory
from ..core.engine.program import CONSTANT, Items, Program
from ..device.device import Device
from ..integers import cdiv
from ..jobs.stopping import check_wanted
from ..limits import LINE_BYTES, SUB_CORES
from ..residency.l1_room import hit_curve
from ..residency.occupancy import warps_per_sub_core
from ..sm.step_cost import PIPES
from .clock import clock_ratio_per_sm
from .costed import CostedLaunch
from .lower import LoweredLaunch, LoweredTensors

ITEMS_AT_ONCE = 1 << 15
"""Items whose variables are looked up at a time."""
STEPS_AT_ONCE = 1 << 20
"""Steps between two looks at whether the launch is still wanted: less than a second of work."""
MARK_STEPS = 1 << 13
"""Steps between two marks: they take as long as hundreds of looks at the counters."""

ENDS = 64
"""Items at either end of a launch that are asked for the trips of their loops."""


class LaunchState:
    """One launch: the arrays that the compiled loop changes, and how far it has come.

    Args:
        costed, lowered: the same launch.
        tensors: of the whole pipeline.
        memory: what the launch before has left, of which all but L2 is set back.
        begin: when the launch begins [cycles].
        record: whether to record when each CTA ran.
    """

    def __init__(
        self,
        costed: CostedLaunch,
        lowered: LoweredLaunch,
        tensors: LoweredTensors,
        memory: Memory,
        device: Device,
        *,
        begin: float,
        record: bool,
    ) -> None:
        launch, residency = costed.launch, costed.residency
        self.launch, self.lowered, self.tensors, self.memory = launch, lowered, tensors, memory
        self.begin = self.now = begin
        self.ramp = float(device.launch_ramp_cycles)
        self.slot_count = residency.concurrent_ctas
        self.rates = _rates(costed, lowered, tensors, device, begin)
        self.program = Program(
            tensors=tensors.table,
            tiles=lowered.tiles,
            origins=lowered.origins,
            lists=lowered.lists,
            steps=lowered.steps,
            loops=lowered.loops,
            code=lowered.code,
            item_count=launch.program.item_count,
            cta_count=launch.cta_count,
        )
        self.ctas = _idle_ctas(lowered, self.slot_count, device)
        self.calendar = events.make_calendar(device.sms, residency.ctas_per_sm, self.slot_count, begin)
        self.sharing = _sharing(costed, lowered, device, begin, self.calendar.due)
        self.next_cta = np.zeros(1, dtype=np.int64)
        self.record = np.zeros((launch.cta_count if record else 0, 4))
        self.look: Callable[[], int] = lambda: STEPS_AT_ONCE
        """Called before each stretch of steps; says how long it may be at most."""
        self.mark: Callable[[int], None] | None = None
        """Called every `MARK_STEPS` steps, with how many there have been; None: nobody looks so often."""
        memory.free[:] = np.maximum(memory.free, begin)
        for array in (*memory.l1, memory.counter):
            array[:] = 0

    def step_to(self, item: int, table_first: int = 0) -> None:
        """Step on until item `item` is due, or to the end; items from `table_first` on have not been dispatched yet."""
        program, ctas = self.launch.program, self.launch.cta_count
        done, end = min(table_first, program.item_count), min(item, program.item_count)
        while True:
            # A persistent CTA takes up items from all over the grid.
            stop = program.item_count if ctas < program.item_count else min(done + ITEMS_AT_ONCE, end)
            table = np.ascontiguousarray(program.items(np.arange(done, stop, dtype=np.int64)), dtype=np.int64)
            self._run(Items(table, done), stop if stop < program.item_count else ctas)
            done = stop
            if done >= end:
                return

    def _run(self, items: Items, pause_cta: int) -> None:
        """Run events until a CTA is due that none of these items is for. Raises: Stopped, OutOfTime: see `jobs`."""
        steps = self.memory.counter
        pause_step = look_step = steps[links.STEPS]
        while steps[links.STEPS] >= pause_step:
            check_wanted()
            if self.mark and pause_step % MARK_STEPS == 0 < pause_step:
                self.mark(int(pause_step))
            if pause_step >= look_step:
                look_step = pause_step + self.look()
            pause_step = min(look_step, (pause_step // MARK_STEPS + 1) * MARK_STEPS) if self.mark else look_step
            self.now = event_loop.run(
                self.memory,
                self.rates,
                self.program,
                self.ctas,
                self.sharing,
                self.calendar,
                items,
                self.next_cta,
                pause_cta,
                pause_step,
                self.record,
                self.now,
            )

    def skip_to(self, item: int) -> None:
        """Go on with a later item: those in between are not stepped through, and nothing is marked any more."""
        self.mark = None
        self.next_cta[event_loop.NEXT_CTA] = item

    def skip_trips(self, loop: int, slots: np.ndarray, trips: int) -> None:
        """CTAs go on so many trips later in a loop that they are in. Args: trips: a multiple of `walk.RING`."""
        self.mark = None
        self.ctas.trips[slots, loop, walk.TRIP] += trips
        nest = self.program.loops[loop]
        self.ctas.environment[slots, nest["counter"]] += trips * self._values(slots, int(nest["stride"]))

    def most_trips(self, loop: int) -> int:
        """Trips of a loop at most, of the first items and the last ones."""
        variable = int(self.program.loops[loop]["trips"])
        if variable < 0:
            return variable + CONSTANT
        count = self.launch.program.item_count
        ends = np.unique(np.concatenate((np.arange(min(count, ENDS)), np.arange(max(0, count - ENDS), count))))
        return int(self.launch.program.items(ends)[:, variable].max())

    def _values(self, slots: np.ndarray, reference: int) -> np.ndarray:
        """What a variable or constant is in each slot."""
        return self.ctas.environment[slots, reference] if reference >= 0 else np.array(reference + CONSTANT)

    @property
    def is_folded(self) -> bool:
        """Whether granules of any of its tensors share numbers (see `lower`)."""
        rows = [self.tensors.index[tensor.name] for tensor in self.launch.program.tensors]
        return bool(np.any(self.tensors.table["folded"][rows]))

    @property
    def end(self) -> float:
        """When the newest event is over, what it evicted has left for device memory, and L2 has added [cycles].

        L2 takes what is stored; what is left of that, within the ramp (assumption: so a launch that stores 17 MB in
        5.5 us, `liger.neighborhood/0`, is 1 % off, else 35 %).
        """
        channels = self.memory.free[links.first_channel(self.rates.partitions, self.rates.sms) :]
        left = self.now + float(np.mean(np.maximum(channels - self.now, 0.0)))
        ports = links.FIRST_L2 + self.rates.partitions
        stored = float(self.memory.free[ports : ports + self.rates.partitions].max()) - self.ramp
        queued = float(self.memory.slices[:, slices.FREE].max(initial=0.0))
        return max(left, stored, queued, float(self.memory.free[links.TRANSLATIONS]))

    @property
    def idle_cycles(self) -> float:
        """Time from the end of an SM's last CTA to that of the launch's last one, in the mean over SMs [cycles]."""
        return float(np.mean(self.now - self.sharing.progress["ended"].max(axis=1)))

    def snapshot(self) -> np.ndarray:
        """Counters so far, then cycles so far; float64 of shape (COUNTERS + 1,)."""
        return np.concatenate((self.memory.counter[: links.COUNTERS], [self.end - self.begin]))


def _rates(
    costed: CostedLaunch, lowered: LoweredLaunch, tensors: LoweredTensors, device: Device, begin: float
) -> Rates:
    """Cycles of the links at the launch's clock."""
    clock_hz, l1_bytes = costed.clocks.counted_hz, costed.residency.l1_bytes
    given_back_bytes_per_s = device.l2_given_back_bytes_per_s or device.l2_bytes_per_s
    return Rates(
        partitions=device.l2_partitions,
        interleaved=tensors.interleaved,
        sms=device.sms,
        coalescer_sms=device.coalescer_sms,
        l2_read_cycles_per_byte=clock_hz / device.l2_bytes_per_s * device.l2_partitions,
        l2_request_share=device.sm.l2_request_fraction,
        l2_write_cycles_per_byte=clock_hz / device.l2_write_bytes_per_s * device.l2_partitions,
        turn_bytes=device.sm.l2_turn_bytes,
        part_turn_share=device.sm.l2_part_turn_fraction,
        given_back_cycles_per_byte=clock_hz / given_back_bytes_per_s * device.l2_partitions,
        add_sector_cycles=device.l2_add_sector_s * clock_hz,
        add_part_cycles=device.l2_add_part_s * clock_hz,
        add_again_cycles=device.l2_add_again_s * clock_hz,
        add_far_cycles=device.l2_add_far_s * clock_hz,
        slice_block_bits=_bits(device.l2_slice_block_bytes or LINE_BYTES),
        slice_group_bits=_bits(device.l2_slice_group_bytes or device.l2_slice_block_bytes or LINE_BYTES),
        slice_stretch_bits=_bits(device.l2_slice_stretch_bytes or device.l2_slice_block_bytes or LINE_BYTES),
        request_cycles=device.sm.l2_request_s * clock_hz,
        request_most_bytes=_request_most_bytes(device),
        tlb_entry_bytes=device.sm.tlb_entry_bytes,
        tlb_miss_cycles=device.sm.tlb_miss_s * clock_hz,
        fabric_cycles_per_byte=clock_hz / device.fabric_bytes_per_s,
        hbm_read_cycles_per_byte=clock_hz / device.hbm_read_bytes_per_s,
        hbm_write_cycles_per_byte=clock_hz / device.hbm_write_bytes_per_s,
        hbm_channels=device.hbm_channels,
        hbm_channel_bytes=device.sm.hbm_channel_bytes,
        hbm_mixing_bytes=float(device.sm.hbm_mixing_window_bytes),
        hbm_mixing_full=float(device.sm.hbm_mixing_full_fraction),
        hbm_writing_cycles=float(device.sm.hbm_writing_window_cycles),
        hbm_mixing_cost=1.0 / device.hbm_mixed_fraction - 1.0,
        hbm_part_line_cost=1.0 / device.hbm_part_line_fraction - 1.0,
        hbm_single_line_cost=1.0 / (device.hbm_single_line_fraction or 1.0) - 1.0,
        hbm_piece_write_bytes=float(device.hbm_piece_write_bytes),
        hbm_fetch_bytes=device.sm.hbm_fetch_bytes,
        hbm_lone_write_bytes=float(device.sm.hbm_lone_write_bytes),
        sm_fill_cycles_per_byte=0.0 if lowered.covers_l2 else 1.0 / device.sm_fill_bytes_per_cycle,
        l1_bytes=float(l1_bytes),
        l1_curve=hit_curve(device, l1_bytes),
        l1_latency=float(device.l1_latency_cycles),
        l2_latency=0.0 if lowered.covers_l2 else float(device.l2_latency_cycles),
        fabric_latency=float(device.fabric_latency_cycles),
        hbm_latency=device.hbm_latency_s * clock_hz,
        hbm_late=device.hbm_piece_latency_s * clock_hz,
        hbm_turn=device.hbm_turn_s * clock_hz,
        hbm_turn_share=float(device.sm.hbm_turn_single_fraction),
        hbm_place_bytes=float(device.sm.hbm_turn_place_bytes),
        cta_dispatch=float(device.cta_dispatch_cycles),
        cta_place=device.sm.cta_place_cycles + device.sm.cta_place_warp_cycles * costed.launch.warps_per_cta,
        after_begin=float(np.nextafter(begin, np.inf)),
        spilled_first=tensors.granules,
        spilled_granules=lowered.spilled_granules,
        spilled_bytes=lowered.spilled_bytes,
    )


def _bits(size: int) -> int:
    """Bits of an address within so many bytes, a power of two; else within the next smaller one."""
    return int(size).bit_length() - 1


def _request_most_bytes(device: Device) -> float:
    """Bytes whose port takes as long as their slices: two, for each group of blocks [B]."""
    lines = max(device.l2_slice_group_bytes, LINE_BYTES) / LINE_BYTES
    return lines / 2 * device.sm.l2_request_s * device.l2_bytes_per_s / device.l2_partitions


def _idle_ctas(lowered: LoweredLaunch, slots: int, device: Device) -> walk.Ctas:
    """Slots without a CTA."""
    ctas = walk.Ctas(
        slots=np.zeros(slots, dtype=walk.SLOT),
        environment=np.zeros((slots, lowered.environment_size), dtype=np.int64),
        trips=np.zeros((slots, max(1, len(lowered.loops)), 2), dtype=np.int64),
        arrivals=np.zeros((slots, walk.RING)),
        turns=np.zeros((slots, max(1, len(lowered.steps)))),
    )
    ctas.slots["sm"] = np.resize(_sm_order(device), slots)
    return ctas


def _sharing(
    costed: CostedLaunch, lowered: LoweredLaunch, device: Device, begin: float, due: np.ndarray
) -> sm_sharing.Sharing:
    """SMs on which nothing is computed."""
    places, resident = costed.residency.ctas_per_sm, costed.residency.ctas_per_busy_sm
    groups = max(1, SUB_CORES // costed.launch.warps_per_cta)
    lengths = lowered.costs.max(axis=1)
    slowdown = np.ones((len(lowered.costs), places))
    for row, by_age in zip(slowdown, lowered.slowdown_by_age, strict=True):
        row[: len(by_age)] = by_age
    progress = np.zeros((device.sms, places), dtype=sm_sharing.PROGRESS)
    progress["ended"] = begin
    return sm_sharing.Sharing(
        lengths=lengths,
        uses=lowered.costs[:, :-1] / np.where(lengths > 0.0, lengths, 1.0)[:, None],
        groups=groups,
        group_room=warps_per_sub_core(costed.launch.resources.registers_per_thread, device),
        group_share=cdiv(resident, groups) / resident,
        shared=PIPES.index("smem"),
        slowdown=slowdown,
        clock_ratio=clock_ratio_per_sm(costed.clocks, device),
        entered=np.zeros(device.sms, dtype=np.int64),
        group=np.zeros((device.sms, places), dtype=np.int64),
        pending=np.full((device.sms, places), sm_sharing.NOTHING, dtype=np.int64),
        by_age=np.zeros((device.sms, places + 1), dtype=np.int64),
        progress=progress,
        oversubscription=np.full(device.sms, sm_sharing.UNKNOWN),
        cases=np.zeros(sm_sharing.CASES, dtype=np.uint64),
        speeds=np.zeros((sm_sharing.CASES, places + 1)),
        due=due,
    )


def _sm_order(device: Device) -> np.ndarray:
    """SMs in the order in which they get their first CTA: round the partitions, int64 of shape (SMs,)."""
    return np.argsort(np.arange(device.sms) * device.l2_partitions % device.sms, kind="stable")
