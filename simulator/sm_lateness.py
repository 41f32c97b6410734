"""How late data may come to a loop: what the SM's simulation tells the memory engine about latency.

In: a machine, and what a lone CTA's iterations take when data come from L2.
Out: for each step of a loop, and of code without one, how often it waits for plain loads, and, where loads run ahead,
its slack; and how late data are where CTAs that share an SM are measured.

A step loads its tiles at its begin and waits for all of them; code may wait for K, go on, and wait for V.
An iteration whose data come far beyond reach is so many latencies longer as it waits one after the other.

Of a pipelined loop the engine asks for data `stages - 1` iterations ahead, and begins a step when they are there.
So where data are late, s - 1 iterations take it the latency beyond L2 and one iteration; on the SM they take the whole
latency, less what the code does between the wait and the next request. The slack is the difference: an iteration
whose latencies are run far beyond reach shows it, whether or not it waits for data from L2.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .device import Device
from .program import Launch
from .sm_machine import Machine
from .sm_steps import Part, Share
from .sm_way import OUTSIDE
from .walk import pipelined_stages, steps

FAR_CYCLES = 8192.0
"""Beyond what any loop hides."""
FILLED_TRIPS, MEASURED_TRIPS = 8, 12
"""Iterations until a loop's pace has settled; and then, a multiple of the 2 to 5 that may be under way."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """A step's `slack_cycles` and `waits`, as in `StepCost`."""

    slack_cycles: float = 0.0
    waits: int = 1


def latenesses(
    launch: Launch, machine: Machine, shares: Mapping[Part, Share], cycles: Mapping[int, float]
) -> dict[str, Lateness]:
    """Step name -> what late data do to it, for the steps of loops, or of code that has none.

    Args:
        cycles: region -> an iteration of a lone CTA, data from L2.
    """
    far = machine.delayed(FAR_CYCLES)
    if not machine.ways.regions:
        late = far.run({}, np.zeros(1)).end - cycles[OUTSIDE]
        waiting_steps = [step.name for step, _ in steps(launch.program.body) if step.loads]
        return {name: Lateness(waits=max(1, round(late / FAR_CYCLES / len(waiting_steps)))) for name in waiting_steps}
    looped = {step.name: (step, around[-1]) for step, around in steps(launch.program.body) if around}
    regions = machine.ways.regions
    base = {number: FILLED_TRIPS if region.leaf else 1 for number, region in enumerate(regions)}
    found: dict[str, Lateness] = {}
    for part, share in shares.items():
        waiting = [looped[name] for name in share.steps if name in looped]
        if part.after or not waiting or part.region < 0 or not regions[part.region].leaf:
            continue
        more = {part.region: base[part.region] + MEASURED_TRIPS}
        runs = [far.run(base | trips, np.zeros(1)) for trips in ({}, more)]
        times = runs[1].counts[part.region] - runs[0].counts[part.region]
        # An iteration of the code may be part of a step, or several of them.
        late = share.times * (runs[1].end - runs[0].end) / times
        whole = share.times * cycles[part.region]
        for step, loop in waiting:
            if any(tile.path == "plain" for tile in step.loads):
                # Beyond one wait for each tile it is spilled registers that the code waits for.
                waits = round((late - whole) / FAR_CYCLES)
                found[step.name] = Lateness(waits=min(max(1, waits), len(step.loads)))
            elif deep := pipelined_stages(loop, launch):
                slack = whole + FAR_CYCLES - (deep - 1) * late
                # Code whose loads do not run ahead after all waits as if it had waited for data from L2 already.
                found[step.name] = Lateness(slack_cycles=min(whole, max(slack, -(deep - 2) * whole)))
    return found


def usual_lateness(launch: Launch, device: Device) -> float:
    """How much later than from L2 data come that L2 cannot hold, while the launch reads and writes [cycles]."""
    read, written = set[str](), set[str]()
    for step, _ in steps(launch.program.body):
        read.update(tile.tensor for tile in step.loads)
        written.update(tile.tensor for tile in step.stores)
    sizes = [sum(launch.program.tensor(name).size_bytes for name in names) for names in (read, written)]
    if sizes[0] <= device.l2_bytes:
        return 0.0
    turns = sizes[1] / sum(sizes) if sizes[1] > device.l2_bytes else 0.0
    return (device.hbm_latency_s + turns * device.hbm_turn_s) * device.boost_clock_hz
