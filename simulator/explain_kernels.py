"""Where the cycles of a user's kernels go: launch by launch, by line of the source.

Each instruction of compiled code comes from a line; what warps wait before it counts at the line, and what others wait
for its result is told beside.
"""

import linecache
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from .device.device import Device
from .explain import REASONS, LaunchExplanation, Line, explain_launch
from .predict_kernels import SimulatedKernels
from .prediction.kernel_row import KernelRow
from .prediction.kernels import KernelsPrediction
from .trace.cta.subject import CompiledKernel

NOWHERE = ("", 0)
"""Place of instructions that come from no line, as the compiler's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """One line of the user's source.

    Args:
        file: path; empty for code that comes from no line; number: of the line, from 1; text: what stands there.
        executed: issues of its instructions in the whole launch, all warps together.
        warp_cycles: time of all warps at its instructions, by reason [cycles].
        others_wait_cycles: time that warps wait for results of its instructions, wherever they do [cycles].
    """

    file: str
    number: int
    text: str
    executed: int
    warp_cycles: dict[str, float]
    others_wait_cycles: float

    @property
    def total_cycles(self) -> float:
        """Time of all warps at its instructions [cycles]."""
        return sum(self.warp_cycles.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelExplanation:
    """One launch. Args: row: its prediction; launch: its code, None where it was refused; sources: in order."""

    row: KernelRow
    launch: LaunchExplanation | None
    sources: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelsExplanation:
    """All launches. Args: prediction: of them; kernels: in the order of the calls."""

    prediction: KernelsPrediction
    kernels: tuple[KernelExplanation, ...]

    @property
    def dominating(self) -> KernelExplanation | None:
        """The launch that takes longest; None where none was predicted."""
        predicted = [kernel for kernel in self.kernels if kernel.launch]
        return max(predicted, key=lambda kernel: kernel.row.traffic.time_s, default=None)


def explain_kernels(simulated: SimulatedKernels, device: Device) -> KernelsExplanation:
    """Say where the cycles of launches go. Args: simulated: on that device."""
    kernels = []
    rows = zip(simulated.prediction.rows, simulated.compiled, simulated.launches, strict=True)
    for row, kernel, launch in rows:
        if kernel is None or launch is None or row.prediction is None:
            kernels.append(KernelExplanation(row=row, launch=None, sources=()))
            continue
        explained = explain_launch(launch, row.prediction, device)
        kernels.append(KernelExplanation(row=row, launch=explained, sources=sources_of(explained.lines, kernel)))
    return KernelsExplanation(prediction=simulated.prediction, kernels=tuple(kernels))


def sources_of(code: Iterable[Line], kernel: CompiledKernel) -> tuple[SourceLine, ...]:
    """Instructions by the line that they come from; by file and number."""
    places = kernel.user_lines
    starts = [address for address, _, _ in places]
    by_place: defaultdict[tuple[str, int], list[Line]] = defaultdict(list)
    for line in code:
        before = bisect_right(starts, line.instruction.address)
        by_place[places[before - 1][1:] if before else NOWHERE].append(line)
    return tuple(
        SourceLine(
            file=file,
            number=number,
            text=linecache.getline(file, number).rstrip() if file else "",
            executed=sum(line.executed for line in lines),
            warp_cycles={
                reason: sum(line.executed * line.cycles.get(reason, 0.0) for line in lines) for reason in REASONS
            },
            others_wait_cycles=sum(line.executed * line.others_wait_cycles for line in lines),
        )
        for (file, number), lines in sorted(by_place.items())
    )
