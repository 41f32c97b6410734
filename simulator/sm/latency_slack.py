"""How late data may come to a loop: what the SM's simulation tells the memory engine about latency.

In: a machine, and what a lone CTA's iterations take when data come from L2.
Out: for each step of a loop, and of code without one, how often it waits for what it loads itself, and, where loads
run ahead, its slack; and how late data are where CTAs that share an SM are measured.

A step loads its tiles at its begin and waits for all of them; code may wait for K, go on, and wait for V.
An iteration whose data come far beyond reach is so many latencies longer as it waits one after the other.

Of a pipelined loop the engine asks for data `stages - 1` iterations ahead, and begins a step when they are there.
So where data are late, s - 1 iterations take it the latency beyond L2 and one iteration; on the SM they take the whole
latency, less what the code does between the wait and the next request. The slack is the difference: an iteration
whose latencies are run far beyond reach shows it, whether or not it waits for data from L2.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ..device.device import Device
from ..launch.program import Launch
from ..launch.walk import pipelined_stages, steps
from ..trace.ways import OUTSIDE
from .machine import Machine
from .match_steps import Part, Share
from .single_cta import lone_costs

FAR_CYCLES = 8192.0
"""Beyond what any loop hides."""
MEASURED_TRIPS = 12
"""Iterations beyond the first ones: a multiple of the 2, 3 or 4 that may be under way."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """A step's `slack_cycles` and `waits`, as in `StepCost`."""

    slack_cycles: float = 0.0
    waits: int = 1


def latenesses(
    launch: Launch,
    machine: Machine,
    shares: Mapping[Part, Share],
    executed: Mapping[str, int],
    cycles: Mapping[int, float],
) -> dict[str, Lateness]:
    """Step name -> what late data do to it, for the steps of loops, or of code that has none.

    Args:
        executed: step name -> executions in the CTA that is followed;
        cycles: region -> an iteration of a lone CTA, data from L2.
    """
    far = lone_costs(machine.delayed(FAR_CYCLES), MEASURED_TRIPS)
    regions = machine.ways.regions
    if not regions:
        loading = [step for step, _ in steps(launch.program.body) if step.loads and executed[step.name]]
        each = (far[OUTSIDE].cycles - cycles[OUTSIDE]) / max(1, sum(executed[step.name] for step in loading))
        return {step.name: _waiting(each, len(step.loads)) for step in loading}
    looped = {step.name: (step, around[-1]) for step, around in steps(launch.program.body) if around}
    found: dict[str, Lateness] = {}
    for part, share in shares.items():
        if part.after or part.region == OUTSIDE:
            continue
        if launch.traced and share.portion is not None and _cut(share.steps[0], launch):
            continue  # its code is cut where it waits, so that each step waits once
        # An iteration of the code may be part of a step, or several of them.
        late, whole = (share.times * one for one in (far[part.region].cycles, cycles[part.region]))
        for step, loop in (looped[name] for name in share.steps if name in looped):
            if any(tile.path == "plain" for tile in step.loads):
                found[step.name] = _waiting(late - whole, len(step.loads))
            elif deep := pipelined_stages(loop, launch):
                slack = whole + FAR_CYCLES - (deep - 1) * late
                # Code whose loads do not run ahead after all waits as if it had waited for data from L2 already.
                found[step.name] = Lateness(slack_cycles=min(whole, max(slack, -(deep - 2) * whole)))
    return found


def _cut(name: str, launch: Launch) -> bool:
    """Whether a step is one of several that a loop's body is cut into."""
    return any(step.name == name and around and len(around[-1].body) > 1 for step, around in steps(launch.program.body))


def _waiting(late: float, tiles: int) -> Lateness:
    """What data come too late by in one execution [cycles]; beyond one wait for each tile it is spilled registers."""
    return Lateness(waits=min(max(1, round(late / FAR_CYCLES)), tiles))


def usual_lateness(launch: Launch, device: Device) -> float:
    """How much later than from L2 data come where L2 cannot hold what the launch reads [cycles].

    Reads meet writes where L2 cannot hold those either, the more the larger their part of both.
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
