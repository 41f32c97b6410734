"""Code longer than an instruction cache is fetched anew in each iteration; code that fits costs nothing."""

import pytest
from machine.sm_toys import LATENCIES, Code, walk
from tilesight.simulator.core.sm import instruction as op
from tilesight.simulator.core.sm import state as sm
from tilesight.simulator.device.device import load_device
from tilesight.simulator.sm.machine import latencies_of

H200 = load_device("h200")
SHIPPED = latencies_of(H200, H200.sms)
SMALL = LATENCIES._replace(
    fetch_core_lines=4.0, fetch_sm_lines=16.0, fetch_turn=12.0, fetch_from_sm=14.0, fetch_from_l2=40.0
)
"""Caches of 4 and 16 lines of 8 instructions."""
TURNS, FIRST = 6, 2
LINE = 8


def issued_per_cycle(lines: int, warps: int, latencies: object = SMALL, turns: int = TURNS) -> float:
    """Of a sub-core, in a loop of FFMA after its first two turns; as many warps on each."""
    code = Code().add(op.PLAIN, op.FMA, times=LINE * lines)
    ends = [
        walk(code, [[(0, len(code.rows), -1)] * count] * (4 * warps), latencies=latencies).cycles
        for count in (FIRST, turns)
    ]
    return LINE * lines * warps * (turns - FIRST) / (ends[1] - ends[0])


def test_code_that_fits_is_not_waited_for() -> None:
    """Four lines stay, and are issued one instruction a cycle."""
    assert issued_per_cycle(4, 1) == pytest.approx(1.0)


@pytest.mark.parametrize(("lines", "wait"), [(8, 14), (32, 40)])
def test_a_lone_warp_waits_for_each_line_of_longer_code(lines: int, wait: int) -> None:
    """For the SM's cache, or for L2, where that does not hold the loop either."""
    assert issued_per_cycle(lines, 1) == pytest.approx(LINE / (LINE + wait), rel=0.05)


def test_warps_that_go_together_share_what_comes() -> None:
    """Two warps of a sub-core wait for the same lines of L2, and issue twice as many instructions meanwhile."""
    assert issued_per_cycle(32, 2) == pytest.approx(2.0 * issued_per_cycle(32, 1), rel=0.1)


def test_a_sub_core_gives_lines_to_one_warp_after_the_other() -> None:
    """However many warps: 8 instructions in 12 cycles."""
    assert issued_per_cycle(8, 8) == pytest.approx(LINE / 12, rel=0.05)


def test_the_wait_has_a_name() -> None:
    """Warps stall for code, not for stall counts."""
    code = Code().add(op.PLAIN, op.FMA, times=LINE * 32)
    stalls = walk(code, [[(0, len(code.rows), -1)] * 3] * 4, latencies=SMALL).stalls.sum(axis=0)
    assert stalls[sm.FETCH] == pytest.approx(4 * 2 * 32 * 40, rel=0.05)
    assert stalls[sm.FIXED] == 0.0


@pytest.mark.parametrize(
    ("kib", "warps", "measured"),
    [(24, 3, 0.957), (96, 1, 0.349), (96, 2, 0.75), (160, 1, 0.17), (160, 2, 0.329), (160, 4, 0.648), (160, 8, 0.589)],
)
def test_an_h200_issues_long_loops_as_slowly_as_measured(kib: int, warps: int, measured: float) -> None:
    """Triton's loops of FFMA on an H200 (validate/data/instruction-fetch-h200-2026-11-28.ndjson.xz), within 15 %."""
    rate = issued_per_cycle(kib * 1024 // 128, warps, SHIPPED, turns=4)
    assert rate == pytest.approx(measured, rel=0.15)
