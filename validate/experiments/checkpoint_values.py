"""The answers of `validate --checkpoint` as frozen values: figures predicted and measured, side by side."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ...simulator.device.device import Device
from ...simulator.prediction.bottleneck import largest
from ...simulator.problems.attention import AttentionProblem
from ..compare.quantities import Compared

SCHEMA = "tilesight.checkpoint/1"
SPEEDUP_LENGTHS = (1024, 2048, 4096)

Key = tuple[str, int, int]
"""Schedule, batch and length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """One schedule at one shape.

    Args:
        schedule: name.
        batch: sequences.
        seqlen: of queries and keys.
        time_s: warm [s].
        memory_bytes: most device memory held at once [B].
        causes: what the predicted time goes to (see `prediction.bottleneck`); of one launch only, else empty.
        measured_causes: the same of the measured time, the work being what was predicted; empty where it is unknown.
        unpredicted: why its time is not simulated; empty where it is.
        reason: why it cannot run, or was not measured; empty where it was, or where it was not asked for.
    """

    schedule: str
    batch: int
    seqlen: int
    time_s: Compared
    memory_bytes: Compared
    causes: dict[str, float] = field(default_factory=dict)
    measured_causes: dict[str, float] = field(default_factory=dict)
    unpredicted: str = ""
    reason: str = ""

    @property
    def regime(self) -> str:
        """The largest of the causes; empty where they are unknown."""
        return largest(self.causes) if self.causes else ""

    @property
    def measured_regime(self) -> str:
        """The same of the measured time."""
        return largest(self.measured_causes) if self.measured_causes else ""

    def to_dict(self) -> dict[str, Any]:
        """The object in JSON."""
        return {
            "schedule": self.schedule,
            "batch": self.batch,
            "seqlen": self.seqlen,
            "time_s": self.time_s.to_dict(),
            "memory_bytes": self.memory_bytes.to_dict(),
            "regime": self.regime,
            "regime_share": self.causes.get(self.regime),
            "measured_regime": self.measured_regime,
            "measured_regime_share": self.measured_causes.get(self.measured_regime),
            "unpredicted": self.unpredicted,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """All answers.

    Args:
        problem: shape and type; batch and lengths vary.
        standard: schedule that stands for standard attention.
        tiled: schedule that stands for a fused kernel.
        passes: of attention that they compute, where it is not one: in words; else empty.
        device: what was predicted for.
        memory_bytes: device memory: as the device file says, and as a process finds it free [B].
        longest: schedule -> the longest sequence that fits.
        cells: both schedules at every shape.
        plotted: lengths over which time and memory are shown, at the problem's batch.
        mapped: batch and length of the shapes over which the speed-up is shown.
        gpu: what was measured; empty where nothing was.
        notes: what could not be measured, one line each.
        unmeasured: why nothing was measured; empty where something was, or where it was not asked for.
    """

    problem: AttentionProblem
    standard: str
    tiled: str
    passes: str = ""
    device: Device
    memory_bytes: Compared
    longest: dict[str, Compared]
    cells: Mapping[Key, Grown]
    plotted: tuple[int, ...]
    mapped: tuple[tuple[int, int], ...]
    gpu: str = ""
    notes: tuple[str, ...] = ()
    unmeasured: str = ""

    @property
    def measured(self) -> bool:
        """Whether a GPU was asked."""
        return bool(self.gpu)

    @property
    def lengths(self) -> tuple[Grown, ...]:
        """Both schedules over the lengths that are plotted."""
        names = (self.standard, self.tiled)
        return tuple(self.cells[name, self.problem.batch, length] for name in names for length in self.plotted)

    @property
    def tiled_cells(self) -> list[Grown]:
        """The cells of the map, of the tiled kernel."""
        return [self.cells[self.tiled, batch, length] for batch, length in self.mapped]

    def speedup(self, batch: int, seqlen: int) -> Compared:
        """Time of standard attention over that of the tiled kernel."""
        cells = [self.cells.get((name, batch, seqlen)) for name in (self.standard, self.tiled)]
        standard, tiled = (cell.time_s if cell else Compared() for cell in cells)
        return Compared(_ratio(standard.predicted, tiled.predicted), _ratio(standard.measured, tiled.measured))

    @property
    def worst_memory_error(self) -> float | None:
        """Largest relative error of peak memory, without its sign; None where nothing was measured."""
        errors = [cell.memory_bytes.finite_error for cell in self.cells.values()]
        return max((abs(error) for error in errors if error is not None), default=None)

    def to_dict(self) -> dict[str, Any]:
        """The object that `validate --checkpoint --json` prints."""
        shape = {key: value for key, value in asdict(self.problem).items() if not key.startswith("seqlen")}
        return {
            "schema": SCHEMA,
            "device": self.device.name,
            "gpu": self.gpu,
            "problem": shape,
            "standard": self.standard,
            "tiled": self.tiled,
            "memory_bytes": self.memory_bytes.to_dict(),
            "longest_seqlen": {name: value.to_dict() for name, value in self.longest.items()},
            "speedup": [
                {"seqlen": length, **self.speedup(self.problem.batch, length).to_dict()} for length in SPEEDUP_LENGTHS
            ],
            "lengths": [cell.to_dict() for cell in self.lengths],
            "map": [
                cell.to_dict() | {"speedup": self.speedup(cell.batch, cell.seqlen).to_dict()}
                for cell in self.tiled_cells
            ],
            "worst_memory_error": self.worst_memory_error,
            "notes": list(self.notes),
            "unmeasured": self.unmeasured or None,
        }


def _ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None
