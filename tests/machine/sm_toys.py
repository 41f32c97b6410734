"""Hand-written warp code for the simulation of an SM: one instruction a call, round latencies."""

from dataclasses import dataclass, field

import numpy as np
from tilesight.simulator.core.sm import instruction as op
from tilesight.simulator.core.sm import state as sm
from tilesight.simulator.core.sm.issue import simulate_sm
from tilesight.simulator.core.sm.latencies import Latencies

LATENCIES = Latencies(
    load=300.0,
    copy=300.0,
    bulk_copy=300.0,
    atomic=400.0,
    fill_per_line=1.0,
    store_per_line=8.0,
    copy_after_store=100.0,
    barrier_arrival=2.0,
    barrier_release=10.0,
    matmul_release=40.0,
    matmul_queue=4,
    port_share=0.0,
    port_credit=2.0,
    port_wait=2.0,
    pipe_turns=1,
    replacement=100.0,
    clock_rest=1e9,
    matmul_jitter=0.0,
    short_restart=0.6,
    full_restart=1000.0,
    lsu_queue=10,
    matmul_smem_most=0.92,
    matmul_smem_from_reads=0.74,
    matmul_smem_all=0.95,
    line_hold=0.5,
    copy_turn=0.25,
    fetch_core_lines=1e9,
    fetch_sm_lines=1e9,
    fetch_turn=0.0,
    fetch_from_sm=0.0,
    fetch_from_l2=0.0,
    fetch_l2_line=0.0,
)


@dataclass(slots=True)
class Code:
    """Instructions, in order."""

    rows: list[op.SmInstruction] = field(default_factory=list)

    def add(
        self,
        kind: int = op.PLAIN,
        pipe: int = op.NO_PIPE,
        *,
        stall: int = 1,
        writes: int = -1,
        reads: int = -1,
        waits: int = 0,
        leader: int = 0,
        interval: float = 1.0,
        latency: float = 0.0,
        read: float = 0.0,
        smem: float = 0.0,
        port: float = 0.0,
        passes: float = 0.0,
        times: int = 1,
        **others: float,
    ) -> "Code":
        """One instruction, or several alike. Args: others: fields of `SmInstruction` that few kinds have."""
        row = op.SmInstruction(
            kind=kind,
            pipe=pipe,
            stall_cycles=stall,
            write_scoreboard=writes,
            read_scoreboard=reads,
            wait_mask=waits,
            leader=leader,
            interval_cycles=interval,
            latency_cycles=latency,
            operand_cycles=read,
            smem_lines=smem,
            port_reads=port,
            smem_passes=passes,
        )
        self.rows += [row._replace(**others)] * times  # type: ignore[arg-type]
        return self

    def matmul(self, columns: int = 128, *, commits: bool = False, stall: int = 4) -> "Code":
        """A warpgroup's m64nNk16, A in registers."""
        half = columns / 2.0
        return self.add(op.MATMUL, commits=int(commits), stall=stall, smem=columns / 4.0, tensor_cycles=half, port=half)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What came of a run. The fields are those of `core.sm.state`, summed over warps."""

    log: np.ndarray
    issues: np.ndarray
    stalls: np.ndarray
    awaited: np.ndarray
    used: np.ndarray

    @property
    def cycles(self) -> float:
        """From the first start to the last end."""
        return float(self.log[-1, sm.LOG_TIME] - self.log[0, sm.LOG_TIME])

    def times(self, mark: int, slot: int = 0) -> np.ndarray:
        """When a slot's first warp passed a mark."""
        chosen = (self.log[:, sm.LOG_SLOT] == slot) & (self.log[:, sm.LOG_MARK] == mark)
        times: np.ndarray = self.log[chosen, sm.LOG_TIME]
        return times


def walk(
    code: Code,
    paths: list[list[tuple[int, int, int]]],
    *,
    offsets: tuple[float, ...] = (0.0,),
    rounds: int = 1,
    latencies: Latencies = LATENCIES,
) -> Seen:
    """Run CTAs whose warp w walks the stretches `paths[w]` (first, one past the last, mark)."""
    roles, stretches = [], []
    for path in paths:
        roles.append((len(stretches), len(stretches) + len(path)))
        stretches += path
    entries = len(offsets) * (rounds + 2) * (len(stretches) + 4)
    state = sm.new_state(len(code.rows), len(paths), np.array(offsets), entries)
    trace, warps = np.array(stretches, dtype=np.int64), np.array(roles, dtype=np.int64)
    logged = simulate_sm(op.code_table(code.rows), trace, warps, latencies, rounds, 0, state)
    assert logged > 0, "warps wait for each other for ever"
    assert logged <= entries
    return Seen(
        log=state.log[:logged], issues=state.issues, stalls=state.stalls, awaited=state.awaited, used=state.used
    )


def straight(code: Code, warps: int = 1, **options: object) -> Seen:
    """All warps walk the code once."""
    return walk(code, [[(0, len(code.rows), -1)]] * warps, **options)  # type: ignore[arg-type]
