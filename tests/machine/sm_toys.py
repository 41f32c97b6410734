"""Hand-written warp code for the simulation of an SM: one instruction a call, round latencies."""

from dataclasses import dataclass, field

import numpy as np
from tilesight.simulator.core.sm import issue as engine
from tilesight.simulator.core.sm import tables as sm

LATENCIES = sm.Latencies(
    load=300.0,
    copy=300.0,
    bulk=300.0,
    fill=1.0,
    out=8.0,
    turn=100.0,
    arrival=2.0,
    barrier=10.0,
    matmul_wait=40.0,
    matmul_queue=4,
    port=0.0,
    slack=2.0,
    held_up=1.0,
    run=8,
    dispatch=100.0,
    rest=1e9,
    jitter=0.0,
    short_rest=0.6,
    full_rest=1000.0,
    lsu_queue=10,
    most_taken=0.92,
    taken_from_reads=0.74,
    takes_all=0.95,
    line_holds=0.5,
    copy_turn=0.25,
)


@dataclass(slots=True)
class Code:
    """Instructions, in order."""

    rows: list[tuple[int, ...]] = field(default_factory=list)
    rates: list[tuple[float, ...]] = field(default_factory=list)

    def add(
        self,
        kind: int = sm.PLAIN,
        pipe: int = sm.NO_PIPE,
        *,
        stall: int = 1,
        writes: int = -1,
        reads: int = -1,
        waits: int = 0,
        argument: int = 0,
        leader: int = 0,
        interval: float = 1.0,
        latency: float = 0.0,
        read: float = 0.0,
        smem: float = 0.0,
        tensor: float = 0.0,
        port: float = 0.0,
        passes: float = 0.0,
        times: int = 1,
    ) -> "Code":
        """One instruction, or several alike."""
        self.rows += [(kind, pipe, stall, writes, reads, waits, argument, leader)] * times
        self.rates += [(interval, latency, read, smem, tensor, port, passes)] * times
        return self

    def product(self, columns: int = 128, *, commits: bool = False, stall: int = 4) -> "Code":
        """A warpgroup's m64nNk16, A in registers."""
        half = columns / 2.0
        return self.add(sm.MATMUL, argument=int(commits), stall=stall, smem=columns / 4.0, tensor=half, port=half)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What came of a run. Args: log as in `core.sm`; the rest summed over warps."""

    log: np.ndarray
    counts: np.ndarray
    stalls: np.ndarray
    blames: np.ndarray
    pipes: np.ndarray

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
    ways: list[list[tuple[int, int, int]]],
    *,
    offsets: tuple[float, ...] = (0.0,),
    rounds: int = 1,
    latencies: sm.Latencies = LATENCIES,
) -> Seen:
    """Run CTAs whose warp w walks the stretches `ways[w]` (first, one past the last, mark)."""
    roles, stretches = [], []
    for way in ways:
        roles.append((len(stretches), len(stretches) + len(way)))
        stretches += way
    entries = len(offsets) * (rounds + 2) * (len(stretches) + 4)
    state = sm.new_state(len(code.rows), len(ways), np.array(offsets), entries)
    logged = engine.simulate_sm(
        np.array(code.rows, dtype=np.int64),
        np.array(code.rates),
        np.array(stretches, dtype=np.int64),
        np.array(roles, dtype=np.int64),
        latencies,
        rounds,
        state,
    )
    assert logged > 0, "warps wait for each other for ever"
    return Seen(log=state.log[:logged], counts=state.counts, stalls=state.stalls, blames=state.blames, pipes=state.used)


def straight(code: Code, warps: int = 1, **options: object) -> Seen:
    """All warps walk the code once."""
    return walk(code, [[(0, len(code.rows), -1)]] * warps, **options)  # type: ignore[arg-type]
