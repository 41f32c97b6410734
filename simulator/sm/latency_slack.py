"""How much extra latency a loop hides: what the SM's simulation tells the memory engine about latency.

In: a machine, and what a lone CTA's iterations take when data come from L2.
Out: for each step of a loop, and of code without one, how often it waits for what it loads itself, and, where its loads
are pipelined, its slack; and the latency beyond an L2 hit with which CTAs that share an SM are measured.

A step loads its tiles at its begin and waits for all of them; code may wait for K, go on, and wait for V.
With a latency that no loop could hide, an iteration is longer by that latency times the number of serial waits in it.

Of a pipelined loop the engine asks for data `stages - 1` iterations ahead, and begins a step when they are there.
So where data take longer than an L2 hit, s - 1 iterations of the engine take that extra latency and one iteration; on
the SM they take the whole latency, less what the code does between the wait and the next request.
The slack is the difference, in cycles: the extra latency that the loop hides beyond what the engine thinks, or,
negative, the cycles for which it stalls even on L2 hits. It is measured with a latency far beyond what any loop hides.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..device.device import Device
from ..launch.program import ASYNCHRONOUS, THROUGH_L1, Launch, Step
from ..launch.walk import moved_bytes, pipelined_stages, steps
from ..trace.nests import OUTSIDE
from .machine import Machine
from .match_steps import Attribution, Part
from .single_cta import single_cta_costs

FAR_CYCLES = 8192.0
"""A latency beyond what any loop hides."""
ANY = 1 << 20
"""Tiles of a step that may wait any number of times."""
MEASURED_TRIPS = 12
"""Iterations beyond the first ones: a multiple of the 2, 3 or 4 that may be in flight."""


@dataclass(frozen=True, slots=True)
class LatencySlack:
    """A step's `slack_cycles` and `waits`, as in `StepCost`."""

    slack_cycles: float = 0.0
    waits: int = 1


def with_rounds(slacks: Mapping[str, LatencySlack], launch: Launch, l1_bytes: float) -> dict[str, LatencySlack]:
    """Slacks of a traced launch, with the rounds in which a step's loads come that L1 has no room for at once.

    A load takes its lines of L1 when it is asked for. On an H200 a CTA that loads 64 KiB of K and V where L1 has 28 KiB
    is held up at the 24th of its 32 loads, when 14 are under way and 10 wait in front of L1. Its warps wait 2,430
    cycles (validate/data/stall-samples-flash1-h200-2026-11-23.json.xz, 64 x 128, 4 warps), 1,460 if all came at once.

    Args:
        l1_bytes: what L1 has on an SM [B].
    """
    rounds = {
        step.name: round(_plain_bytes(step, launch) / l1_bytes) for step, _ in steps(launch.program.body) if l1_bytes
    }
    known = {name: slacks.get(name, LatencySlack()) for name in {*slacks, *rounds}}
    return {name: replace(slack, waits=max(slack.waits, rounds.get(name, 0))) for name, slack in known.items()}


def _plain_bytes(step: Step, launch: Launch) -> int:
    """What a step loads through L1 in one execution [B]."""
    plain = [tile for tile in step.loads if tile.path in THROUGH_L1]
    return sum(tile.extents * moved_bytes(launch.program.tensor(tile.tensor), tile.rows, tile.cols) for tile in plain)


def latency_slacks(
    launch: Launch,
    machine: Machine,
    attributions: Mapping[Part, Attribution],
    executed: Mapping[str, int],
    cycles: Mapping[int, float],
) -> dict[str, LatencySlack]:
    """Step name -> its slack and waits, for the steps of loops, or of code that has none.

    Args:
        attributions: which steps each part of the code belongs to.
        executed: step name -> executions in the CTA that is followed.
        cycles: region -> an iteration of a lone CTA, data from L2.
    """
    far = single_cta_costs(machine.delayed(FAR_CYCLES), MEASURED_TRIPS)
    regions = machine.paths.regions
    if not regions:
        loading = [step for step, _ in steps(launch.program.body) if step.loads and executed[step.name]]
        longer = (far[OUTSIDE].cycles - cycles[OUTSIDE]) / max(1, sum(executed[step.name] for step in loading))
        return {step.name: _waiting(longer, sum(tile.extents for tile in step.loads)) for step in loading}
    looped = {step.name: (step, around[-1]) for step, around in steps(launch.program.body) if around}
    slacks: dict[str, LatencySlack] = {}
    for part, attribution in attributions.items():
        if part.after or part.region == OUTSIDE:
            continue
        if launch.traced and _is_cut(attribution.steps[0], launch):
            # Its code is cut where it waits, so that each step waits once; but not for what other warps loaded ahead.
            longer = far[part.region].cycles - cycles[part.region]
            if launch.traced[0].mbarriers and longer < FAR_CYCLES:
                slacks |= {name: LatencySlack(waits=0) for name in attribution.steps}
            elif part.region in machine.paths.rolled:
                # One role's loop goes round several times in an iteration, and waits each time.
                loaders = [name for name in _steps_of(part.region, attributions) if looped[name][0].loads]
                slacks |= {name: _waiting(longer / max(1, len(loaders)), ANY) for name in attribution.steps}
            continue
        # An iteration of the code may be part of a step, or several of them.
        times = attribution.times
        from_far, from_l2 = times * far[part.region].cycles, times * cycles[part.region]
        for step, loop in (looped[name] for name in attribution.steps if name in looped):
            asynchronous = {tile.path in ASYNCHRONOUS for tile in step.loads}
            if launch.traced and asynchronous == {False, True}:
                # Its copies were made ahead, and are awaited as the engine says; its loads come one wait after another.
                loads = single_cta_costs(machine.delayed(FAR_CYCLES, copies=False), MEASURED_TRIPS)
                from_far = times * loads[part.region].cycles
            if False in asynchronous:
                slacks[step.name] = _waiting(from_far - from_l2, sum(tile.extents for tile in step.loads))
            elif stages := pipelined_stages(loop, launch):
                slack = from_l2 + FAR_CYCLES - (stages - 1) * from_far
                # If the compiler did not pipeline the loads, the loop already stalls on L2: its slack is negative.
                slacks[step.name] = LatencySlack(slack_cycles=min(from_l2, max(slack, -(stages - 2) * from_l2)))
    return slacks


def _steps_of(region: int, attributions: Mapping[Part, Attribution]) -> set[str]:
    """Steps that the pieces of a region belong to."""
    return {name for part, attribution in attributions.items() if part.region == region for name in attribution.steps}


def _is_cut(name: str, launch: Launch) -> bool:
    """Whether a step is one of several that a loop's body is cut into."""
    return any(step.name == name and around and len(around[-1].body) > 1 for step, around in steps(launch.program.body))


def _waiting(longer: float, tiles: int) -> LatencySlack:
    """Waits of a step that loads what it needs itself.

    Args:
        longer: by which one execution takes longer with far data [cycles].
        tiles: that it loads: more waits than one for each are for spilled registers.
    """
    return LatencySlack(waits=min(max(1, round(longer / FAR_CYCLES)), tiles))


def hbm_extra_latency_cycles(launch: Launch, device: Device) -> float:
    """Latency of HBM beyond that of an L2 hit; 0 where L2 holds all that the launch reads [cycles].

    Reads wait for writes where L2 cannot hold those either, the more the larger their part of both.
    """
    read, written = set[str](), set[str]()
    for step, _ in steps(launch.program.body):
        read.update(tile.tensor for tile in step.loads)
        written.update(tile.tensor for tile in step.stores)
    sizes = [sum(launch.program.tensor(name).size_bytes for name in names) for names in (read, written)]
    if sizes[0] <= device.l2_bytes:
        return 0.0
    turns = sizes[1] / sum(sizes) if sizes[1] > device.l2_bytes else 0.0
    multiplies = any(step.work.matmuls for step, _ in steps(launch.program.body))
    clock_hz = device.tensor_boost_clock_hz if multiplies else device.boost_clock_hz
    return (device.hbm_latency_s + turns * device.hbm_turn_s) * clock_hz
