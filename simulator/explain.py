"""Where the cycles of launches go, whoever wrote the kernels: per step, per loop and line of source, per instruction.

The simulation of a full SM says how long a warp waits before each instruction, and why; how often each one runs in
the launch follows from the code and its arguments. Their product is the time of all warps, divided by place and reason.
Each instruction comes from a line of source; what warps wait before it counts at the line, and what others wait for its
result is told beside.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from .device.device import Device
from .engine.clock import clocks_of
from .launch.code import Code
from .launch.program import Launch
from .launch.walk import executions_of
from .prediction.explanation import ISSUE, CodeLine, CodePart, Explanation, LaunchExplanation, StepShare
from .prediction.kernel_row import SourceTime
from .prediction.kernels import KernelsPrediction
from .prediction.prediction import LaunchPrediction, Prediction
from .residency.residency import residency_of
from .sass.decode import decode
from .sass.flow import Flow, find_flow
from .sm.from_code import COMPILED_PIPES, CompiledCost, class_costs
from .sm.stall_reasons import STALLS
from .sm.step_cost import PIPES, StepCost
from .trace.executions import executions


def explain(
    prediction: Prediction | KernelsPrediction, launches: Sequence[Launch | None], device: Device
) -> Explanation:
    """Say where the cycles of launches go.

    Args:
        prediction: of them, on that device; launches: with their machine code, None where one was refused.

    Raises:
        ValueError: a launch has no machine code.
    """
    if isinstance(prediction, KernelsPrediction):
        predicted = [row.prediction for row in prediction.rows]
    else:
        predicted = list(prediction.launches)
    explained = (
        explain_launch(launch, launched, device) if launch and launched else None
        for launch, launched in zip(launches, predicted, strict=True)
    )
    return Explanation(prediction=prediction, launches=tuple(explained))


def explain_launch(launch: Launch, prediction: LaunchPrediction, device: Device) -> LaunchExplanation:
    """Say where the cycles of one launch go. Raises: ValueError: its machine code is not at hand."""
    code = launch.resources.code
    if code is None:
        raise ValueError(f"kernel {launch.name}: its machine code is not at hand")
    costs: list[CompiledCost] = []
    with suppress(ValueError):  # the prediction says why its code gives no cost
        costs = class_costs(launch, residency_of(launch, device), device)
    flow = costs[0].flow if costs else find_flow(decode(code.sass))
    executed = _executed(flow, launch, code)
    issued = executed or [cost.issues for cost in costs] or [np.zeros(len(flow.instructions), dtype=np.int64)]
    step_costs = {name: step_cost for cost in costs for name, step_cost in cost.steps.items()}
    return LaunchExplanation(
        prediction=prediction,
        counted=executed is not None,
        resident=costs[0].resident if costs else 0,
        unknown=dict(sorted((costs[0].unknown if costs else Counter[str]()).items())),
        steps=_steps(launch, step_costs, costs[0].resident, prediction.traffic.cycles, device) if costs else (),
        code=_code(flow, code, costs, issued),
    )


def source_times(launch: Launch, costs: Sequence[CompiledCost]) -> tuple[SourceTime, ...]:
    """Lines of source with the time that warps spend at each. Args: costs: of each class of CTAs; empty: not known."""
    code = launch.resources.code
    executed = _executed(costs[0].flow, launch, code) if costs and code else None
    if executed is None or code is None:
        return ()
    whole = _code(costs[0].flow, code, costs, executed)
    total = whole.warp_cycles
    return tuple(
        SourceTime(
            file=file,
            number=number,
            time_fraction=float(part.warp_cycles / total),
            awaited_fraction=float(part.others_wait_cycles / total),
            reason=max(part.cycles_by_reason, key=part.cycles_by_reason.__getitem__),
        )
        for (file, number), part in whole.by(lambda line: line.source).items()
        if file and total
    )


def _executed(flow: Flow, launch: Launch, code: Code) -> list[np.ndarray] | None:
    """How often each instruction runs in all CTAs of each class; None where the launch alone does not tell."""
    if launch.traced:
        return [traced.issued for traced in launch.traced]
    try:
        return [executions(flow, launch, code.constants).per_place(flow)]
    except ValueError:
        return None


def _steps(
    launch: Launch, costs: dict[str, StepCost], resident: int, cycles: float, device: Device
) -> tuple[StepShare, ...]:
    counts = executions_of(launch.program)
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


def _code(flow: Flow, code: Code, costs: Sequence[CompiledCost], executed: Sequence[np.ndarray]) -> CodePart:
    loops = [flow.loop_of(block) for block in range(len(flow.blocks))]
    depths = [flow.loops[loop].depth + 1 if loop >= 0 else 0 for loop in loops]
    lines = []
    for number, block in enumerate(flow.blocks):
        for place in range(block.first, block.stop):
            cycles, others_wait = _waits(costs, executed, place)
            lines.append(
                CodeLine(
                    instruction=flow.instructions[place],
                    loop=loops[number],
                    depth=depths[number],
                    source=code.source_of(flow.instructions[place].address),
                    executed=round(float(sum(often[place] for often in executed))),
                    cycles=cycles,
                    others_wait_cycles=others_wait,
                )
            )
    return CodePart(lines=tuple(lines))


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
