"""A side of a comparison, as plain values: launches with names of their code, figures, and executed lines of source.

It can be kept as JSON (`saved`), so that a change is compared with what was there before, without compiling that again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..simulator.prediction.kernel_row import KernelRow
from ..simulator.prediction.timing import EVENTS_S
from ..simulator.prediction.torch_operation import TorchOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of a kernel's source.

    Args:
        file: its name; number: in the file; text: as it stands there.
        executed: family of opcodes -> instructions that all warps issue; nothing of a line without code.
        time_fraction: of all time of the warps of a full SM, that spent at the line; None: unknown.
    """

    file: str
    number: int
    text: str
    executed: Mapping[str, int]
    time_fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSide:
    """A launch.

    Args:
        row: name, grid, and figures where it was predicted.
        shape: arguments that are numbers, and sizes of its memory, as text: what it is matched by.
        code: digest of machine code, grid and arguments; empty where it has none.
        tiling: grid, warps, stages and shapes of tiles, as text; empty where unknown.
        lines: of its source, in order, some without code among them; none where how often code runs is unknown.
    """

    row: KernelRow
    shape: str
    code: str
    tiling: str = ""
    lines: tuple[SourceLine, ...] = ()

    @property
    def executed(self) -> dict[str, int]:
        """Family of opcodes -> instructions that all warps issue, the most frequent first."""
        counts: dict[str, int] = {}
        for line in self.lines:
            for family, count in line.executed.items():
                counts[family] = counts.get(family, 0) + count
        return dict(sorted(counts.items(), key=lambda item: -item[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What a side is recorded and compiled with. Args: versions; ptxas: of Triton's own; empty: it does not say."""

    python: str
    torch: str
    triton: str
    ptxas: str

    @property
    def text(self) -> str:
        """For people, without the assembler."""
        return f"triton {self.triton}, torch {self.torch}, Python {self.python}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What a function launches.

    Args:
        name: as it was asked for, e.g. `main:kernels.py:run`; device, l2, timing: that it is predicted for.
        settings: what-ifs of the device, `key=value`.
        launches: in the order of their calls; of an autotuned one the fastest configuration.
        code: digest of all of them and of the memory that they share, every configuration included; empty where
            one has no code.
        predicted: whether it was; where both sides have the same code nothing is.
        notes: one line each; ended: what the code raised after its last launch; empty: it ran to its end.
        torch_operations: that run beside the launches, and are not predicted.
        environment: that it was recorded and compiled in, where another one than this was asked for on any side.
    """

    name: str
    device: str
    l2: str
    timing: str
    launches: tuple[LaunchSide, ...]
    code: str
    predicted: bool
    settings: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    ended: str = ""
    torch_operations: tuple[TorchOperation, ...] = ()
    environment: Environment | None = None

    @property
    def title(self) -> str:
        """Its name, with versions where an environment was asked for."""
        return f"{self.name} ({self.environment.text})" if self.environment else self.name

    @property
    def complete(self) -> bool:
        """Whether every launch has code, and a prediction where any was asked for, and the function ran to its end."""
        lacking = any(
            launch.row.refused or (self.predicted and launch.row.prediction is None) for launch in self.launches
        )
        return not lacking and not self.ended

    @property
    def time_s(self) -> float:
        """Time of all launches that were predicted; 0 where none was [s]."""
        launches_s = sum(launch.row.traffic.time_s for launch in self.launches)
        return launches_s + (EVENTS_S if launches_s and self.timing == "do_bench" else 0.0)
