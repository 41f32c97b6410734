"""Figures to keep of a kernel: its code through the simulation of an SM, under every condition that counts.

Needs no compiler: the machine code stands in the resources of the launches.
What is kept is of the simulator of its day, so a sample made anew is held against it (`difference`).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ...simulator.device.device import Device
from ...simulator.launch.program import Figures, Launch
from ...simulator.launch.walk import steps, tally
from ...simulator.library.files import Kernel
from ...simulator.library.keys import by_length
from ...simulator.refusal import Refusal
from ...simulator.residency.occupancy import occupancy
from ...simulator.residency.residency import residency_of
from ...simulator.sm.followed import follow
from ...simulator.sm.from_code import compiled_costs
from ...simulator.sm.kept import Condition, condition_of, figures_of
from ...simulator.sm.step_cost import PIPES, StepCost
from ...simulator.sm.tensor_rate import LIKE

SAME_CYCLES = 2.0
"""Devices whose latencies differ by less share figures [cycles]."""
STALE_SHARE, STALE_CYCLES = 0.01, 1.0
"""How far figures made anew may lie from those that are kept: a hundredth, and a cycle [cycles]; else what is kept is
of another simulator."""
Costs = list[dict[str, StepCost]]
"""Step name -> cost, for 1, 2, ... CTAs that share an SM."""


def figures_on(launches: Sequence[Launch], devices: Sequence[Device]) -> Figures:
    """Costs of the steps of a kernel.

    Args:
        launches: those that it stands for, with compiled resources, and the code in them.
        devices: of its architecture, whose SMs are alike.

    Raises:
        ValueError: the code cannot be followed, or a loop's code was given to another step; in one line.
    """
    conditions = [condition for launch in launches for condition in _conditions(launch, devices)]
    unique = {condition: costs for condition, costs in conditions if len(costs) == len(conditions[0][1])}
    figures = figures_of(list(unique), list(unique.values()))
    if by_length(launches[0]):
        return figures  # of these lengths alone; or of any, whose launch is long (`build`)
    if lost := lost_matmuls(launches[0], figures, devices[0]):
        raise ValueError(f"kernel {launches[0].name}: cycles of its loop were given to other steps than `{lost}`")
    return figures


def lost_matmuls(launch: Launch, figures: Figures, device: Device) -> str:
    """The step with most of the matmuls of a loop, where figures hold less time of it than these take; else empty.

    At lengths with other numbers of iterations the figures of such a kernel mean nothing, though their sum is right.
    Steps that run as often at all lengths, at the edges of a mask, may stand in the code around the loop.

    Args:
        launch: that the figures were made for.
    """
    executions = tally(launch.program).executions
    flop = {
        step.name: sum(matmul.flop for matmul in step.work.matmuls)
        for step, around in steps(launch.program.body)
        if around and executions[step.name]
    }
    main = max(flop, key=lambda name: executions[name] * flop[name], default="")
    if not main:
        return ""
    tensor = figures.values[:, :, figures.steps.index(main), PIPES.index("tensor")]
    least = (1.0 - LIKE) * flop[main] / device.fastest_flop_per_cycle(launch.dtype) if flop[main] else 0.0
    return main if tensor.min() < least else ""


def _conditions(launch: Launch, devices: Sequence[Device]) -> Iterator[tuple[Condition, Costs]]:
    """Costs of a launch's steps on each device."""
    followed = follow(launch, devices[0].capability, devices[0].sm)
    seen: list[Condition] = []
    for device in devices:
        condition = condition_of(launch, device)
        if any(np.allclose(condition, other, rtol=0.0, atol=SAME_CYCLES) for other in seen):
            continue
        seen.append(condition)
        if isinstance(occupancy(launch.resources, launch.warps_per_cta, device), Refusal):
            continue
        residency = residency_of(launch, device)
        costs = [
            compiled_costs(launch, residency, device, resident=resident, followed=followed).steps
            for resident in range(1, residency.ctas_per_sm + 1)
        ]
        yield condition, costs


def difference(kept: Kernel | None, made: Kernel) -> str:
    """How a kernel made anew differs from the one that is kept, in one line; empty where it does not."""
    if kept is None:
        return "is not kept"
    # A kernel that does not fit may be kept with what it would take; one that is made anew says only why.
    took_otherwise = kept.resources != made.resources and (made.resources or not made.reason)
    if took_otherwise or kept.reason != made.reason:
        return f"takes {dict(made.resources)} {made.reason}, kept are {dict(kept.resources)} {kept.reason}".rstrip()
    if kept.figures is None or made.figures is None:
        return "" if kept.figures is made.figures else "has figures in one of the two alone"
    if kept.figures.steps != made.figures.steps or kept.figures.values.shape != made.figures.values.shape:
        return f"has steps {made.figures.steps}, kept are {kept.figures.steps}, or other conditions"
    if not np.allclose(kept.figures.conditions, made.figures.conditions, rtol=STALE_SHARE, atol=STALE_CYCLES):
        return "was simulated under other conditions"
    old, new = kept.figures.values, made.figures.values
    ages = kept.figures.slowdown_by_age, made.figures.slowdown_by_age
    if np.allclose(new, old, rtol=STALE_SHARE, atol=STALE_CYCLES) and np.allclose(*ages, atol=STALE_SHARE):
        return ""
    condition, resident, step, field = np.unravel_index(np.abs(new - old).argmax(), old.shape)
    return (
        f"figure {field} of step {kept.figures.steps[step]} is {new[condition, resident, step, field]:g} with "
        f"{resident + 1} CTAs on an SM, kept is {old[condition, resident, step, field]:g}"
    )
