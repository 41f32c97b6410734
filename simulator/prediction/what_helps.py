"""What would make a launch faster. In: its bottleneck and figures. Out: lines that say what its author can change."""

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
READ_AGAIN = 0.25
"""Share of what comes from L2 that has not just come from HBM, below which larger tiles save nothing."""
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


def help_text(launch: LaunchPrediction) -> str:
    """Half a sentence: what would help against what binds a launch."""
    ctas = prod(launch.grid)
    if launch.bottleneck == TAIL:
        where = f"{plural(ctas, 'CTA')} are {launch.waves:.2f} waves of what the GPU holds"
        return f"work that fills the SMs: {where}; smaller tiles, split loops, or CTAs that take several tiles each"
    if launch.bottleneck == LAUNCH:
        spent = f"{units.duration(launch.causes[LAUNCH] * launch.traffic.time_s)} pass before its work and after it"
        return f"fewer launches, or more work in each: {spent}; fuse it with its neighbours"
    if launch.bottleneck == WAIT:
        limit = LIMITS.get(launch.occupancy_limit)
        beside = f" (now {launch.ctas_per_sm} per SM{f', limited by {limit}' if limit else ''})"
        return f"more loads in flight: more num_stages or num_warps, or more CTAs{beside}"
    traffic = launch.traffic
    if launch.bottleneck == "l2" and traffic.l2_hit_bytes < READ_AGAIN * traffic.l2_read_bytes:
        return "fewer bytes: narrower types, or fuse it with neighbours; larger tiles save few, as most is read once"
    return HELP[launch.bottleneck]


def dominating_lines(launch: LaunchPrediction, total_s: float, spilled_bytes: int) -> list[str]:
    """What the longest launch is bound by, and what would help.

    Args:
        total_s: time of all launches [s]; spilled_bytes: registers that a thread spills [B].
    """
    others = sorted((share, name) for name, share in launch.causes.items() if name != launch.bottleneck)
    also = [f"{name} {percent(share)}" for share, name in reversed(others) if share >= LEAST_SHARE]
    lines = [
        f"Longest  {launch.name}: {units.duration(launch.traffic.time_s)},"
        f" {percent(launch.traffic.time_s / total_s)} of all; bound by {launch.bottleneck}"
        f" {percent(launch.bottleneck_share)} ({RESOURCES[launch.bottleneck]})"
        + (f"; then {', '.join(also)}" if also else ""),
        f"Helps    {help_text(launch)}",
    ]
    if spilled_bytes:
        spilled = f"{spilled_bytes} B per thread"
        lines.append(f"Helps    no spills: {spilled} go to local memory and back; smaller tiles, or more warps")
    return lines
