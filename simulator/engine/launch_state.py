"""One launch under way: the arrays that the compiled loop changes, and how far it has come."""

import numpy as np

from ..core.engine import event_loop, events, links, sm_sharing
from ..core.engine.links import Rates
from ..core.engine.tile_path import FOLD, SLAB_GRANULES, Memory
from ..device.device import Device
from ..jobs.stopping import check_wanted
from ..launch.program import Launch
from ..residency.l1_reuse import hit_curve
from ..residency.residency import Residency
from .clock import Clocks, slowness_of_sms
from .lower import LoweredLaunch

ITEMS_AT_ONCE = 1 << 15
"""Items whose variables are looked up at a time."""


class UnderWay:
    """One launch under way: the arrays that the compiled loop changes, and how far it has come."""

    def __init__(
        self,
        launch: Launch,
        lowered: LoweredLaunch,
        tensors: np.ndarray,
        index: dict[str, int],
        state: Memory,
        residency: Residency,
        device: Device,
        clocks: Clocks,
        resolution: str,
        begin: float,
        record: bool,
        spilled_first: int,
    ) -> None:
        self.launch, self.lowered, self.state = launch, lowered, state
        self.tensors, self.index = tensors, index
        self.begin = begin
        resident = residency.ctas_per_sm
        clock_hz = clocks.counted_hz
        self.slot_count = residency.concurrent_ctas
        self.rates = Rates(
            partitions=device.l2_partitions,
            interleaved=resolution == "chunk",
            sms=device.sms,
            coalescer_sms=device.coalescer_sms,
            l2_read_cycles_per_byte=clock_hz / device.l2_bytes_per_s * device.l2_partitions,
            l2_write_cycles_per_byte=clock_hz / device.l2_write_bytes_per_s * device.l2_partitions,
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
            hbm_piece_write_bytes=float(device.hbm_piece_write_bytes),
            sm_fill_cycles_per_byte=0.0 if lowered.covers_l2 else 1.0 / device.sm_fill_bytes_per_cycle,
            l1_bytes=float(residency.l1_bytes),
            l1_curve=hit_curve(device),
            l1_latency=float(device.l1_latency_cycles),
            l2_latency=0.0 if lowered.covers_l2 else float(device.l2_latency_cycles),
            fabric_latency=float(device.fabric_latency_cycles),
            hbm_latency=device.hbm_latency_s * clock_hz,
            hbm_piece_latency=device.hbm_piece_latency_s * clock_hz,
            hbm_turn=device.hbm_turn_s * clock_hz,
            cta_dispatch=float(device.cta_dispatch_cycles),
            after_begin=float(np.nextafter(begin, np.inf)),
            spilled_first=spilled_first,
            spilled_granules=lowered.spilled_granules,
            spilled_bytes=lowered.spilled_bytes,
        )
        count = self.slot_count
        self.slowdown = np.ones((len(lowered.costs), resident))
        for row, by_age in zip(self.slowdown, lowered.slowdown_by_age, strict=True):
            row[: len(by_age)] = by_age
        self.slots = np.zeros((count, sm_sharing.SLOT_COLUMNS), dtype=np.int64)
        self.slots[:, sm_sharing.SM] = np.resize(_sm_order(device), count)
        self.trips = np.zeros((count, max(1, 2 * len(lowered.loops))), dtype=np.int64)
        self.environment = np.zeros((count, lowered.environment_size), dtype=np.int64)
        self.ring = np.zeros((count, event_loop.RING))
        self.due, self.times, self.seats = events.tournament(device.sms, resident, count, begin)
        self.clock = np.zeros(1, dtype=np.int64)
        self.lengths = lowered.costs.max(axis=1)
        self.uses = lowered.costs[:, :-1] / np.where(self.lengths > 0.0, self.lengths, 1.0)[:, None]
        self.pending_steps = np.full((device.sms, resident), sm_sharing.NOTHING, dtype=np.int64)
        self.aged = np.zeros((device.sms, resident + 1), dtype=np.int64)
        self.shares = np.zeros((device.sms, resident, sm_sharing.SHARE_COLUMNS))
        self.shares[:, :, sm_sharing.ENDED] = begin
        self.crowds = np.full(device.sms, sm_sharing.UNKNOWN)
        self.known = np.zeros(sm_sharing.KNOWN_CASES, dtype=np.uint64)
        self.speeds = np.zeros((sm_sharing.KNOWN_CASES, resident + 1))
        self.slowness = slowness_of_sms(clocks, device)
        self.record = np.zeros((launch.cta_count if record else 0, 4))
        self.now = begin
        state.free[:] = np.maximum(state.free, begin)
        state.ring[:] = 0
        state.seen[:] = 0
        state.stamps[:] = 0
        state.counter[:] = 0.0

    def step_to(self, item: int, table_first: int = 0) -> None:
        """Step on until item `item` is due, or to the end; items from `table_first` on have not been dispatched yet."""
        program, ctas = self.launch.program, self.launch.cta_count
        low, done, end = self.lowered, min(table_first, program.item_count), min(item, program.item_count)
        while True:
            check_wanted()
            # A persistent CTA takes up items from all over the grid.
            stop = program.item_count if ctas < program.item_count else min(done + ITEMS_AT_ONCE, end)
            table = np.ascontiguousarray(program.items(np.arange(done, stop, dtype=np.int64)), dtype=np.int64)
            self.now = event_loop.run(
                self.state, self.rates, self.tensors, low.tiles, low.code, low.loops, low.steps, self.lengths,
                self.uses, self.slowdown, self.slots, self.trips, self.environment, self.ring, self.pending_steps,
                self.aged, self.shares, self.crowds, self.known, self.speeds, self.due, self.due.view(np.int64),
                self.times, self.seats, self.clock, self.slowness, table, done, program.item_count, ctas,
                stop if stop < program.item_count else ctas, self.record, self.now,
            )  # fmt: skip
            done = stop
            if done >= end:
                return

    @property
    def is_folded(self) -> bool:
        """Whether granules of any of its tensors share numbers (see `lower`)."""
        rows = self.tensors[[self.index[tensor.name] for tensor in self.launch.program.tensors]]
        slabs = np.array([tensor.slabs for tensor in self.launch.program.tensors])
        return bool(np.any(rows[:, FOLD] < rows[:, SLAB_GRANULES] * slabs))

    @property
    def end(self) -> float:
        """When the newest event is over, and what it evicted has left for device memory [cycles]."""
        channels = self.state.free[links.first_channel(self.rates.partitions, self.rates.sms) :]
        return self.now + float(np.mean(np.maximum(channels - self.now, 0.0)))

    @property
    def idle_cycles(self) -> float:
        """Time from the end of an SM's last CTA to that of the launch's last one, in the mean over SMs [cycles]."""
        return float(np.mean(self.now - self.shares[:, :, sm_sharing.ENDED].max(axis=1)))

    def snapshot(self) -> np.ndarray:
        """Counters so far, then cycles so far; float64 of shape (COUNTERS + 1,)."""
        return np.concatenate((self.state.counter[: links.COUNTERS], [self.end - self.begin]))


def _sm_order(device: Device) -> np.ndarray:
    """SMs in the order in which they get their first CTA: round the partitions, int64 of shape (SMs,)."""
    return np.argsort(np.arange(device.sms) * device.l2_partitions % device.sms, kind="stable")
