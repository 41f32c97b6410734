"""What a step costs an SM, from compiled code: the door to the simulation of an SM.

In: a launch, with the code in its resources. Out: a `StepCost` for each step, of the same form as the estimate from
tiles, with one pipe more, `sm`: the cycles after which a full SM finishes another CTA's step. The lone CTA's time is
the critical path.

Loads take the latency of an L2 hit, so that what the code hides of it is hidden. (For loop-free code on a full SM they
take that of HBM: its CTAs wait together for most of their time.) A memory engine that uses these costs must charge only
what goes beyond (misses, queues), neither that latency nor the SM's own port; and of that only what exceeds a step's
slack (`latency_slack`).

One CTA is followed through its code (`followed`); what repeats there is measured on the simulated SM, alone and with
as many CTAs as the SM holds (`full_sm`), and attributed to the steps that run as often (`match_steps`).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..core.sm.instruction import LOAD
from ..device.device import Device
from ..device.sm_numbers import as_kept
from ..launch.program import Launch, Loop
from ..launch.walk import steps
from ..residency.residency import Residency
from ..sass.flow import Flow
from ..sass.memory_instructions import ATOMICS, PLAIN_GLOBAL
from ..sass.opcodes import rules
from ..trace.nests import OUTSIDE
from ..trace.paths import Region
from .followed import FollowedCode, follow
from .full_sm import FullSm, measure_full_sm
from .l1_hits import Spilled, with_l1_hits
from .latency_slack import LatencySlack, hbm_extra_latency_cycles, latency_slacks, with_rounds
from .machine import Machine, latencies_of
from .match_steps import Attribution, Part
from .single_cta import RegionCost, single_cta_costs
from .step_cost import PIPES, StepCost, step_cost
from .tensor_rate import with_tensor_rates

COMPILED_PIPES = (*PIPES, "sm")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCost:
    """Costs of a launch's steps, and how they came about.

    Args:
        steps: step name -> cost; pipe_cycles as in `COMPILED_PIPES`.
        resident: CTAs that run on an SM at a time.
        unknown: opcodes that no rule knows -> how often they stand in the code.
        flow: the code.
        trips: loop -> iterations in the run that the tables show.
        issues: int64 (instructions,), issues on a full SM until every slot had finished its CTAs (or more).
        stalls: float64 (instructions, reasons of `core.sm.state`), cycles that warps waited before each, in that run.
        awaited: float64 (instructions,), cycles that warps waited for the scoreboard that it set, in that run.
    """

    steps: dict[str, StepCost]
    resident: int
    unknown: Counter[str]
    flow: Flow
    trips: dict[int, int]
    issues: np.ndarray
    stalls: np.ndarray
    awaited: np.ndarray


def compiled_costs(
    launch: Launch,
    residency: Residency,
    device: Device,
    *,
    resident: int | None = None,
    followed: FollowedCode | None = None,
    whole: Launch | None = None,
) -> CompiledCost:
    """Simulate an SM with one CTA of a launch, and with as many as it holds.

    Args:
        launch: with compiled resources, and the code in them.
        whole: the launch that it is one class of; None where it is all of it.
        residency: of the launch on the device.
        resident: CTAs that share an SM; as many as it holds and the grid has where None.
        followed: what `follow` returned for this launch, where that is known already.

    Raises:
        ValueError: there is no code, or it cannot be followed; one line.
    """
    if len(launch.traced) > 1 and followed is None:
        classes = class_costs(launch, residency, device, resident)
        return replace(classes[0], steps={name: cost for costs in classes for name, cost in costs.steps.items()})
    capability = device.capability
    device = device if launch.traced else replace(device, sm=as_kept(device.sm))
    seen = followed or follow(launch, capability, device.sm)
    resident = resident or residency.ctas_per_busy_sm
    attributions = seen.attributions
    code = with_tensor_rates(seen.code, seen.flow.instructions, rules(capability), device)
    machine = Machine(
        paths=seen.paths,
        code=with_l1_hits(code, whole or launch, residency, device, resident, seen.cta, seen.paths, attributions),
        latencies=latencies_of(device, min(launch.cta_count, device.sms)),
    )
    alone = single_cta_costs(machine)
    full = measure_full_sm(machine, alone, resident, hbm_extra_latency_cycles(launch, device))
    lone_cycles = {region: cost.cycles for region, cost in alone.items()}
    slacks = latency_slacks(launch, machine, attributions, seen.executed, lone_cycles)
    if launch.traced:
        slacks = with_rounds(slacks, launch, residency.l1_bytes)
    charged = {name for attribution in attributions.values() for name in attribution.steps}
    costs = {
        step.name: replace(
            step_cost(step, launch, device),
            pipe_cycles=(0.0,) * len(COMPILED_PIPES),
            critical_path_cycles=0.0,
            covers_l2=True,
        )
        for step, _ in steps(launch.program.body)
        if not launch.traced or step.name in charged
    }
    by_step = _attributed(seen.paths.regions, attributions, alone, full.cycles)
    global_share = _global_smem_fraction(launch, seen, machine.code, by_step)
    for name, attributed in by_step.items():
        *pipes, reloaded, spilled, restarts, rested, shared, lone = attributed.tolist()
        slack, registers = slacks.get(name, LatencySlack()), seen.touched.get(name, Spilled())
        costs[name] = replace(
            costs[name],
            pipe_cycles=(*pipes, shared),
            critical_path_cycles=lone,
            local_read_bytes=round(reloaded),
            local_write_bytes=round(spilled),
            local_bytes=registers.touched,
            local_kept_bytes=registers.kept,
            local_written=registers.parts_written,
            local_kept=registers.parts_kept,
            local_part_bytes=registers.part_bytes,
            local_parts=registers.parts,
            local_written_turn=registers.written_turn,
            local_kept_turn=registers.kept_turn,
            restarts=restarts,
            rested_cycles=rested,
            slack_cycles=slack.slack_cycles,
            waits=slack.waits,
            slowdown_by_age=_slowdown_of(name, attributions, full),
            global_smem_fraction=global_share,
        )
    loops = {loop: region for of_warp in seen.paths.region_of for loop, region in of_warp.items()}
    return CompiledCost(
        steps=costs,
        resident=resident,
        unknown=seen.unknown,
        flow=seen.flow,
        trips={loop: full.trips[region] for loop, region in loops.items()},
        issues=full.run.issues,
        stalls=full.run.stalls,
        awaited=full.run.awaited,
    )


def _global_smem_fraction(
    launch: Launch, seen: FollowedCode, code: np.ndarray, by_step: Mapping[str, np.ndarray]
) -> float:
    """Share of the pipe of L1 and shared memory that a traced CTA's accesses to global memory take.

    Args:
        code: its table, with loads that L1 serves; by_step: as `_attributed`.
    """
    if not launch.traced:
        return 0.0
    blocks = [block for of_warp in launch.traced[0].paths for block in of_warp]
    visits = np.bincount(np.array(blocks, dtype=np.int64), minlength=len(seen.flow.blocks))
    cycles = np.where(code["kind"] == LOAD, code["tag_lines"], code["smem_lines"])
    taken = sum(
        float(visits[number] * cycles[place])
        for number, block in enumerate(seen.flow.blocks)
        for place in range(block.first, block.stop)
        if seen.flow.instructions[place].family in PLAIN_GLOBAL | ATOMICS
    )
    whole = sum(figures[PIPES.index("smem")] * seen.executed[name] for name, figures in by_step.items())
    return float(min(1.0, taken / whole)) if whole > 0.0 else 0.0


def class_costs(
    launch: Launch, residency: Residency, device: Device, resident: int | None = None
) -> list[CompiledCost]:
    """The same for each class of CTAs of a traced launch by itself; of all CTAs where a schedule wrote it."""
    return [
        compiled_costs(lone, residency, device, resident=resident, whole=launch) for lone in single_cta_classes(launch)
    ]


def single_cta_classes(launch: Launch) -> list[Launch]:
    """A launch of each class of CTAs of a traced launch alone; itself where it has no more than one."""
    if len(launch.traced) <= 1:
        return [launch]
    classes = []
    for traced in launch.traced:
        names = {phase.step for phase in traced.phases}
        nodes = [node for node in launch.program.body if names & {step.name for step, _ in steps((node,))}]
        # Without the guards of its classes around them.
        body = tuple(inner for node in nodes for inner in (node.body if isinstance(node, Loop) else (node,)))
        classes.append(replace(launch, traced=(traced,), program=replace(launch.program, body=body)))
    return classes


def _slowdown_of(name: str, attributions: Mapping[Part, Attribution], full: FullSm) -> tuple[float, ...]:
    """Slowdown of a step by age: that of the region that it runs in."""
    for part, attribution in attributions.items():
        if name in attribution.steps and part.region in full.slowdown_by_age:
            return tuple(full.slowdown_by_age[part.region].tolist())
    return ()


def _attributed(
    regions: tuple[Region, ...],
    attributions: Mapping[Part, Attribution],
    alone: Mapping[int, RegionCost],
    full: Mapping[int, float],
) -> dict[str, np.ndarray]:
    """Step name -> what one execution takes: figures as in `Run`, cycles of a full SM, cycles of a lone CTA.

    Args:
        alone, full: region -> what it takes a lone CTA, and a full SM.
    """
    figures: dict[Part, np.ndarray] = {}
    for part, attribution in attributions.items():
        cost = alone[part.region]
        before = cost.before / cost.cycles if cost.cycles > 0 else 1.0
        whole = np.array((*cost.figures, full[part.region], max(cost.cycles, full[part.region])))
        portion = (1.0 - before if part.after else before) if attribution.portion is None else attribution.portion
        figures[part] = portion * whole
    remainders: dict[Part, np.ndarray] = {}
    for part, attribution in attributions.items():
        if attribution.remainder and part.region != OUTSIDE:
            # Iterations that are not a step's, or a step's that stand elsewhere, count for the code around the loop.
            parent = regions[part.region].parent
            times = regions[parent].count if parent != OUTSIDE else 1
            around = Part(parent, after=True)
            remainders[around] = remainders.get(around, 0.0) + attribution.remainder / times * figures[part]
    by_step: dict[str, np.ndarray] = {}
    for part, attribution in attributions.items():
        for name in attribution.steps:
            whole = np.maximum(figures[part] + remainders.get(part, 0.0), 0.0)
            by_step[name] = by_step.get(name, 0.0) + attribution.times * whole
    return by_step
