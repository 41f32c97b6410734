"""An SM with the code and the warps of a launch, ready to be run, and the numbers that belong to no single opcode."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..core.sm import issue, state
from ..core.sm.instruction import ALU, FMA, HEAVY, MUFU, TENSOR_PIPE
from ..core.sm.latencies import Latencies
from ..device.device import Device
from ..jobs.stopping import check_wanted
from ..limits import LINE_BYTES, SUB_CORES
from ..trace.paths import CtaPaths

WAITING = (
    "compiled code: in the simulated SM its warps wait for each other for ever: slots of a ring of barriers are not "
    "told apart there, or the kernel hangs"
)
LEAST_LOGGED, CTA_MARKS = 16, 4
"""Room of the log at first, whatever runs, and of each CTA beside its iterations: twice its begin and end. A guess; a
log that is too short is made anew."""


def latencies_of(device: Device, busy_sms: int) -> Latencies:
    """Latencies, queues and shares of an SM that belong to no single opcode.

    Args:
        busy_sms: SMs that share the bandwidth to L2.
    """
    sm, l2 = device.sm, float(device.l2_latency_cycles)
    shared = sm.l2_write_cycles_per_line * busy_sms / device.sms
    return Latencies(
        load=l2,
        copy=l2 + sm.ldgsts_extra_cycles,
        bulk_copy=l2 + sm.tma_load_extra_cycles,
        atomic=l2 + sm.atomic_extra_cycles,
        fill_per_line=float(sm.l2_read_cycles_per_line),
        store_per_line=float(max(sm.l2_write_lone_cycles_per_line, shared)),
        copy_after_store=float(sm.tma_load_after_store_cycles),
        barrier_arrival=float(sm.barrier_arrival_cycles),
        barrier_release=float(sm.barrier_release_cycles),
        matmul_release=float(sm.wgmma_wait_release_cycles),
        matmul_queue=sm.wgmma_queue_products,
        port_share=1.0 - sm.wgmma_port_left_fraction,
        port_credit=float(sm.wgmma_port_slack_instructions),
        port_wait=float(sm.wgmma_port_wait_cycles),
        pipe_turns=sm.busy_pipe_turns,
        replacement=float(sm.cta_replacement_cycles),
        clock_rest=float(device.tensor_rest_cycles),
        matmul_jitter=float(sm.wgmma_length_jitter_fraction),
        short_restart=float(sm.clock_restart_short_fraction),
        full_restart=float(sm.clock_restart_full_cycles),
        lsu_queue=sm.lsu_queue_instructions,
        matmul_smem_most=float(sm.wgmma_smem_most_fraction),
        matmul_smem_from_reads=float(sm.wgmma_smem_from_reads_fraction),
        matmul_smem_all=float(sm.wgmma_smem_all_fraction),
        line_hold=float(sm.wgmma_smem_line_hold_cycles),
        copy_turn=float(sm.ldgsts_smem_turn_fraction),
        fetch_core_lines=sm.fetch_core_bytes / LINE_BYTES,
        fetch_sm_lines=sm.fetch_sm_bytes / LINE_BYTES,
        fetch_turn=float(sm.fetch_turn_cycles),
        fetch_from_sm=float(sm.fetch_sm_cycles),
        fetch_from_l2=float(sm.fetch_l2_cycles),
        fetch_l2_line=float(sm.fetch_l2_line_cycles),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of a run.

    Args:
        log, issues, stalls, awaited, used: as in `core.sm.state`.
        counts: region -> iterations of each CTA's first warp.
        drain: from the end of the last CTA until all that was stored has left the SM [cycles].
    """

    log: np.ndarray
    issues: np.ndarray
    stalls: np.ndarray
    awaited: np.ndarray
    used: np.ndarray
    counts: Counter[int]
    drain: float

    def times(self, slot: int, mark: int) -> np.ndarray:
        """When a slot's first warp passed a mark."""
        chosen = (self.log[:, state.LOG_SLOT] == slot) & (self.log[:, state.LOG_MARK] == mark)
        times: np.ndarray = self.log[chosen, state.LOG_TIME]
        return times

    @property
    def end(self) -> float:
        """When the last CTA was done [cycles]."""
        return float(self.log[-1, state.LOG_TIME])

    @property
    def figures(self) -> np.ndarray:
        """Cycles of use of each of `step_cost.PIPES`; what each sub-core has of its own, averaged over them.

        Then bytes of spilled registers that come from L2, and that go there [B]; how often matmuls begin after a pause
        in which the clock has risen, and for how long it had [cycles].
        """
        per_core = self.used / SUB_CORES
        return np.array(
            (
                self.used[state.MATMULS] + per_core[TENSOR_PIPE],
                per_core[MUFU],
                per_core[FMA] + per_core[HEAVY],
                per_core[ALU],
                per_core[state.SLOTS],
                self.used[state.SHARED_MEMORY],
                LINE_BYTES * self.used[state.RELOADED],
                LINE_BYTES * self.used[state.SPILLED],
                self.used[state.RESTARTS],
                self.used[state.RESTED],
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """An SM, and the code that its CTAs run.

    Args:
        paths: of a CTA's warps.
        code: records of `core.sm.instruction`.
        latencies: of the SM.
    """

    paths: CtaPaths
    code: np.ndarray
    latencies: Latencies

    def delayed(self, cycles: float, copies: bool = True) -> "Machine":
        """The same machine with a longer latency of data from beyond L1.

        Args:
            cycles: more [cycles]; copies: whether that of copies is longer as well.
        """
        now, of_copies = self.latencies, cycles * copies
        later = now._replace(
            load=now.load + cycles,
            copy=now.copy + of_copies,
            bulk_copy=now.bulk_copy + of_copies,
            atomic=now.atomic + cycles,
        )
        return replace(self, latencies=later)

    def run(self, trips: Mapping[int, int], offsets: np.ndarray, rounds: int = 1, together: int | None = None) -> Run:
        """Run CTAs.

        Args:
            trips: region -> iterations of each visit.
            offsets: float64 (slots,), when each slot's first CTA starts [cycles].
            rounds: CTAs that each slot runs at least, one after the other; slots that finish early run more.
            together: region whose iterations are asked for while all CTAs are in it: the run ends once one is through.

        Raises:
            ValueError: warps wait for each other for ever; one line.
        """
        trace, roles, counts = self.paths.traces(trips)
        entries = LEAST_LOGGED + len(offsets) * (rounds + 2) * (sum(counts.values()) + CTA_MARKS)
        laps = 0 if together is None else trips[together]
        while True:
            check_wanted()
            after = state.new_state(len(self.code), len(roles), offsets, entries)
            after.sm["watched"] = -1 if together is None else together
            logged = issue.simulate_sm(self.code, trace, roles, self.latencies, rounds, laps, after)
            if logged < 0:
                raise ValueError(WAITING)
            if logged <= entries:
                break
            entries = 2 * logged  # a slot has run many more CTAs than another
        return Run(
            log=after.log[:logged],
            issues=after.issues,
            stalls=after.stalls,
            awaited=after.awaited,
            used=after.used,
            counts=counts,
            drain=max(0.0, float(after.sm["store_free"][0] - after.log[logged - 1, state.LOG_TIME])),
        )
