"""Costs of steps as rows of numbers that can be kept, and back: the same `StepCost` as from the code itself.

The rows hold what the simulation of an SM found; what a step computes and moves is counted from its tile program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..device.device import Device
from ..integers import cdiv
from ..launch.program import Figures, Launch, Loop
from ..launch.walk import executions_of, steps
from ..residency.residency import Residency
from .latency_slack import hbm_extra_latency_cycles
from .step_cost import PIPES, StepCost, step_cost
from .tensor_rate import LIKE as SAME_RATE
from .tensor_rate import tensor_cycles_of

PIPE_COUNT = len(PIPES) + 1
FIELDS = (
    "critical_path_cycles",
    "local_read_bytes",
    "local_write_bytes",
    "local_bytes",
    "local_kept_bytes",
    "restarts",
    "rested_cycles",
    "slack_cycles",
    "waits",
)
"""Fields of a row, behind the cycles on each pipe; as in `StepCost`."""
WHOLE = frozenset({"local_read_bytes", "local_write_bytes", "local_bytes", "local_kept_bytes", "waits"})
"""Those that are whole numbers."""
LIKE = 0.05
"""Difference between latencies of L2 hits up to which costs are taken for each other's: they move by less than that."""


Condition = tuple[float, float, float]


def condition_of(launch: Launch, device: Device) -> Condition:
    """What a launch's costs depend on beside its code and the CTAs that share an SM: a row of `Figures.conditions`."""
    looped = any(isinstance(node, Loop) for node in launch.program.body)
    hbm_extra_cycles = 0.0 if looped else hbm_extra_latency_cycles(launch, device)
    return float(device.l2_latency_cycles), hbm_extra_cycles, _filled_fraction(launch)


def _filled_fraction(launch: Launch) -> float:
    """How much of its tiles' width the rows of a row-wise kernel fill; 1 for others, whose edges are few."""
    tile_cols = launch.constants.get("block_cols")
    if not tile_cols:
        return 1.0
    cols = launch.arguments["seqlen_k"]
    return cols / (cdiv(int(cols), int(tile_cols)) * int(tile_cols))


def rows_of(costs: Mapping[str, StepCost]) -> np.ndarray:
    """The numbers of simulated costs, float64 (steps, fields)."""
    return np.array([[*cost.pipe_cycles, *(getattr(cost, name) for name in FIELDS)] for cost in costs.values()])


def figures_of(conditions: Sequence[Condition], costs: Sequence[Sequence[Mapping[str, StepCost]]]) -> Figures:
    """Costs to keep.

    Args:
        conditions: as in `Figures`.
        costs: for each of them, step name -> cost, for 1, 2, ... CTAs that share an SM.
    """
    names, most = tuple(costs[0][0]), len(costs[0])
    slowdown = np.zeros((len(conditions), most, len(names), most))
    for condition, by_resident in enumerate(costs):
        for resident, by_step in enumerate(by_resident):
            for step, cost in enumerate(by_step.values()):
                slowdown[condition, resident, step, : len(cost.slowdown_by_age)] = cost.slowdown_by_age
    values = np.array([[rows_of(by_step) for by_step in by_resident] for by_resident in costs])
    return Figures(steps=names, conditions=np.array(conditions), values=values, slowdown_by_age=slowdown)


def kept_costs(launch: Launch, residency: Residency, device: Device) -> dict[str, StepCost]:
    """Costs of a launch's steps on a device, from the figures in its resources.

    Of the conditions that they were simulated under, those are taken whose data come from HBM or not, as the launch's
    do, and whose L2 latency is nearest; of those with rows that fill their tiles alike, the one whose latency beyond L2
    is nearest. Between these, costs are interpolated by how far rows fill tiles.
    Of CTAs that share an SM, the most count that figures are at hand for.

    Args:
        residency: of the launch on the device.

    Raises:
        ValueError: the figures are of other steps, or of devices whose L2 is much nearer or farther, or they lack the
            time of matmuls that the launch makes.
    """
    figures = launch.resources.figures
    names = tuple(step.name for step, _ in steps(launch.program.body))
    if figures is None or figures.steps != names:
        raise ValueError(f"kernel {launch.name}: no costs of its steps are kept")
    resident = min(residency.ctas_per_busy_sm, figures.values.shape[1])
    wanted = condition_of(launch, device)
    l2_distance, hbm_distance = np.abs(figures.conditions - wanted).T[:2]
    if l2_distance.min() > LIKE * device.l2_latency_cycles:
        known = ", ".join(f"{cycles:g}" for cycles in sorted(set(figures.conditions[:, 0].tolist())))
        raise ValueError(
            f"costs are kept for L2 latencies of {known} cycles, and l2_latency_cycles is {device.l2_latency_cycles:g}"
        )
    unlike = (figures.conditions[:, 1] > 0.0) != (wanted[1] > 0.0)
    order = np.lexsort((hbm_distance, l2_distance, unlike))
    like = order[(unlike[order] == unlike[order[0]]) & (l2_distance[order] == l2_distance[order[0]])]
    filled, first = np.unique(figures.conditions[like, 2], return_index=True)
    weights = [np.interp(wanted[2], filled, unit) for unit in np.eye(len(filled))]
    values = np.tensordot(weights, figures.values[like[first], resident - 1], 1)
    executions = executions_of(launch.program)
    least, most = tensor_cycles_of(launch, executions, device)
    tensor = float(np.dot(values[:, PIPES.index("tensor")], list(executions.values())))
    if not (1.0 - SAME_RATE) * least <= tensor <= (1.0 + SAME_RATE) * most:
        raise ValueError(
            f"kernel {launch.name}: costs are kept of another number of matmuls than the launch makes "
            f"({tensor:.4g} cycles of the tensor cores; {least:.4g} to {most:.4g} are right)"
        )
    slowdown = np.tensordot(weights, figures.slowdown_by_age[like[first], resident - 1], 1)
    return {
        step.name: _cost(step_cost(step, launch, device), row, by_age[:resident])
        for (step, _), row, by_age in zip(steps(launch.program.body), values, slowdown, strict=True)
    }


def _cost(counted: StepCost, row: np.ndarray, slowdown_by_age: np.ndarray) -> StepCost:
    """A step's cost.

    Args:
        counted: what its tiles say.
        row: of figures.
        slowdown_by_age: all 0 where none is known.
    """
    simulated = dict(zip(FIELDS, row[PIPE_COUNT:].tolist(), strict=True))
    simulated |= {name: round(simulated[name]) for name in WHOLE}
    return replace(
        counted,
        pipe_cycles=tuple(row[:PIPE_COUNT].tolist()),
        covers_l2=True,
        slowdown_by_age=tuple(slowdown_by_age.tolist()) if slowdown_by_age.any() else (),
        **simulated,
    )
