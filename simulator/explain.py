"""Where the cycles of one configuration go: per step, per loop of the machine code, and per instruction.

The simulation of a full SM says how long a warp waits before each instruction, and why; how often each one runs in
the launch follows from the code and its arguments. Their product is the time of all warps, divided by place and reason.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from .device.device import Device
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
from .sm.from_code import COMPILED_PIPES, CompiledCost, compiled_costs
from .sm.stall_reasons import STALLS
from .sm.step_cost import PIPES
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
        blamed_cycles: time that other instructions of a warp wait for its result, each time it runs [cycles].
    """

    instruction: Instruction
    loop: int
    depth: int
    executed: int
    cycles: dict[str, float]
    blamed_cycles: float

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
        _explain(launch, launched, device)
        for launch, launched in zip(resolved.launches, prediction.launches, strict=True)
    )
    return Explanation(prediction=prediction, launches=tuple(explained))


def _explain(launch: Launch, prediction: LaunchPrediction, device: Device) -> LaunchExplanation:
    if launch.resources.code is None:
        raise ValueError(f"kernel {launch.name}: its machine code is not at hand")
    cost, reason = None, ""
    try:
        cost = compiled_costs(launch, residency_of(launch, device), device)
    except ValueError as error:
        reason = str(error)
    flow = cost.flow if cost else find_flow(decode(launch.resources.code.sass))
    executed = _executed(flow, launch)
    issued = cost.issues if cost else np.zeros(len(flow.instructions), dtype=np.int64)
    return LaunchExplanation(
        prediction=prediction,
        reason=reason,
        counted=executed is not None,
        resident=cost.resident if cost else 0,
        unknown=dict(sorted((cost.unknown if cost else Counter[str]()).items())),
        steps=_steps(launch, cost, prediction.traffic.cycles, device) if cost else (),
        lines=_lines(flow, cost, issued if executed is None else executed),
    )


def _executed(flow: Flow, launch: Launch) -> np.ndarray | None:
    """How often each instruction runs in the whole launch; None where that depends on what nobody knows before it."""
    assert launch.resources.code is not None
    try:
        return executions(flow, launch, launch.resources.code.constants).per_place(flow)
    except ValueError:
        return None


def _steps(launch: Launch, cost: CompiledCost, cycles: float, device: Device) -> tuple[StepShare, ...]:
    counts = tally(launch.program).executions
    busy_sms = min(device.sms, launch.cta_count)
    beside = max(1.0, min(cost.resident, launch.cta_count / device.sms))
    found = []
    for name, own in cost.steps.items():
        pipes = dict(zip(COMPILED_PIPES, own.pipe_cycles, strict=True))
        full = max(own.pipe_cycles)
        shares = {pipe: pipes[pipe] / full if full else 0.0 for pipe in PIPES}
        found.append(
            StepShare(
                name=name,
                executions=counts[name],
                alone_cycles=own.critical_path_cycles,
                full_cycles=full,
                pipes=shares,
                # CTAs that do not fill their SM take no less than each of them takes alone.
                cycles_fraction=max(full, own.critical_path_cycles / beside) * counts[name] / busy_sms / cycles,
            )
        )
    return tuple(found)


def _lines(flow: Flow, cost: CompiledCost | None, executed: np.ndarray) -> tuple[Line, ...]:
    loops = [flow.loop_of(block) for block in range(len(flow.blocks))]
    depths = [flow.loops[loop].depth + 1 if loop >= 0 else 0 for loop in loops]
    lines = []
    for number, block in enumerate(flow.blocks):
        for place in range(block.first, block.stop):
            issues = int(cost.issues[place]) if cost else 0
            cycles: dict[str, float] = {}
            if cost and issues:
                waits = cost.stalls[place] / issues
                cycles = {ISSUE: 1.0} | {stall.name: float(waits[stall.number]) for stall in STALLS}
            lines.append(
                Line(
                    instruction=flow.instructions[place],
                    loop=loops[number],
                    depth=depths[number],
                    executed=int(executed[place]),
                    cycles=cycles,
                    blamed_cycles=float(cost.awaited[place]) / issues if cost and issues else 0.0,
                )
            )
    return tuple(lines)
