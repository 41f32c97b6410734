"""What would make a launch faster. In: its bottleneck and figures, and advice on it where somebody simulated some.

Out: lines that say what its author can change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
    "barriers": "named barriers",
}
LEAST_SHARE = 0.05
"""Share of the time from which on a cause besides the largest is named."""
READ_AGAIN = 0.25
"""Share of what comes from L2 that has not just come from HBM, below which larger tiles save nothing."""
MOSTLY = 0.5
"""Share of the pipe of L1 and shared memory from which on what takes it is what is to be changed."""
HELP = {
    "hbm": "fewer bytes: narrower types, or what it reads left in L2 or in registers by the kernel before (fuse them)",
    "l2": "larger tiles: what is loaded into an SM is used more often there",
    "fabric": "fewer bytes between the L2 partitions: larger tiles, as half of what SMs read first lies in the other",
    "smem": "fewer trips through shared memory: larger tiles per warp, fewer transposes and layout changes",
    "tensor": "fewer or narrower products: it runs near the rate of the tensor cores",
    "mufu": "fewer exponentials, divisions and roots for each element",
    "fma": "less arithmetic for each element: index sums hoisted out of loops, fewer conversions",
    "issue": "fewer instructions for each byte: wider loads, index sums hoisted out of loops, smaller tails",
}
"""What binds -> what would help, for a kernel's author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A cause that makes a launch, a step or a shape slow, and what its author can do about it.

    Args:
        cause: its name, e.g. `spills`, or a resource's; text: half a sentence for people;
        cure: what would help, where the text does not say it.
        gain: how many times as fast the launch could be at most; None: it is not known.
        time_s: of a step, that it costs, or that the kernels take which it concerns [s]; share: of the step, 0 to 1.
    """

    cause: str
    text: str
    cure: str = ""
    gain: float | None = None
    time_s: float = 0.0
    share: float = 0.0

    def to_dict(self) -> dict[str, object]:
        """Its object in `predict --json`."""
        return {"cause": self.cause, "text": self.text, "gain": self.gain}

    @property
    def line(self) -> str:
        """The line of a table."""
        return f"Helps    {self.text}" + (f": up to {self.gain:.{_digits(self.gain)}f}x" if self.gain else "")


def _digits(gain: float) -> int:
    return 0 if gain >= 9.95 else 1 if gain >= 1.995 else 2


def cause_text(launch: LaunchPrediction, cause: str) -> str:
    """A cause in words; of the pipe of L1 and shared memory with what accesses to global memory take of it."""
    share = launch.global_smem_fraction
    is_shared = cause == "smem" and share >= LEAST_SHARE
    return f"{RESOURCES[cause]}; {percent(share)} of it for global memory" if is_shared else RESOURCES[cause]


def binding_advice(launch: LaunchPrediction, pipelined: bool = False) -> Advice:
    """What would help against what binds a launch. Args: pipelined: whether it has a loop whose loads run ahead."""
    return Advice(cause=launch.bottleneck, text=help_text(launch, pipelined))


def help_text(launch: LaunchPrediction, pipelined: bool = False) -> str:
    """Half a sentence: what would help against what binds a launch. Args: as of `binding_advice`."""
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
        stages = "num_stages or " if pipelined else ""
        return f"more loads in flight: more {stages}num_warps, more elements a thread, or more CTAs{beside}"
    traffic = launch.traffic
    if launch.bottleneck == "smem" and launch.global_smem_fraction > MOSTLY:
        share = percent(launch.global_smem_fraction)
        return f"fewer lines for each access to global memory: these take {share} of the pipe of L1 and shared memory"
    through_l2 = launch.bottleneck in ("l2", "fabric")
    if through_l2 and traffic.l2_hit_bytes < READ_AGAIN * traffic.l2_read_bytes:
        return "fewer bytes: narrower types, or fuse it with neighbours; larger tiles save few, as most is read once"
    if through_l2 and not traffic.executed_flop:
        return "fewer reads of the same data: what CTAs read again should stay in registers or shared memory"
    return HELP[launch.bottleneck]


def dominating_lines(launch: LaunchPrediction, total_s: float, helps: Sequence[Advice]) -> list[str]:
    """What the longest launch is bound by, and what would help.

    Args:
        total_s: time of all launches [s]; helps: what was simulated of changes to it, what helps most first.
    """
    others = sorted((share, name) for name, share in launch.causes.items() if name != launch.bottleneck)
    also = [f"{name} {percent(share)}" for share, name in reversed(others) if share >= LEAST_SHARE]
    return [
        f"Longest  {launch.name}: {units.duration(launch.traffic.time_s)},"
        f" {percent(launch.traffic.time_s / total_s)} of all; bound by {launch.bottleneck}"
        f" {percent(launch.bottleneck_share)} ({cause_text(launch, launch.bottleneck)})"
        + (f"; then {', '.join(also)}" if also else ""),
        *(advice.line for advice in helps or (binding_advice(launch),)),
    ]
