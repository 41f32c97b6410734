"""Memory instructions in front of L1: a queue for each sub-core, in order, as deep as on an H200.

Held against `lsu-queue-h200-2026-11-23.json`: warps store so many times, and then read shared memory.
"""

from functools import cache
from typing import Any

import pytest
from machine.sm_toys import LATENCIES, Code, straight, walk
from support.lab import measured
from tilesight.simulator.core.sm import instruction as op
from tilesight.simulator.core.sm import state as sm

STORE: dict[str, Any] = {
    "kind": op.STORE,
    "pipe": op.LSU,
    "interval": 4.0,
    "smem": 4.0,
    "read": 12.0,
}
READ: dict[str, Any] = {"kind": op.SHARED, "pipe": op.LSU, "interval": 2.0, "latency": 22.0, "smem": 1.0}
SMS = 132
DEPTH = 10
"""Memory instructions of a sub-core that wait in front of L1: 9 to 12 of them were seen, so that what is simulated may
be off by one store of each of the four sub-cores."""
SUB_CORES, STORE_LINES = 4, 4


@cache
def _rows() -> tuple[dict[str, Any], ...]:
    rows = measured("lsu-queue-h200-2026-11-23")["rows"]
    return tuple(
        row for row in rows if row["what"] == "after" and (row["store"], row["op"], row["in_l1"]) == ("512 B", "LDS", 0)
    )


def _measured(stores: int, warps: int, ctas: int) -> tuple[float, float]:
    """Cycles from the last store of a CTA's first and of its last warp until its read of shared memory is done."""
    (row,) = (row for row in _rows() if (row["ctas"], row["warps"], row["stores"]) == (ctas, warps, stores))
    return row["first_done"] - row["first_issued"], row["last_done"] - row["last_issued"]


def _simulated(stores: int, warps: int, out_cycles: float) -> float:
    """The same in the mean of all warps. Args: out_cycles: a line leaves the SM in so many."""
    latencies = LATENCIES._replace(store_per_line=out_cycles, lsu_queue=DEPTH)
    code = Code().add(**STORE, times=stores).add(**READ, writes=0).add(waits=1)
    return float(straight(code, warps, latencies=latencies).stalls[stores + 1, sm.SCOREBOARD]) / warps


@pytest.mark.parametrize(("ctas", "out_cycles", "stores"), [(1, 4.0, 12), (1, 4.0, 16), (1, 4.0, 24), (SMS, 6.26, 24)])
@pytest.mark.parametrize("warps", [4, 8])
def test_reads_of_shared_memory_wait_behind_stores_as_long_as_measured(
    ctas: int, out_cycles: float, stores: int, warps: int
) -> None:
    """Between the two warps that were timed, to one store of each sub-core; else spills would cost too little."""
    waits = [many - few for many, few in zip(_measured(stores, warps, ctas), _measured(1, warps, ctas), strict=True)]
    simulated = _simulated(stores, warps, out_cycles) - _simulated(1, warps, out_cycles)
    one_store_each = SUB_CORES * STORE_LINES * out_cycles
    assert min(waits) - one_store_each <= simulated <= max(waits) + one_store_each


def test_a_warp_stores_on_while_the_queue_takes_what_it_stores() -> None:
    """Two more than it takes wait until two have left; else the first that finds the link to L2 full would wait."""
    slow = LATENCIES._replace(store_per_line=100.0, store_queue=0.0, lsu_queue=DEPTH)
    few, many = (
        straight(Code().add(**STORE, times=times).add(), latencies=slow).cycles for times in (DEPTH, DEPTH + 2)
    )
    assert few < 100
    assert many == pytest.approx(2 * STORE_LINES * 100 + 1)


def test_a_sub_core_that_queues_leaves_shared_memory_to_the_others() -> None:
    """A read takes its latency and its line's cycle, whatever a fourth sub-core stores."""
    code = Code().add(**STORE, times=200).add(stall=15, times=10).add(**READ, writes=0).add(waits=1)
    paths = [[(0, 200, -1)], *[[(200, 212, -1)]] * 3]
    seen = walk(code, paths, latencies=LATENCIES._replace(store_per_line=50.0))
    assert seen.stalls[211, sm.SCOREBOARD] / 3 == pytest.approx(22.0 + 1.0)


def test_matmuls_delay_nothing_that_still_waits_for_the_link_to_l2() -> None:
    """LDS behind stores would wait once more for each matmul that begins, though none of them keeps it."""
    code = Code().add(**STORE, times=16).add(**READ, writes=0).add(waits=1)
    for _ in range(5):
        code.add(op.MATMUL, commits=1, smem=34.0, tensor_cycles=32.0, port=32.0, stall=4).add(op.MATMUL_WAIT)
    matmuls = len(code.rows)
    code.add(**{**READ, "smem": 4.0}, times=80)
    store, multiply, read = (0, 18, -1), (18, matmuls, -1), (matmuls, len(code.rows), -1)

    def waited(*fourth: tuple[int, int, int]) -> float:
        """Three sub-cores store, then read; beside them a warpgroup multiplies, and the fourth reads (or not)."""
        paths = [*[[store]] * 3, list(fourth), *[[multiply]] * 4]
        return float(walk(code, paths, latencies=LATENCIES._replace(store_per_line=12.0)).stalls[17, sm.SCOREBOARD]) / 3

    assert waited((17, 18, -1)) > 300
    assert waited(read) == pytest.approx(waited((17, 18, -1)))


def test_loads_of_a_sub_core_that_stores_nothing_wait_for_what_is_behind_l1_alone() -> None:
    """To one store; else they would wait for what queues on other sub-cores, three times as long."""
    load = {"kind": op.LOAD, "pipe": op.LSU, "interval": 2.0, "smem": 1.0, "tag_lines": 1.0}
    code = Code().add(**STORE, times=14).add(stall=15, times=10).add(**load, writes=0).add(waits=1)
    seen = walk(code, [*[[(0, 14, -1)]] * 3, [(14, 26, -1)]], latencies=LATENCIES._replace(store_per_line=20.0))
    behind_l1, store = 52.0 * 20.0, STORE_LINES * 20.0
    assert seen.stalls[25, sm.SCOREBOARD] == pytest.approx(300.0 + behind_l1, abs=store)
