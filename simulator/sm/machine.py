"""An SM with the code and the warps of a launch, ready to be run, and the numbers that belong to no single opcode."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..core.sm import issue, tables
from ..device.device import Device
from ..limits import LINE_BYTES
from ..trace.ways import Ways


def latencies_of(device: Device, busy_sms: int) -> tables.Latencies:
    """What an SM of a device waits for, as `core.sm` takes it. Args: busy_sms: that share the way to L2."""
    sm, l2 = device.sm, float(device.l2_latency_cycles)
    return tables.Latencies(
        load=l2,
        copy=l2 + sm.ldgsts_extra_cycles,
        bulk=l2 + sm.tma_load_extra_cycles,
        fill=float(sm.l2_read_cycles_per_line),
        out=float(max(sm.l2_write_lone_cycles_per_line, sm.l2_write_cycles_per_line * busy_sms / device.sms)),
        turn=float(sm.tma_load_after_store_cycles),
        arrival=float(sm.barrier_arrival_cycles),
        barrier=float(sm.barrier_release_cycles),
        matmul_wait=float(sm.wgmma_wait_release_cycles),
        matmul_queue=sm.wgmma_queue_products,
        port=1.0 - 1.0 / sm.wgmma_port_instruction_cycles,
        slack=float(sm.wgmma_port_slack_instructions),
        held_up=float(sm.wgmma_port_run_factor),
        run=sm.wgmma_port_run_instructions,
        dispatch=float(sm.cta_replacement_cycles),
        rest=float(device.tensor_rest_cycles),
        jitter=float(sm.wgmma_length_jitter_fraction),
        short_rest=float(sm.clock_restart_short_fraction),
        full_rest=float(sm.clock_restart_full_cycles),
        lsu_queue=sm.lsu_queue_instructions,
        most_taken=float(sm.wgmma_smem_most_fraction),
        taken_from_reads=float(sm.wgmma_smem_from_reads_fraction),
        takes_all=float(sm.wgmma_smem_all_fraction),
        line_holds=float(sm.wgmma_smem_line_hold_cycles),
        copy_turn=float(sm.ldgsts_smem_turn_fraction),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of a run.

    Args:
        log, issues, stalls, blames, used: as in `core.sm`; counts: region -> iterations of each CTA's first warp;
        drain: from the end of the last CTA until all that was stored has left the SM [cycles].
    """

    log: np.ndarray
    issues: np.ndarray
    stalls: np.ndarray
    blames: np.ndarray
    used: np.ndarray
    counts: Counter[int]
    drain: float

    def times(self, slot: int, mark: int) -> np.ndarray:
        """When a slot's first warp passed a mark."""
        chosen = (self.log[:, tables.LOG_SLOT] == slot) & (self.log[:, tables.LOG_MARK] == mark)
        times: np.ndarray = self.log[chosen, tables.LOG_TIME]
        return times

    @property
    def end(self) -> float:
        """When the last CTA was done [cycles]."""
        return float(self.log[-1, tables.LOG_TIME])

    @property
    def figures(self) -> np.ndarray:
        """Cycles of use of each of `cost.PIPES`; what each sub-core has of its own, averaged over them.

        Then bytes of spilled registers that come from L2, and that go there [B]; how often products begin after a pause
        in which the clock has risen, and for how long it had.
        """
        own = self.used / tables.SUB_CORES
        return np.array(
            (
                self.used[tables.PRODUCTS] + own[tables.TENSOR_PIPE],
                own[tables.MUFU],
                own[tables.FMA] + own[tables.HEAVY],
                own[tables.ALU],
                own[tables.SLOTS],
                self.used[tables.SHARED_MEMORY],
                LINE_BYTES * self.used[tables.FETCHED],
                LINE_BYTES * self.used[tables.SPILLED],
                self.used[tables.RESTARTS],
                self.used[tables.RESTED],
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Code and ways of a launch. Args: code, rates, latencies: as in `core.sm`."""

    ways: Ways
    code: np.ndarray
    rates: np.ndarray
    latencies: tables.Latencies

    def delayed(self, cycles: float) -> "Machine":
        """The same machine with data from beyond L1 so much later [cycles]."""
        now = self.latencies
        later = now._replace(load=now.load + cycles, copy=now.copy + cycles, bulk=now.bulk + cycles)
        return replace(self, latencies=later)

    def run(self, trips: Mapping[int, int], offsets: np.ndarray, rounds: int = 1) -> Run:
        """Run CTAs.

        Args:
            trips: region -> iterations of each stay there; offsets: when each slot's first CTA starts [cycles];
            rounds: CTAs that each slot runs, one after the other.

        Raises:
            ValueError: warps wait for each other for ever; one line.
        """
        trace, roles, counts = self.ways.traces(trips)
        marks = sum(counts.values()) + 4
        state = tables.new_state(len(self.code), len(roles), offsets, 16 + len(offsets) * (rounds + 2) * marks)
        logged = issue.simulate_sm(self.code, self.rates, trace, roles, self.latencies, rounds, state)
        if logged < 0:
            raise ValueError("compiled code: its warps wait for each other for ever")
        return Run(
            log=state.log[:logged],
            issues=state.counts,
            stalls=state.stalls,
            blames=state.blames,
            used=state.used,
            counts=counts,
            drain=max(0.0, float(state.links[tables.OUT_FREE] - state.log[logged - 1, tables.LOG_TIME])),
        )
