"""The answers of `validate --checkpoint` as frozen values: figures predicted and measured, side by side."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from ...simulator.device.device import Device
from ...simulator.prediction.bottleneck import largest
from ...simulator.problems.attention import AttentionProblem

SCHEMA = "tilesight.checkpoint/1"
SPEEDUP_LENGTHS = (1024, 2048, 4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A figure predicted and measured; None where it could not be."""

    predicted: float | None = None
    measured: float | None = None

    @property
    def relative_error(self) -> float | None:
        """(predicted - measured) / measured; None where one of them is missing."""
        if self.predicted is None or not self.measured:
            return None
        return (self.predicted - self.measured) / self.measured

    def with_other(self, other: "Beside", joined: Callable[[tuple[float, float]], float]) -> "Beside":
        """Of two figures one, e.g. their sum; None where one of them is missing."""

        def both(a: float | None, b: float | None) -> float | None:
            return None if a is None or b is None else joined((a, b))

        return Beside(predicted=both(self.predicted, other.predicted), measured=both(self.measured, other.measured))

    def to_dict(self) -> dict[str, float | None]:
        """The figure's object in JSON."""
        return asdict(self) | {"relative_error": self.relative_error}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """One schedule at one shape.

    Args:
        schedule; batch; seqlen: of queries and keys.
        time_s: warm [s]; memory_bytes: most device memory held at once [B].
        causes: what the predicted time goes to (see `prediction.bottleneck`); of one launch only, else empty.
        measured_causes: the same of the measured time, the work being what was predicted; empty where it is unknown.
        unpredicted: why its time is not simulated; empty where it is.
        reason: why it cannot run, or was not measured; empty where it was, or where nobody asked.
    """

    schedule: str
    batch: int
    seqlen: int
    time_s: Beside
    memory_bytes: Beside
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

    @property
    def key(self) -> tuple[str, int, int]:
        """Schedule, batch and length."""
        return self.schedule, self.batch, self.seqlen

    def to_dict(self) -> dict[str, Any]:
        """The object in JSON."""
        entry = {"schedule": self.schedule, "batch": self.batch, "seqlen": self.seqlen}
        entry |= {"time_s": self.time_s.to_dict(), "memory_bytes": self.memory_bytes.to_dict()}
        entry |= {"regime": self.regime, "regime_share": self.causes.get(self.regime)}
        entry |= {"measured_regime": self.measured_regime}
        entry |= {"measured_regime_share": self.measured_causes.get(self.measured_regime)}
        return entry | {"unpredicted": self.unpredicted, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """All answers.

    Args:
        problem: shape and type; batch and lengths vary.
        standard, tiled: schedules that stand for standard attention, and for a fused kernel.
        passes: of attention that they compute, where it is not one: in words; else empty.
        device: what was predicted for; gpu: what was measured; empty where nothing was.
        memory_bytes: device memory: as the device file says, and as a process finds it free [B].
        longest: schedule -> the longest sequence that fits.
        lengths: both schedules over `LENGTHS`, at the problem's batch; cells: over `MAP_BATCHES` x `MAP_LENGTHS`.
        notes: what could not be measured, one line each.
        unmeasured: why nothing was measured; empty where something was, or where nobody asked.
    """

    problem: AttentionProblem
    standard: str
    tiled: str
    passes: str = ""
    device: Device
    memory_bytes: Beside
    longest: dict[str, Beside]
    lengths: tuple[Grown, ...]
    cells: tuple[Grown, ...]
    gpu: str = ""
    notes: tuple[str, ...] = ()
    unmeasured: str = ""

    @property
    def measured(self) -> bool:
        """Whether a GPU was asked."""
        return bool(self.gpu)

    def speedup(self, batch: int, seqlen: int) -> Beside:
        """Time of standard attention over that of the tiled kernel."""
        times = {
            cell.schedule: cell.time_s
            for cell in (*self.lengths, *self.cells)
            if (cell.batch, cell.seqlen) == (batch, seqlen)
        }
        standard, tiled = times.get(self.standard, Beside()), times.get(self.tiled, Beside())
        return Beside(
            predicted=_ratio(standard.predicted, tiled.predicted), measured=_ratio(standard.measured, tiled.measured)
        )

    @property
    def worst_memory_error(self) -> float | None:
        """Largest relative error of peak memory, without its sign; None where nothing was measured."""
        errors = [cell.memory_bytes.relative_error for cell in (*self.lengths, *self.cells)]
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

    @property
    def tiled_cells(self) -> list[Grown]:
        """The cells of the map, of the tiled kernel."""
        return [cell for cell in self.cells if cell.schedule == self.tiled]


def _ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None
