"""Planted cheats and broken instruments: each is found and named, and an honest measurement raises no doubt."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Launch, Resources
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import launches_of
from tilesight.validate.counters.ncu_output import CountedLaunch
from tilesight.validate.measure.doubts import (
    Facts,
    clock_doubts,
    counted_doubts,
    counter_doubts,
    doubts,
    launch_doubts,
    rate_doubts,
)
from tilesight.validate.measurement import LaunchMeasurement, Timing

H200 = load_device("h200")
PROBLEM = AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
COMPILED = Resources(
    registers_per_thread=192, smem_bytes_per_cta=49152, spilled_bytes_per_thread=0, warps_per_cta=4, origin="compiled"
)
(LAUNCH,) = (replace(launch, resources=COMPILED) for launch in launches_of(PROBLEM, "flash2", None, H200))
COUNTERS = {
    "hbm_read_bytes": 201_347_584.0,
    "hbm_write_bytes": 60_847_360.0,
    "smem_fill_bytes": 4_362_076_160.0,
    "cycles": 2_611_044.0,
    "time_s": 1.45872e-3,
    "instructions": 533_463_040.0,
    "registers_per_thread": 192.0,
}
"""As counted on an H200, cold."""
RAN = LaunchMeasurement(
    name="flash2",
    grid=LAUNCH.grid,
    num_warps=4,
    registers_per_thread=192,
    spilled_bytes_per_thread=0,
    smem_bytes_per_cta=49152,
    counters=COUNTERS,
)
FACTS = Facts(untouched_fraction=0.0, stale=False, waited_s=3e-3, lingered_s=1e-5, oracle_error=0.4)
TIMING = Timing(
    l2="cold",
    median_s=1.46e-3,
    low_s=1.455e-3,
    high_s=1.465e-3,
    confidence=0.95,
    samples=12,
    fastest_s=1.45e-3,
    slowest_s=1.47e-3,
    clock_hz=1.79e9,
    cycles=1.46e-3 * 1.79e9,
    noise="quiet",
)
COUNTED = CountedLaunch(
    kernel="flash2_kernel",
    grid=LAUNCH.grid,
    block=(128, 1, 1),
    metrics={"launch__registers_per_thread": (192.0, "register/thread")},
)


def doubts_of(
    *,
    launches: tuple[Launch, ...] = (LAUNCH,),
    ran: tuple[LaunchMeasurement, ...] = (RAN,),
    facts: dict[str, Any] | None = None,
    timing: dict[str, Any] | None = None,
    counted: tuple[CountedLaunch, ...] = (COUNTED,),
) -> list[str]:
    """All doubts about the honest measurement with something changed."""
    seen = replace(FACTS, **(facts or {}))
    timed = replace(TIMING, **(timing or {}))
    reasons = list(doubts(launches, PROBLEM, H200, ran=ran, facts=seen, timing=timed))
    reasons += counted_doubts(ran, ["flash2_kernel"] * len(ran), counted)
    if len(ran) == len(launches):
        reasons += [
            text
            for launch, measured in zip(launches, ran, strict=True)
            for text in counter_doubts(launch, measured, H200)
        ]
    return reasons


def changed(**fields: Any) -> tuple[LaunchMeasurement]:
    """What ran, with some fields changed."""
    return (replace(RAN, **fields),)


def counting(**fields: float) -> tuple[LaunchMeasurement]:
    """What ran, with some counters changed."""
    return (replace(RAN, counters=COUNTERS | fields),)


def test_an_honest_measurement_raises_no_doubt() -> None:
    """The figures of a real cold launch pass every check."""
    assert doubts_of() == []


PLANTED: dict[str, tuple[dict[str, Any], str]] = {
    "no kernel wrote the outputs": ({"facts": {"untouched_fraction": 1.0}}, "outputs unchanged: 100.00% of them"),
    "some CTAs did not run": ({"facts": {"untouched_fraction": 0.03}}, "outputs unchanged: 3.00% of them"),
    "one element was not written": ({"facts": {"untouched_fraction": 1e-4}}, "outputs unchanged: 0.01% of them"),
    "the result was remembered": ({"facts": {"stale": True}}, "outputs stale"),
    "the result is wrong": ({"facts": {"oracle_error": 3.7}}, "outputs wrong: their error is 3.7 of"),
    "the result is a little wrong": ({"facts": {"oracle_error": 1.01}}, "outputs wrong: their error is 1.01 of"),
    "the result is infinite": ({"facts": {"oracle_error": inf}}, "outputs wrong: their error is inf"),
    "the result is no number": ({"facts": {"oracle_error": nan}}, "outputs wrong: their error is nan"),
    "the kernel ran on another stream": (
        {"facts": {"waited_s": 2e-5, "lingered_s": 1.5e-3}},
        "work on another stream: the GPU was busy for 1.50 ms",
    ),
    "a fifth of the work ran on another stream": (
        {"facts": {"waited_s": 8e-3, "lingered_s": 2e-3}},
        "work on another stream: the GPU was busy for 2.00 ms",
    ),
    "a kernel did not launch": ({"ran": ()}, "asked for 1 launch, 0 ran: none"),
    "a kernel ran twice": ({"ran": (RAN, RAN)}, "asked for 1 launch, 2 ran: flash2, flash2"),
    "another kernel ran": ({"ran": changed(name="flash1")}, "flash2: kernel flash1, not flash2"),
    "half of the grid ran": ({"ran": changed(grid=(2048, 1, 1))}, "flash2: grid (2048, 1, 1), not (4096, 1, 1)"),
    "other warps ran": ({"ran": changed(num_warps=8)}, "flash2: warps 8, not 4"),
    "other registers": ({"ran": changed(registers_per_thread=168)}, "flash2: registers per thread 168, not 192"),
    "spills": ({"ran": changed(spilled_bytes_per_thread=16)}, "flash2: spilled bytes per thread 16, not 0"),
    "other shared memory": ({"ran": changed(smem_bytes_per_cta=65536)}, "shared bytes per CTA 65536, not 49152"),
    "the time is not the kernel's": ({"timing": {"median_s": 3e-5}}, "HBM reads inputs at 6.71 TB/s: the peak is"),
    "faster than the tensor cores": ({"timing": {"median_s": 1e-4, "l2": "warm"}}, "tensor cores run at"),
    "no time at all": ({"timing": {"median_s": 0.0, "l2": "warm"}}, "tensor cores run at infinite speed"),
    "the clock does not exist": ({"timing": {"clock_hz": 2.4e9}}, "SM clock 2.40 GHz: the GPU has 1.98 GHz at most"),
    "the GPU idled": ({"timing": {"clock_hz": 345e6}}, "SM clock 345 MHz: the GPU was idle or throttled"),
    "the GPU was throttled": ({"timing": {"clock_hz": 760e6}}, "SM clock 760 MHz: the GPU was idle or throttled"),
    "timed less than was counted": ({"timing": {"slowest_s": 1e-3}}, "timed at 1.00 ms at most, but 2.61 M cycles"),
    "more than HBM can move": (
        {"ran": counting(hbm_read_bytes=9e9)},
        "flash2: HBM moves at 6.21 TB/s: the peak is 4.80 TB/s",
    ),
    "loads left out": ({"ran": counting(smem_fill_bytes=1e8)}, "flash2: 100 MB arrived at the SMs, the tensors"),
    "nothing was executed": ({"ran": counting(instructions=0.0)}, "flash2: no instruction was executed"),
    "ncu saw another kernel": ({"counted": (replace(COUNTED, kernel="flush_kernel"),)}, "counted kernel flush_kernel"),
    "ncu saw another grid": ({"counted": (replace(COUNTED, grid=(132, 1, 1)),)}, "counted grid (132, 1, 1), not"),
    "ncu saw other warps": ({"counted": (replace(COUNTED, block=(256, 1, 1)),)}, "flash2: counted warps 8, not 4"),
    "ncu saw other registers": (
        {"counted": (replace(COUNTED, metrics={"launch__registers_per_thread": (128.0, "register/thread")}),)},
        "flash2: counted registers 128, not 192",
    ),
    "ncu saw a second kernel": (
        {"counted": (COUNTED, COUNTED)},
        "1 launch ran, ncu counted 2: flash2_kernel, flash2_kernel",
    ),
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_fault_is_named(case: str) -> None:
    """The doubts name what is wrong, in the words that a reader can act on."""
    planted, expected = PLANTED[case]
    assert any(expected in doubt for doubt in doubts_of(**planted)), doubts_of(**planted)


@pytest.mark.parametrize("case", PLANTED)
def test_a_doubt_is_one_line(case: str) -> None:
    """Reports print one line a doubt."""
    assert not any("\n" in doubt for doubt in doubts_of(**PLANTED[case][0]))


def test_a_launch_that_is_too_fast_for_its_latency_is_doubted() -> None:
    """A small problem, whose bytes and operations fit into any time, still has to wait for its first load."""
    small = AttentionProblem(batch=1, heads=1, seqlen_q=16, seqlen_k=16, head_dim=16)
    launches = launches_of(small, "flash2", None, H200)
    timing = replace(TIMING, l2="warm", median_s=1e-7)
    reasons = doubts(launches, small, H200, ran=changed(grid=launches[0].grid), facts=FACTS, timing=timing)
    assert any(text.startswith("took 100 ns: 1 launch that waits for L2 takes") for text in reasons)


def test_launches_that_follow_each_other_wait_for_l2_each() -> None:
    """Three of them take three latencies at least: 425 ns."""
    small = AttentionProblem(batch=1, heads=1, seqlen_q=16, seqlen_k=16, head_dim=16)
    launches = launches_of(small, "naive", None, H200)
    reasons = {
        time_s: [text for text in rate_doubts(launches, small, H200, replace(TIMING, l2="warm", median_s=time_s))]
        for time_s in (400e-9, 430e-9)
    }
    assert reasons[430e-9] == []
    assert [text.split(":")[0] for text in reasons[400e-9]] == ["took 400 ns"]


def test_what_clocks_and_counters_leave_open_is_no_doubt() -> None:
    """Five percent: of the time that counted cycles allow, and of the bytes that a launch must load."""
    least_s = COUNTERS["cycles"] / 1.98e9
    assert doubts_of(timing={"slowest_s": 0.96 * least_s}) == []
    tensors = sum(tensor.size_bytes for tensor in LAUNCH.program.tensors if tensor.role == "input")
    assert doubts_of(ran=counting(smem_fill_bytes=0.96 * tensors)) == []


def test_warm_inputs_may_come_faster_than_hbm_gives_them() -> None:
    """The bandwidth check is for cold runs: a warm one finds its inputs in L2."""
    small = replace(PROBLEM, batch=1, heads=8, kv_heads=8, seqlen_q=128)
    launches = launches_of(small, "flash2", None, H200)
    warm = replace(TIMING, l2="warm", median_s=1.5e-6)
    assert clock_doubts((), H200, warm) == []
    reasons = {
        l2: doubts(launches, small, H200, ran=(), facts=FACTS, timing=replace(warm, l2=l2)) for l2 in ("cold", "warm")
    }
    assert any("HBM reads inputs" in text for text in reasons["cold"])
    assert not any("HBM reads inputs" in text for text in reasons["warm"])


def test_estimated_resources_are_not_held_against_the_kernel() -> None:
    """Only what the compiler promised can be broken."""
    estimated = replace(LAUNCH, resources=replace(COMPILED, origin="estimated"))
    assert launch_doubts((estimated,), changed(registers_per_thread=168)) == []


def test_specialised_warps_are_those_of_the_compiler() -> None:
    """A warp-specialised kernel runs more warps than the launch asks for, and the compiler says how many."""
    special = replace(LAUNCH, resources=replace(COMPILED, warps_per_cta=12))
    assert launch_doubts((special,), changed(num_warps=12)) == []
    assert launch_doubts((special,), (RAN,)) == ["flash2: warps 4, not 12"]


def test_registers_are_counted_as_they_are_compiled() -> None:
    """Not as they are handed out, in eights: ncu gives 130 for a kernel of 130."""
    ran = changed(registers_per_thread=130)
    for seen, expected in ((130.0, []), (136.0, ["flash2: counted registers 136, not 130"])):
        counted = replace(COUNTED, metrics={"launch__registers_per_thread": (seen, "register/thread")})
        assert counted_doubts(ran, ["flash2_kernel"], [counted]) == expected


def test_an_unknown_clock_is_no_doubt() -> None:
    """Zero says that nobody looked."""
    assert doubts_of(timing={"clock_hz": 0.0, "cycles": 0.0}) == []


def test_an_outline_is_as_fast_as_its_products_allow_at_most() -> None:
    """No nest tells of its products: the problem does. One sequence of 32k keys in 1 us is doubted."""
    decode = AttentionProblem(batch=1, heads=64, kv_heads=8, seqlen_q=16, seqlen_k=1 << 15, head_dim=128)
    launches = launches_of(decode, "flash_decode", None, H200)
    (reason,) = rate_doubts(launches, decode, H200, replace(TIMING, median_s=4e-6))
    assert reason.startswith("tensor cores run at 4.29 PFLOP/s")
