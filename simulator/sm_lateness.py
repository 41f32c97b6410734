"""How late data may come to a pipelined loop: what the SM's simulation tells the memory engine about latency.

In: a machine, and what a lone CTA's iterations take when data come from L2. Out: for each pipelined step its slack.

The engine asks for a step's data `stages - 1` iterations ahead and begins the step when they are there.
So where data are late, s - 1 iterations take it the latency beyond L2 and one iteration; on the SM they take the whole
latency, less what the code does between the wait and the next request. The slack is the difference: an iteration
whose latencies are run far beyond reach shows it, whether or not it waits for data from L2.
"""

from collections.abc import Mapping

import numpy as np

from .program import Launch
from .sm_machine import Machine
from .sm_steps import Part, Share
from .walk import pipelined_stages, steps

FAR_CYCLES = 8192.0
"""Beyond what any loop hides."""
FILLED_TRIPS, MEASURED_TRIPS = 8, 12
"""Iterations until a loop's pace has settled; and then, a multiple of the 2 to 5 that may be under way."""


def slacks(
    launch: Launch, machine: Machine, shares: Mapping[Part, Share], cycles: Mapping[int, float]
) -> dict[str, float]:
    """Step name -> slack, for the steps of pipelined loops that load nothing else.

    Args:
        cycles: region -> an iteration of a lone CTA, data from L2.
    """
    stages = {
        step.name: pipelined_stages(around[-1], launch)
        for step, around in steps(launch.program.body)
        if around and all(tile.path != "plain" for tile in step.loads)
    }
    regions = machine.ways.regions
    base = {number: FILLED_TRIPS if region.leaf else 1 for number, region in enumerate(regions)}
    far = machine.delayed(FAR_CYCLES)
    found: dict[str, float] = {}
    for part, share in shares.items():
        waiting = {name: stages[name] for name in share.steps if stages.get(name, 0) > 1}
        if part.after or not waiting or part.region < 0 or not regions[part.region].leaf:
            continue
        more = {part.region: base[part.region] + MEASURED_TRIPS}
        runs = [far.run(base | trips, np.zeros(1)) for trips in ({}, more)]
        times = runs[1].counts[part.region] - runs[0].counts[part.region]
        late = (runs[1].end - runs[0].end) / times
        for name, deep in waiting.items():
            # An iteration of the code may be part of a step, or several of them.
            whole = share.times * cycles[part.region]
            slack = whole + FAR_CYCLES - (deep - 1) * share.times * late
            # Code whose loads do not run ahead after all waits as if it had waited for data from L2 already.
            found[name] = min(whole, max(slack, -(deep - 2) * whole))
    return found
