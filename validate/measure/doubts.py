"""What speaks against a measurement: findings about kernels that cheat, and instruments that fail; pure functions.

Three witnesses are heard: the compiled kernels that Triton launched (`launch_doubts`), the launches that ncu counted
(`counted_doubts`), and what the worker saw and timed (`work_doubts`, `rate_doubts`, `clock_doubts`, `counter_doubts`).
Each finding is one line. None of them corrects anything: a doubted measurement is reported as it is, with its doubts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...simulator import units
from ...simulator.device.device import Device
from ...simulator.launch.program import Launch
from ...simulator.launch.walk import steps, tally
from ...simulator.problems.problem import Problem
from ..counters.ncu_output import CountedLaunch
from ..measurement import LaunchMeasurement, Timing

MARGIN = 0.05
"""By how much a measured rate may exceed what is physically possible: clocks and datasheets are that exact."""
LINGER_FRACTION = 0.10
"""Share of the host's waiting time that other streams may be busy after the run's own stream has ended."""
SLOW_CLOCK = 0.5
"""An SM clock below this share of what the GPU sustains with busy tensor cores means that it idled or was throttled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a worker saw of a run (see `output_checks`).

    Args:
        untouched_fraction: share of the outputs that still held the poison put there before the run.
        stale: whether the outputs stayed the same when the inputs changed.
        waited_s, lingered_s: host time until the run's own stream had ended, and from then until all streams had [s].
        oracle_error: largest error of the outputs, in units of what is allowed.
    """

    untouched_fraction: float
    stale: bool
    waited_s: float
    lingered_s: float
    oracle_error: float


def doubts(
    launches: Sequence[Launch],
    problem: Problem,
    device: Device,
    *,
    ran: Sequence[LaunchMeasurement],
    facts: Facts,
    timing: Timing,
) -> tuple[str, ...]:
    """All that a worker finds against a point that it measured, the gravest first; counters are judged later.

    Args:
        launches: what was asked for, with compiled resources where they are known.
        problem: what they solve.
        device: that it ran on.
        ran: what ran, in order.
        facts: what the worker saw.
        timing: of the point.
    """
    objections = work_doubts(facts) + launch_doubts(launches, ran)
    return tuple(objections + rate_doubts(launches, problem, device, timing) + clock_doubts(ran, device, timing))


def work_doubts(facts: Facts) -> list[str]:
    """Outputs that were not written, that are old, or wrong; work on a stream that was not timed."""
    objections = []
    if facts.untouched_fraction > 0:
        objections.append(
            f"outputs unchanged: {facts.untouched_fraction:.2%} of them still hold what was there before the run"
        )
    if facts.stale:
        objections.append("outputs stale: they stayed the same when the inputs changed")
    if not facts.oracle_error <= 1.0:
        objections.append(f"outputs wrong: their error is {facts.oracle_error:.3g} of what is allowed")
    if facts.lingered_s > LINGER_FRACTION * (facts.waited_s + facts.lingered_s):
        late = units.duration(facts.lingered_s)
        objections.append(f"work on another stream: the GPU was busy for {late} after the timed stream had ended")
    return objections


def launch_doubts(launches: Sequence[Launch], ran: Sequence[LaunchMeasurement]) -> list[str]:
    """Kernels that did not launch, or are not those that were asked for."""
    if len(ran) != len(launches):
        names = ", ".join(measured.name for measured in ran) or "none"
        return [f"asked for {_launches(launches)}, {len(ran)} ran: {names}"]
    objections = []
    for launch, measured in zip(launches, ran, strict=True):
        pairs: list[tuple[str, object, object]] = [
            ("kernel", launch.name, measured.name),
            ("grid", launch.grid, measured.grid),
            ("warps", launch.warps_per_cta, measured.num_warps),
        ]
        if launch.resources.origin == "compiled":
            wanted = launch.resources
            pairs += [
                ("registers per thread", wanted.registers_per_thread, measured.registers_per_thread),
                ("spilled bytes per thread", wanted.spilled_bytes_per_thread, measured.spilled_bytes_per_thread),
                ("shared bytes per CTA", wanted.smem_bytes_per_cta, measured.smem_bytes_per_cta),
            ]
        objections += _differences(launch.name, pairs)
    return objections


def counted_doubts(
    ran: Sequence[LaunchMeasurement], kernels: Sequence[str], counted: Sequence[CountedLaunch]
) -> list[str]:
    """Launches that ncu saw and that are not those that Triton reports.

    Args:
        ran: what Triton says it launched.
        kernels: the names of those functions.
        counted: what ncu saw; all in order.
    """
    if len(counted) != len(ran):
        return [f"{_launches(ran)} ran, ncu counted {len(counted)}: {', '.join(launch.kernel for launch in counted)}"]
    objections = []
    for measured, kernel, seen in zip(ran, kernels, counted, strict=True):
        pairs: list[tuple[str, object, object]] = [
            ("counted kernel", kernel, seen.kernel),
            ("counted grid", measured.grid, seen.grid),
            ("counted warps", measured.num_warps, seen.num_warps),
        ]
        if "launch__registers_per_thread" in seen.metrics:
            counted_registers = round(seen.metrics["launch__registers_per_thread"][0])
            pairs.append(("counted registers", measured.registers_per_thread, counted_registers))
        objections += _differences(measured.name, pairs)
    return objections


def rate_doubts(launches: Sequence[Launch], problem: Problem, device: Device, timing: Timing) -> list[str]:
    """Times that no GPU of this kind can reach."""
    objections = []
    if timing.l2 == "cold":
        inputs: dict[str, int] = {}
        for launch in launches:
            outside = {tensor.name for tensor in launch.program.tensors if tensor.role == "input"}
            inputs |= {name: size for name, size in _loaded_bytes(launch).items() if name in outside}
        objections += _faster(
            "HBM reads inputs", sum(inputs.values()), timing.median_s, device.hbm_peak_bytes_per_s, units.bandwidth
        )
    instructions = ("mma", "wgmma", "tcgen05")
    per_cycle = max(device.tensor_flop_per_cycle(name, launch.dtype) for name in instructions for launch in launches)
    peak = per_cycle * device.sms * device.boost_clock_hz
    # Of outlines only the problem's products are known, before they are compiled.
    flop = max(problem.matmul_flop, sum(_executed_flop(launch) for launch in launches))
    objections += _faster("tensor cores run", flop, timing.median_s, peak, units.rate)
    least_s = len(launches) * device.l2_latency_cycles / device.boost_clock_hz
    if timing.median_s < least_s:
        took = units.duration(timing.median_s)
        waits = "that waits for L2 takes" if len(launches) == 1 else "that each wait for L2 take"
        objections.append(f"took {took}: {_launches(launches)} {waits} {units.duration(least_s)}")
    return objections


def clock_doubts(ran: Sequence[LaunchMeasurement], device: Device, timing: Timing) -> list[str]:
    """Clocks that the GPU does not have, and times that are shorter than the counted cycles allow."""
    objections = []
    if timing.clock_hz > (1 + MARGIN) * device.boost_clock_hz:
        objections.append(
            f"SM clock {units.clock(timing.clock_hz)}: the GPU has {units.clock(device.boost_clock_hz)} at most"
        )
    if 0 < timing.clock_hz < SLOW_CLOCK * device.tensor_clock_hz:
        objections.append(
            f"SM clock {units.clock(timing.clock_hz)}: the GPU was idle or throttled, it sustains "
            f"{units.clock(device.tensor_clock_hz)} at full load"
        )
    cycles = sum(measured.counters.get("cycles", 0.0) for measured in ran)
    least_s = cycles / device.boost_clock_hz
    if timing.slowest_s * (1 + MARGIN) < least_s:
        objections.append(
            f"timed at {units.duration(timing.slowest_s)} at most, but {units.count(cycles)} cycles were counted,"
            f" {units.duration(least_s)} at the highest clock"
        )
    return objections


def counter_doubts(launch: Launch, measured: LaunchMeasurement, device: Device) -> list[str]:
    """Counts that cannot be: more than HBM can move in the time, or less than the launch must load."""
    counters, objections = measured.counters, []
    if "time_s" in counters:
        moved = counters.get("hbm_read_bytes", 0.0) + counters.get("hbm_write_bytes", 0.0)
        peak = device.hbm_peak_bytes_per_s
        objections += _faster(f"{launch.name}: HBM moves", moved, counters["time_s"], peak, units.bandwidth)
    if "smem_fill_bytes" in counters:
        loaded = sum(_loaded_bytes(launch).values())
        if counters["smem_fill_bytes"] < (1 - MARGIN) * loaded:
            arrived = units.traffic(counters["smem_fill_bytes"])
            objections.append(
                f"{launch.name}: {arrived} arrived at the SMs, the tensors it loads hold {units.traffic(loaded)}"
            )
    if counters.get("instructions") == 0:
        objections.append(f"{launch.name}: no instruction was executed")
    return objections


def _loaded_bytes(launch: Launch) -> dict[str, int]:
    """Bytes of each tensor that a launch loads that arrive at the SMs at least once, whatever the caches do [B]."""
    return {
        name: min(asked, launch.program.tensor(name).size_bytes)
        for name, asked in tally(launch.program).load_bytes.items()
    }


def _executed_flop(launch: Launch) -> int:
    """Operations of all tile products of a launch, padding and masked parts included [FLOP]."""
    executions = tally(launch.program).executions
    return sum(
        executions[step.name] * matmul.flop for step, _ in steps(launch.program.body) for matmul in step.work.matmuls
    )


def _faster(what: str, amount: float, time_s: float, peak: float, text: Callable[[float], str]) -> list[str]:
    """A finding where an amount in a time is more than the peak allows, with the margin."""
    if amount <= (1 + MARGIN) * peak * time_s:
        return []
    return [f"{what} at {text(amount / time_s) if time_s else 'infinite speed'}: the peak is {text(peak)}"]


def _launches(some: Sequence[object]) -> str:
    return f"{len(some)} launch" + ("" if len(some) == 1 else "es")


def _differences(name: str, pairs: Sequence[tuple[str, object, object]]) -> list[str]:
    """What of (what, asked, got) of a launch is not as asked."""
    return [f"{name}: {what} {got}, not {asked}" for what, asked, got in pairs if asked != got]
