"""What would make a launch faster, by what binds it: the figures that say so, and what a kernel's author can change."""

from math import prod

from .. import units
from ..display.render import RESOURCES
from ..display.words import percent, plural
from .bottleneck import LAUNCH, TAIL, WAIT
from .prediction import LaunchPrediction

LIMITS = {
    "registers": "registers",
    "smem": "shared memory",
    "warps": "its warps",
    "ctas": "CTAs that an SM can hold",
}
LEAST_SHARE = 0.05
"""Share of the time from which on a cause besides the largest is named."""
HELP = {
    "hbm": "fewer bytes: narrower types, or what it reads left in L2 or in registers by the kernel before (fuse them)",
    "l2": "larger tiles: what is loaded into an SM is used more often there",
    "smem": "fewer trips through shared memory: larger tiles per warp, fewer transposes and layout changes",
    "tensor": "fewer or narrower products: it runs near the rate of the tensor cores",
    "mufu": "fewer exponentials, divisions and roots for each element",
    "fma": "less arithmetic for each element: index sums hoisted out of loops, fewer conversions",
    "issue": "fewer instructions for each byte: wider loads, index sums hoisted out of loops, smaller tails",
}
"""What binds -> what would help, for a kernel's author."""


def help_text(one: LaunchPrediction) -> str:
    """Half a sentence: what would help against what binds a launch."""
    ctas = prod(one.grid)
    if one.bottleneck == TAIL:
        where = f"{plural(ctas, 'CTA')} are {one.waves:.2f} waves of what the GPU holds"
        return f"work that fills the SMs: {where}; smaller tiles, split loops, or CTAs that take several tiles each"
    if one.bottleneck == LAUNCH:
        spent = f"{units.duration(one.causes[LAUNCH] * one.traffic.time_s)} pass before its work and after it"
        return f"fewer launches, or more work in each: {spent}; fuse it with its neighbours"
    if one.bottleneck == WAIT:
        limit = LIMITS.get(one.occupancy_limit)
        beside = f" (now {one.ctas_per_sm} per SM{f', limited by {limit}' if limit else ''})"
        return f"more loads in flight: more num_stages or num_warps, or more CTAs{beside}"
    return HELP[one.bottleneck]


def dominating_lines(one: LaunchPrediction, total_s: float) -> list[str]:
    """What the longest launch is bound by, and what would help. Args: total_s: time of all launches [s]."""
    others = sorted((share, name) for name, share in one.causes.items() if name != one.bottleneck)
    also = [f"{name} {percent(share)}" for share, name in reversed(others) if share >= LEAST_SHARE]
    lines = [
        f"Longest  {one.name}: {units.duration(one.traffic.time_s)}, {percent(one.traffic.time_s / total_s)} of all;"
        f" bound by {one.bottleneck} {percent(one.bottleneck_share)} ({RESOURCES[one.bottleneck]})"
        + (f"; then {', '.join(also)}" if also else ""),
        f"Helps    {help_text(one)}",
    ]
    if one.spilled_bytes_per_thread:
        spilled = f"{one.spilled_bytes_per_thread} B per thread"
        lines.append(f"Helps    no spills: {spilled} go to local memory and back; smaller tiles, or more warps")
    return lines
