"""What a step costs an SM, from compiled code: the door to the simulation of an SM.

In: a launch, with the code in its resources. Out: a `StepCost` for each step, of the same form as the estimate from
tiles, with one pipe more, `sm`: the cycles after which a full SM finishes another CTA's step. The lone CTA's time is
the critical path. Data come after the latency of an L2 hit, so that what the code hides of it is hidden (to a full SM
of code without loops as late as from HBM, since its CTAs wait together for most of their time): a memory engine that
uses these costs must charge only what goes beyond (misses, queues), neither that latency nor the SM's own port; and of
that only what exceeds a step's slack (`latency_slack`).

One CTA is followed through its code (`followed`); what repeats there is measured on the simulated SM, alone and with
as many CTAs as the SM holds, and paid for by the steps that run as often (`match_steps`).
A full SM's share of straight code is what CTAs that follow each other take beyond their loops, divided as a lone CTA's
time is; of code without loops, what a CTA holds up the others by while it does not wait itself.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..core.sm import tables
from ..device.device import Device
from ..launch.program import Launch
from ..launch.walk import steps
from ..residency.residency import Residency
from ..sass.flow import Flow
from .followed import Followed, follow
from .l1_hits import Spilled, serve_from_l1
from .latency_slack import Lateness, latenesses, usual_lateness
from .machine import Machine, Run, latencies_of
from .match_steps import Part, Share
from .paths import OUTSIDE
from .single_cta import SETTLED, Cost, lone_costs
from .step_cost import PIPES, StepCost, step_cost

COMPILED_PIPES = (*PIPES, "sm")
SHARED_TRIPS, SHORT_TRIPS = 24, 6
"""Iterations of a loop run by CTAs together; by CTAs that follow others."""
LONGER = (1, 2, 4)
"""Multiples of the iterations by CTAs together: where the youngest hardly gets on, the oldest would be done before it
has settled."""
ROUNDS, STRAIGHT_ROUNDS = 4, 10
"""CTAs that a slot runs one after the other; of code without loops, where they are all there is."""
APART = (0.4, 1.0, 1.6)
"""Spans over which the starts of a full SM's CTAs are spread, in iterations of a lone CTA: between 0.2 and 0.8 of one
from the first to the second of two. Two CTAs settle in step or out of step, at paces of their own, and where they
start decides which; so paces are averaged over these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCost:
    """Costs of a launch's steps, and how they came about.

    Args:
        steps: step name -> cost; pipe_cycles as in `COMPILED_PIPES`.
        resident: CTAs that run on an SM at a time.
        unknown: opcodes that no rule knows -> how often they stand in the code.
        flow: the code; trips: loop -> iterations in the run that the tables show.
        issues: int64 (instructions,), issues on a full SM until every slot had finished `ROUNDS` CTAs (or more);
        stalls: float64 (instructions, reasons of `core.sm.tables`), cycles that warps waited before each, in that run;
        blames: float64 (instructions,), cycles of others that waited for its scoreboard.
    """

    steps: dict[str, StepCost]
    resident: int
    unknown: Counter[str]
    flow: Flow
    trips: dict[int, int]
    issues: np.ndarray
    stalls: np.ndarray
    blames: np.ndarray


def compiled_costs(
    launch: Launch,
    residency: Residency,
    device: Device,
    element_bytes: int,
    *,
    resident: int | None = None,
    followed: Followed | None = None,
) -> CompiledCost:
    """Simulate an SM with one CTA of a launch, and with as many as it holds.

    Args:
        launch: with compiled resources, and the code in them.
        residency: of the launch on the device.
        element_bytes: of the matmul operands [B].
        resident: CTAs that share an SM; as many as it holds and the grid has where None.
        followed: what `follow` found for this launch, where that is known already.

    Raises:
        ValueError: there is no code, or it cannot be followed; one line.
    """
    capability = int(device.compute_capability.replace(".", ""))
    seen = followed or follow(launch, capability, device.sm)
    resident = resident or residency.ctas_per_busy_sm
    ways, shares, executed, touched = seen.ways, seen.shares, seen.executed, seen.touched
    code, rates = seen.code.copy(), seen.rates.copy()
    serve_from_l1(launch, residency, device, resident, seen.cta, ways, shares, code, rates)
    latencies = latencies_of(device, min(launch.cta_count, device.sms))
    machine = Machine(ways=ways, code=code, rates=rates, latencies=latencies)
    alone = lone_costs(machine)
    full, ages, run, trips = _full(machine, alone, resident, usual_lateness(launch, device))
    late = latenesses(launch, machine, shares, executed, {number: cost.cycles for number, cost in alone.items()})
    made = {
        step.name: replace(
            step_cost(step, launch, device, element_bytes),
            pipe_cycles=(0.0,) * len(COMPILED_PIPES),
            critical_path_cycles=0.0,
            covers_l2=True,
        )
        for step, _ in steps(launch.program.body)
    }
    for name, paid in _paid(machine, shares, alone, full).items():
        *pipes, fetched, spilled, restarts, rested, shared, lone = paid.tolist()
        made[name] = replace(
            made[name],
            pipe_cycles=(*pipes, shared),
            critical_path_cycles=lone,
            local_read_bytes=round(fetched),
            local_write_bytes=round(spilled),
            local_bytes=touched.get(name, Spilled()).touched,
            local_kept_bytes=touched.get(name, Spilled()).kept,
            restarts=restarts,
            rested_cycles=rested,
            slack_cycles=late.get(name, Lateness()).slack_cycles,
            waits=late.get(name, Lateness()).waits,
            paces=_ages_of(name, shares, ages),
        )
    loops = {loop: region for each in ways.region_of for loop, region in each.items()}
    return CompiledCost(
        steps=made,
        resident=resident,
        unknown=seen.unknown,
        flow=seen.flow,
        trips={loop: trips[region] for loop, region in loops.items()},
        issues=run.issues,
        stalls=run.stalls,
        blames=run.blames,
    )


def _full(
    machine: Machine, alone: dict[int, Cost], resident: int, late: float
) -> tuple[dict[int, float], dict[int, np.ndarray], Run, dict[int, int]]:
    """By how much each region holds up a full SM: the cycles after which it finishes another CTA's.

    Args:
        late: how much later than from L2 data come to code without loops, whose CTAs wait together for long [cycles].
    """
    regions = machine.ways.regions
    leaves = [number for number, region in enumerate(regions) if region.leaf]
    together = {
        number: np.mean([_pace(machine, alone, number, resident, apart) for apart in APART], axis=0)
        for number in leaves
    }
    # Cycles from one iteration of a slot to its next, and of the whole SM.
    paces = {number: 1.0 / float(np.sum(1.0 / slots)) for number, slots in together.items()}
    ages = {number: slots / (resident * paces[number]) for number, slots in together.items()}
    trips = {number: SHORT_TRIPS if region.leaf else 1 for number, region in enumerate(regions)}
    _, _, counts = machine.ways.traces(trips)
    inside = sum(counts[number] * pace for number, pace in paces.items())
    straight = sum(counts.get(number, 1) * cost.cycles for number, cost in alone.items() if number not in paces)
    expected = inside * resident + straight
    rounds, seen = (ROUNDS, machine) if leaves else (STRAIGHT_ROUNDS, machine.delayed(late))
    run = seen.run(trips, expected * np.arange(resident) / resident, rounds)
    ends = [run.times(slot, tables.EXIT) for slot in range(resident)]
    turn = float(np.mean([(end[rounds - 1] - end[0]) / (rounds - 1) for end in ends]))
    one = seen.run(trips, np.zeros(1))
    if leaves:
        mean = (turn - machine.latencies.dispatch) / resident - inside
    else:
        # While a CTA waits, or starts, which the engine sees to, it holds up nobody; else the others that do not wait.
        busy = max(1.0, turn - machine.latencies.dispatch - (one.end - straight))
        mean = busy / (1.0 + (resident - 1) * busy / turn)
    # A CTA holds up no longer than it takes alone, until what it has stored has left.
    rest = min(max(mean, straight / resident), straight + one.drain)
    scale = rest / straight if straight > 0 else 0.0
    full = {number: paces.get(number, scale * cost.cycles) for number, cost in alone.items()}
    return full, ages, run, trips


def _pace(machine: Machine, alone: dict[int, Cost], number: int, resident: int, apart: float) -> np.ndarray:
    """Cycles from iteration to iteration of each slot of a full SM, all its CTAs in a region; the oldest first."""
    if resident == 1:
        return np.array([alone[number].cycles])
    trips = {other: SETTLED if region.leaf else 1 for other, region in enumerate(machine.ways.regions)}
    for longer in LONGER:
        trips[number] = longer * SHARED_TRIPS + resident
        run = machine.run(trips, alone[number].cycles * apart * np.arange(resident) / resident)
        begins = [run.times(slot, number)[: trips[number]] for slot in range(resident)]
        start = max(times[SETTLED] for times in begins)
        stop = min(times[-1] for times in begins)
        done = [np.interp((start, stop), times, range(len(times))) for times in begins]
        if stop > start and max(last - first for first, last in done) >= SETTLED:
            break
    # One that the older ones leave nothing is on its way all the same.
    cycles: np.ndarray = max(stop - start, 1.0) / np.array([max(last - first, 1.0) for first, last in done])
    return cycles


def _ages_of(name: str, shares: Mapping[Part, Share], ages: dict[int, np.ndarray]) -> tuple[float, ...]:
    """Paces of a step by age: those of the region that it runs in."""
    for part, share in shares.items():
        if name in share.steps and part.region in ages:
            return tuple(ages[part.region].tolist())
    return ()


def _paid(
    machine: Machine, shares: Mapping[Part, Share], alone: dict[int, Cost], full: dict[int, float]
) -> dict[str, np.ndarray]:
    """Step name -> what it pays: figures as in `Run`, cycles of a full SM, cycles of a lone CTA."""
    regions = machine.ways.regions
    left: dict[Part, np.ndarray] = {}
    figures: dict[Part, np.ndarray] = {}
    for part in shares:
        cost = alone[part.region]
        before = cost.before / cost.cycles if cost.cycles > 0 else 1.0
        whole = np.array((*cost.figures, full[part.region], max(cost.cycles, full[part.region])))
        figures[part] = (1.0 - before if part.after else before) * whole
    for part, share in shares.items():
        if share.left and part.region != OUTSIDE:
            # What a loop's step pays too little, or too much since it stands outside, the code around it makes up for.
            parent = regions[part.region].parent
            times = regions[parent].count if parent != OUTSIDE else 1
            around = Part(parent, after=True)
            left[around] = left.get(around, 0.0) + share.left / times * figures[part]
    paid: dict[str, np.ndarray] = {}
    for part, share in shares.items():
        for name in share.steps:
            whole = np.maximum(figures[part] + left.get(part, 0.0), 0.0)
            paid[name] = paid.get(name, 0.0) + share.times * whole
    return paid
