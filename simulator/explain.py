"""Where the cycles of one configuration go: per step, per loop of the machine code, and per instruction.

The simulation of a full SM says how long a warp waits before each instruction, and why; how often each one runs in
the launch follows from the code and its arguments. Their product is the time of all warps, divided by place and reason.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .device.device import Device
from .engine.clock import clocks_of
from .launch.program import Launch, Resources
from .launch.walk import tally
from .prediction.prediction import LaunchPrediction, Prediction
from .problems.problem import Problem
from .refusal import granted
from .residency.residency import residency_of
from .resolve import Resolved, resolve
from .sass.decode import Instruction, decode
from .sass.flow import Flow, find_flow
from .schedules.config import Config
from .simulate import predict
from .sm.from_code import COMPILED_PIPES, CompiledCost, class_costs
from .sm.stall_reasons import STALLS
from .sm.step_cost import PIPES, StepCost
from .trace.executions import executions

ISSUE = "issuing"
REASONS = (ISSUE, *(stall.name for stall in STALLS))
OUTSIDE = -1
"""Number of the place that is in no loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShare:
    """One step of the tile program.

    Args:
        executions: in the whole launch; alone_cycles: of one with the SM for itself; full_cycles: after which a full SM
            finishes another one [cycles].
        pipes: pipe -> busy share of full_cycles; cycles_fraction: of the launch's cycles, CTAs spread evenly over SMs.
    """

    name: str
    executions: int
    alone_cycles: float
    full_cycles: float
    pipes: dict[str, float]
    cycles_fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One instruction.

    Args:
        loop: number of the innermost loop around it, or `OUTSIDE`; depth: loops around it.
        executed: issues in the whole launch, all warps together.
        cycles: time of a warp from its last issue to this one, by reason; empty where nobody knows [cycles].
        others_wait_cycles: time that other instructions of a warp wait for its result, each time it runs [cycles].
    """

    instruction: Instruction
    loop: int
    depth: int
    executed: int
    cycles: dict[str, float]
    others_wait_cycles: float

    @property
    def warp_cycles(self) -> float:
        """Time of all warps of the launch [cycles]."""
        return self.executed * sum(self.cycles.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchExplanation:
    """One launch.

    Args:
        prediction: what the engine says of it.
        reason: why its code gave no cost, in one line; empty where it did.
        counted: whether executions are those of the launch; otherwise they are those of the simulated SM, or unknown.
        resident: CTAs of a full SM; 0 where there is no cost.
        unknown: opcodes that no rule knows -> how often they stand in the code.
        steps, lines: the tile program, the code in order of address.
    """

    prediction: LaunchPrediction
    reason: str
    counted: bool
    resident: int
    unknown: dict[str, int]
    steps: tuple[StepShare, ...]
    lines: tuple[Line, ...]

    @property
    def executed(self) -> int:
        """Instructions that all warps issue."""
        return sum(line.executed for line in self.lines)

    @property
    def warp_cycles(self) -> float:
        """Time of all warps [cycles]."""
        return sum(line.warp_cycles for line in self.lines)

    def places(self) -> dict[int, tuple[Line, ...]]:
        """The loops, by their numbers in the code, and what is outside of them -> their own lines, in order."""
        numbers = sorted({line.loop for line in self.lines})
        return {number: tuple(line for line in self.lines if line.loop == number) for number in numbers}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One configuration. Args: prediction: of all launches; launches: in order."""

    prediction: Prediction
    launches: tuple[LaunchExplanation, ...]


def explain(
    problem: Problem,
    *,
    schedule: str,
    config: Config,
    device: Device,
    resources: tuple[Resources, ...],
    l2: str = "cold",
    overhead: str = "stream",
) -> Explanation:
    """Say where the cycles of one configuration go.

    Args:
        resources: of each launch, with its machine code; the rest as `simulate`.

    Raises:
        ValueError, DoesNotFit: as `simulate`; a launch has no machine code.
    """
    resolved = granted(resolve(problem, schedule, config, device, resources=resources))
    return explain_resolved(resolved, device, l2=l2, overhead=overhead)


def explain_resolved(resolved: Resolved, device: Device, *, l2: str = "cold", overhead: str = "stream") -> Explanation:
    """As `explain`, of what was resolved for the device with the machine code of each launch."""
    prediction = predict(resolved, device, l2=l2, overhead=overhead)
    explained = (
        explain_launch(launch, launched, device)
        for launch, launched in zip(resolved.launches, prediction.launches, strict=True)
    )
    return Explanation(prediction=prediction, launches=tuple(explained))


def explain_launch(launch: Launch, prediction: LaunchPrediction, device: Device) -> LaunchExplanation:
    """Say where the cycles of one launch go. Raises: ValueError: its machine code is not at hand."""
    if launch.resources.code is None:
        raise ValueError(f"kernel {launch.name}: its machine code is not at hand")
    costs: list[CompiledCost] = []
    reason = ""
    try:
        costs = class_costs(launch, residency_of(launch, device), device)
    except ValueError as error:
        reason = str(error)
    flow = costs[0].flow if costs else find_flow(decode(launch.resources.code.sass))
    executed = _executed(flow, launch)
    issued = executed or [cost.issues for cost in costs] or [np.zeros(len(flow.instructions), dtype=np.int64)]
    step_costs = {name: step_cost for cost in costs for name, step_cost in cost.steps.items()}
    return LaunchExplanation(
        prediction=prediction,
        reason=reason,
        counted=executed is not None,
        resident=costs[0].resident if costs else 0,
        unknown=dict(sorted((costs[0].unknown if costs else Counter[str]()).items())),
        steps=_steps(launch, step_costs, costs[0].resident, prediction.traffic.cycles, device) if costs else (),
        lines=_lines(flow, costs, issued),
    )


def _executed(flow: Flow, launch: Launch) -> list[np.ndarray] | None:
    """How often each instruction runs in all CTAs of each class; None where nobody knows it before the launch."""
    assert launch.resources.code is not None
    if launch.traced:
        return [code.issued for code in launch.traced]
    try:
        return [executions(flow, launch, launch.resources.code.constants).per_place(flow)]
    except ValueError:
        return None


def _steps(
    launch: Launch, costs: dict[str, StepCost], resident: int, cycles: float, device: Device
) -> tuple[StepShare, ...]:
    counts = tally(launch.program).executions
    clocks = clocks_of(launch, costs, counts, device)
    # The launch's cycles are those of the fastest SM, which may be one that has nothing to do.
    cycles *= clocks.busy_hz / clocks.counted_hz
    busy_sms = min(device.sms, launch.cta_count)
    beside = max(1.0, min(resident, launch.cta_count / device.sms))
    step_shares = []
    for name, step_cost in costs.items():
        pipes = dict(zip(COMPILED_PIPES, step_cost.pipe_cycles, strict=True))
        full = max(step_cost.pipe_cycles)
        shares = {pipe: pipes[pipe] / full if full else 0.0 for pipe in PIPES}
        step_shares.append(
            StepShare(
                name=name,
                executions=counts[name],
                alone_cycles=step_cost.critical_path_cycles,
                full_cycles=full,
                pipes=shares,
                # CTAs that do not fill their SM take no less than each of them takes alone.
                cycles_fraction=max(full, step_cost.critical_path_cycles / beside) * counts[name] / busy_sms / cycles,
            )
        )
    return tuple(step_shares)


def _lines(flow: Flow, costs: Sequence[CompiledCost], executed: Sequence[np.ndarray]) -> tuple[Line, ...]:
    loops = [flow.loop_of(block) for block in range(len(flow.blocks))]
    depths = [flow.loops[loop].depth + 1 if loop >= 0 else 0 for loop in loops]
    lines = []
    for number, block in enumerate(flow.blocks):
        for place in range(block.first, block.stop):
            cycles, others_wait = _waits(costs, executed, place)
            lines.append(
                Line(
                    instruction=flow.instructions[place],
                    loop=loops[number],
                    depth=depths[number],
                    executed=round(float(sum(often[place] for often in executed))),
                    cycles=cycles,
                    others_wait_cycles=others_wait,
                )
            )
    return tuple(lines)


def _waits(costs: Sequence[CompiledCost], executed: Sequence[np.ndarray], place: int) -> tuple[dict[str, float], float]:
    """Cycles of an instruction by reason, and for its result: the mean over classes of CTAs, by how often each runs it.

    Returns:
        Nothing where no simulated warp came by.
    """
    timed = [number for number, cost in enumerate(costs) if cost.issues[place]]
    if not timed:
        return {}, 0.0
    often = np.array([float(executed[number][place]) for number in timed])
    shares = often / often.sum() if often.any() else np.full(len(timed), 1.0 / len(timed))
    waits = sum(
        share * costs[number].stalls[place] / costs[number].issues[place]
        for share, number in zip(shares, timed, strict=True)
    )
    others_wait = sum(
        share * float(costs[number].awaited[place]) / int(costs[number].issues[place])
        for share, number in zip(shares, timed, strict=True)
    )
    return {ISSUE: 1.0} | {stall.name: float(waits[stall.number]) for stall in STALLS}, float(others_wait)
