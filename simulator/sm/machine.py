"""An SM with the code and the warps of a launch, ready to be run, and the constants that belong to no single opcode.

Source of all constants but the fitted ones: one H200, CUDA 13.0, 2026-11-21, `tilesight calibrate` (microbenchmarks).
The latency of L2 is the device's own.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..core.sm import issue, tables
from ..device.device import Device
from .paths import Ways

BULK_CYCLES = 103.0
"""What a bulk copy takes beyond an L2 hit of 280 cycles: 517 for 16 KiB, less the data's own 134."""
COPY_CYCLES = 30.0
"""The same for LDGSTS: one of 512 B and the wait for it take 332 cycles in the mean of 132 SMs, 300 of them the hit and
the instructions (docs/lab/data/sm-sharing-h200-2026-11-22.json.xz)."""
FILL = 1.05
"""Cycles of the way from L2 for one of shared memory: LDGSTS tiles of 2 to 32 KiB take 1.05 to 1.06 cycles more for
each 128 B, one SM (the same data); what all SMs together ask of L2 is the engine's."""
OUT, OUT_ALONE = 6.26, 4.0
"""The same for what is written to L2, 20.45 B a cycle where all SMs write and 32 where few do (one H200, CUDA 13.0,
2026-11-22, docs/lab/data/sm-sharing-h200-2026-11-22.json.xz; 31.4 for each of 66, by the program before)."""
BULK_TURN_CYCLES = 140.0
"""A bulk copy behind a bulk store of 4, 16 and 32 KiB is there 453, 837 and 1350 cycles later than alone: 310 beyond
31.5 B a cycle, 170 of them the store's own (docs/lab/data/store-queue-h200-2026-11-22.json.xz)."""
MATMUL_WAIT_CYCLES = 40.0
"""wgmma: a turn of four products and their wait takes 54 cycles (A in registers) beyond the products; about 14 of them
are the turn's own instructions."""
MATMUL_QUEUE = 4
"""Products of a warpgroup that wait in front of the tensor cores: fitted."""
BARRIER_ARRIVAL_CYCLES, BARRIER_CYCLES = 2.0, 12.0
"""bar.sync after bar.sync: 20.6 cycles for 4 warps, 28.6 for 8, 44.6 for 16."""
PORT_SHARE, PORT_RUN, PORT_HELD_UP = 1.0 - 1.0 / 5.2, 8, 1.4
"""How much of the register port of its sub-core a tensor core under wgmma takes, after how many instructions without a
gap it waits, and by how much longer than they take; set to what instructions take beside a stream of m64n128k16: 4.4 to
5.8 cycles where it is 2 to 4.2 alone, EX2 10.6 for 8.0, FFMA without a gap 1.3 to 1.8, and then a product 1.1 to 1.5
cycles more for each beyond its share."""
PRODUCT_JITTER = 0.1
"""Nothing on a GPU takes as long each time, and CTAs that run beside each other do not lock in step: an assumption, of
5, 10 and 30 %, with eyes on paces by age and on times of seed 0 (decision 0011)."""
PORT_SLACK = 2.0
"""Instructions that may issue at once: stall samples of a lone CTA show hardly any that wait for the port beside a
product, one in 7 cycles (docs/lab/data/stall-samples-h200-2026-11-22.json.xz), and so it is here with 2 to 16."""
DISPATCH_CYCLES = 321.0
"""From the end of a CTA to the begin of the next in its place."""
LINE_BYTES = 128


def latencies_of(device: Device, busy_sms: int) -> tables.Latencies:
    """What an SM of a device waits for, as `core.sm` takes it. Args: busy_sms: that share the way to L2."""
    return tables.Latencies(
        load=float(device.l2_latency_cycles),
        copy=device.l2_latency_cycles + COPY_CYCLES,
        bulk=device.l2_latency_cycles + BULK_CYCLES,
        fill=FILL,
        out=max(OUT_ALONE, OUT * busy_sms / device.sms),
        turn=BULK_TURN_CYCLES,
        arrival=BARRIER_ARRIVAL_CYCLES,
        barrier=BARRIER_CYCLES,
        matmul_wait=MATMUL_WAIT_CYCLES,
        matmul_queue=MATMUL_QUEUE,
        port=PORT_SHARE,
        slack=PORT_SLACK,
        held_up=PORT_HELD_UP,
        run=PORT_RUN,
        dispatch=DISPATCH_CYCLES,
        rest=float(device.tensor_rest_cycles),
        jitter=PRODUCT_JITTER,
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
