"""What bounds a launch: each cause's share of its time, and the rule that names the largest as the bottleneck.

    resource    its busy time at full rate
    tail        SMs that have no CTA left while others still compute, on average over SMs
    launch      launch overhead, and the ramps before the first CTA and after the last one
    wait        the rest: CTAs are resident and even the busiest resource idles, as warps stall on results and data

The busiest resource, tail, launch and wait add up to the time; to more where L2 or HBM stays busy in the tail.
The bottleneck is the largest of them.
"""

from collections.abc import Mapping

TAIL, LAUNCH, WAIT = "tail", "launch", "wait"
"""The causes that are no resource."""


def causes_of(spent_s: Mapping[str, float], time_s: float) -> dict[str, float]:
    """Share of the time that each cause accounts for, from 0 to 1.

    Args:
        spent_s: resource, `tail` or `launch` -> time that it takes by itself [s].
        time_s: in all [s].
    """
    shares = {name: min(1.0, spent / time_s) for name, spent in spent_s.items()}
    busiest = max((share for name, share in shares.items() if name not in (TAIL, LAUNCH)), default=0.0)
    return shares | {WAIT: max(0.0, 1.0 - busiest - shares[TAIL] - shares[LAUNCH])}


def largest(causes: Mapping[str, float]) -> str:
    """The cause that accounts for most of the time; the first of equals."""
    return max(causes, key=lambda name: causes[name])
