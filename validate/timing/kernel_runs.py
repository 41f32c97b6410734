"""What a profiler's trace says of kernels: which ran, for how long, and how long the GPU was idle between them.

`torch.profiler` exports a trace in Chrome's format; `kernels_in` reads the kernels out of it,
`pass_of` says what one pass of several equal ones took. Where the trace is from does not matter (see `profiler`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from statistics import median
from typing import Any

from ...simulator.limits import WARP_THREADS
from ..measurement import Plain

KERNEL = "kernel"
FAMILIES = (
    ("cudnn", ("cudnn",)),
    ("efficient", ("fmha_cutlass", "PyTorchMemEffAttention")),
    ("flash", ("pytorch_flash",)),
    ("flash-attn", ("flash::", "flash_fwd", "FlashAttn")),
)
"""Family of a fused attention kernel -> what its name contains; the first match counts (all of them say "flash")."""
UNFUSED = "math"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRun(Plain):
    """One kernel as the profiler saw it.

    Args:
        name: as compiled, template arguments included.
        start_s: when it began [s].
        time_s: how long it ran [s].
        grid: CTAs along x, y, z.
        block: threads of a CTA along x, y, z.
        registers_per_thread, smem_bytes_per_cta: as the profiler reports them.
        stream: number of its stream.
    """

    name: str
    start_s: float
    time_s: float
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers_per_thread: int
    smem_bytes_per_cta: int
    stream: int

    @property
    def num_warps(self) -> int:
        """Warps of a CTA."""
        return -(-prod(self.block) // WARP_THREADS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass through a pipeline, predicted, or profiled: the median over several.

    Args:
        kernels: (name, time) in order [s].
        gap_s: idle time between them, from each end to the next start [s].
    """

    kernels: tuple[tuple[str, float], ...]
    gap_s: float

    @property
    def count(self) -> int:
        """Kernel launches."""
        return len(self.kernels)

    @property
    def busy_s(self) -> float:
        """Time in kernels [s]."""
        return sum(time_s for _, time_s in self.kernels)

    @property
    def dominating(self) -> tuple[str, float]:
        """The kernel that takes longest, and its share of the time in kernels; the first of equals."""
        name, time_s = max(self.kernels, key=lambda kernel: kernel[1])
        return name, time_s / self.busy_s

    @property
    def gap_fraction(self) -> float:
        """Share of the pass in which no kernel runs."""
        return self.gap_s / (self.busy_s + self.gap_s)


def kernels_in(trace: Mapping[str, Any]) -> tuple[KernelRun, ...]:
    """The kernels of a Chrome trace, by start. Raises: ValueError: this is no trace of a profiler."""
    events = trace.get("traceEvents")
    if not isinstance(events, list):
        raise ValueError("trace: holds no traceEvents")
    runs = [_kernel(event) for event in events if event.get("cat") == KERNEL]
    return tuple(sorted(runs, key=lambda kernel: kernel.start_s))


def pass_of(kernels: Sequence[KernelRun], passes: int) -> Pass:
    """One pass of several equal ones.

    Raises:
        ValueError: the passes launch different kernels, or none.
    """
    length, rest = divmod(len(kernels), passes)
    rows = [kernels[number * length : (number + 1) * length] for number in range(passes)]
    names = [kernel.name for kernel in rows[0]]
    if rest or not length or any([kernel.name for kernel in row] != names for row in rows):
        raise ValueError(f"{len(kernels)} kernels are not {passes} equal passes")
    times = zip(*([kernel.time_s for kernel in row] for row in rows), strict=True)
    gaps = [
        sum(max(0.0, later.start_s - (sooner.start_s + sooner.time_s)) for sooner, later in pairwise(row))
        for row in rows
    ]
    return Pass(kernels=tuple(zip(names, map(median, times), strict=True)), gap_s=median(gaps))


def family_of(names: Sequence[str]) -> str:
    """Which implementation of attention these kernels are: a family of fused kernels, or `math` for unfused ones."""
    for family, signs in FAMILIES:
        if any(sign in name for name in names for sign in signs):
            return family
    return UNFUSED if any("softmax" in name.lower() for name in names) else UNKNOWN


def short_name(name: str) -> str:
    """A kernel's name without return type, template arguments and parameters, e.g. `flash::flash_fwd_kernel`."""
    words = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    for sign in ("<", "("):
        words = words.split(sign)[0] or words
    return words


def _kernel(event: Mapping[str, Any]) -> KernelRun:
    details = event["args"]
    return KernelRun(
        name=event["name"],
        start_s=event["ts"] * 1e-6,
        time_s=event["dur"] * 1e-6,
        grid=tuple(details["grid"]),
        block=tuple(details["block"]),
        registers_per_thread=details["registers per thread"],
        smem_bytes_per_cta=details["shared memory"],
        stream=details["stream"],
    )
