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
    fetch_core_lines=32.0, fetch_sm_lines=128.0, fetch_turn=12.0, fetch_from_sm=20.0, fetch_from_l2=48.0
)
"""Caches of 32 and 128 lines of 8 instructions."""
TURNS, FIRST = 6, 2
LINE = 8
STALLS = {1: 4, 2: 2, 8: 1}
"""Chains of FFMA that go side by side -> cycles from one to the next."""


def issued_per_cycle(lines: int, warps: int, latencies: object = SMALL, turns: int = TURNS, chains: int = 8) -> float:
    """Of a sub-core, in a loop of FFMA after its first two turns; as many warps on each."""
    code = Code().add(op.PLAIN, op.FMA, times=LINE * lines, stall=STALLS[chains])
    ends = [
        walk(code, [[(0, len(code.rows), -1)] * count] * (4 * warps), latencies=latencies).cycles
        for count in (FIRST, turns)
    ]
    return LINE * lines * warps * (turns - FIRST) / (ends[1] - ends[0])


def test_code_that_fits_is_not_waited_for() -> None:
    """32 lines stay, and are issued one instruction a cycle."""
    assert issued_per_cycle(32, 1) == pytest.approx(1.0)


@pytest.mark.parametrize(("lines", "cycles"), [(64, 20), (256, 48)])
def test_a_lone_warp_waits_for_each_line_of_longer_code(lines: int, cycles: int) -> None:
    """From the SM's cache, or from L2, where that does not hold the loop either: one line on its way at a time."""
    assert issued_per_cycle(lines, 1) == pytest.approx(LINE / cycles, rel=0.05)


def test_a_warp_that_issues_slowly_waits_for_no_line() -> None:
    """Eight instructions that need each other take 32 cycles: the next line is there before."""
    assert issued_per_cycle(64, 1, chains=1) == pytest.approx(1 / 4, rel=0.01)


def test_a_few_lines_too_many_overflow_a_few_sets() -> None:
    """Of 34 lines in 16 sets of two, six are missing: 12 cycles each beyond the 8 that they are issued in."""
    assert issued_per_cycle(34, 1) == pytest.approx(34 * LINE / (34 * LINE + 6 * 12), rel=0.05)


def test_warps_that_go_together_share_what_comes() -> None:
    """Two warps of a sub-core wait for the same lines of L2, and issue twice as many instructions meanwhile."""
    assert issued_per_cycle(256, 2) == pytest.approx(2.0 * issued_per_cycle(256, 1), rel=0.1)


def test_warps_in_step_share_lines_and_others_take_turns() -> None:
    """Eight warps whose instructions need each other keep step and issue one a cycle; those that run ahead do not."""
    assert issued_per_cycle(64, 8, chains=1) == pytest.approx(1.0, rel=0.02)
    assert issued_per_cycle(64, 8) < 0.95


def test_the_wait_has_a_name() -> None:
    """Warps stall for code, not for stall counts."""
    code = Code().add(op.PLAIN, op.FMA, times=LINE * 256)
    stalls = walk(code, [[(0, len(code.rows), -1)] * 3] * 4, latencies=SMALL).stalls.sum(axis=0)
    assert stalls[sm.FETCH] == pytest.approx(4 * 2 * 256 * 40, rel=0.05)
    assert stalls[sm.FIXED] == 0.0


@pytest.mark.parametrize(
    ("kib", "warps", "measured"),
    [(24, 3, 0.957), (96, 1, 0.349), (96, 2, 0.75), (160, 1, 0.17), (160, 2, 0.329), (160, 4, 0.648), (160, 8, 0.589)],
)
def test_an_h200_issues_long_loops_as_slowly_as_measured(kib: int, warps: int, measured: float) -> None:
    """Triton's loops of FFMA on an H200 (validate/data/instruction-fetch-h200-2026-11-28.ndjson.xz), within 15 %."""
    rate = issued_per_cycle(kib * 1024 // 128, warps, SHIPPED, turns=4)
    assert rate == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize(
    ("kib", "chains", "warps", "measured"),
    [(64, 1, 1, 0.249), (64, 1, 12, 0.995), (64, 2, 8, 0.75), (64, 8, 4, 0.68), (96, 1, 8, 0.995), (160, 1, 4, 0.69)],
)
def test_an_h200_hides_fetches_behind_chains_as_measured(kib: int, chains: int, warps: int, measured: float) -> None:
    """Chains of FFMA on an H200 (validate/data/code-chains-h200-2026-11-28.ndjson.xz), within 15 %."""
    rate = issued_per_cycle(kib * 1024 // 128, warps, SHIPPED, turns=4, chains=chains)
    assert rate == pytest.approx(measured, rel=0.15)
