"""What a GPU said: frozen values that the worker fills, the results file keeps, and the comparison reads.

A point that was asked for becomes a `Measurement`, or `Lost` where nothing could be measured; both are JSON objects.
Nothing here needs a GPU, torch or triton.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import Any, Literal, Self

MEASURED = "measured"
"""What `Measurement.counters` says where there are counters; everything else is the reason why there are none."""


class Plain:
    """A dataclass of plain values: its object in JSON has its fields, with lists for tuples."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The object in JSON."""
        entry: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in entry.items()}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Self:
        """The value of a JSON object. Raises: TypeError: a field is missing or unknown."""
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Plain):
    """Where and with what something was measured.

    Args:
        gpu: product name, as the driver reports it.
        capability: compute capability, e.g. `9.0`.
        sm_count: SMs of the GPU.
        driver, torch, triton: versions.
        ncu: version; empty where there is none.
        date: ISO 8601, of the day.
        commit: of the kernels' source; empty where unknown.
    """

    gpu: str
    capability: str
    sm_count: int
    driver: str
    torch: str
    triton: str
    ncu: str
    date: str
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing(Plain):
    """How long a point takes, all launches of its pipeline together.

    Args:
        l2: `cold` (flushed before every sample, the flush not timed) or `warm`.
        median_s: of the samples [s].
        low_s, high_s: ends of the median's confidence interval [s].
        confidence: of that interval.
        samples: how many.
        fastest_s, slowest_s: ends of the samples [s].
        clock_hz: SM clock sampled during the run [Hz]; 0 where unknown.
        cycles: SM cycles of the median sample; 0 where the clock is unknown.
        noise: how far the samples lie apart, by the thresholds that `timing` states.
    """

    l2: Literal["cold", "warm"]
    median_s: float
    low_s: float
    high_s: float
    confidence: float
    samples: int
    fastest_s: float
    slowest_s: float
    clock_hz: float
    cycles: float
    noise: Literal["quiet", "noisy", "unstable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchMeasurement(Plain):
    """One kernel launch as it ran.

    Args:
        name: of the `Launch`.
        grid: CTAs along x, y, z.
        num_warps, registers_per_thread, spilled_bytes_per_thread, smem_bytes_per_cta: of the kernel that ran.
        counters: field of ours (`hbm_read_bytes`, `cycles`, `time_s`, ...) -> what the hardware counted; may be empty.
    """

    name: str
    grid: tuple[int, int, int]
    num_warps: int
    registers_per_thread: int
    spilled_bytes_per_thread: int
    smem_bytes_per_cta: int
    counters: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """All that was measured of a point.

    Args:
        key: of the point.
        timing: None where it was not timed.
        launches: one per kernel launch, in order.
        peak_memory_bytes: most device memory held at once, by torch's allocator [B].
        oracle_error: largest error of the outputs in units of what is allowed; above 1 is wrong, infinite for NaN.
        doubts: what speaks against this measurement, one line each; empty where nothing does.
        counters: `measured`, or why there are none.
        spent_s: time that measuring took [s].
    """

    key: str
    timing: Timing | None
    launches: tuple[LaunchMeasurement, ...]
    peak_memory_bytes: int
    oracle_error: float
    doubts: tuple[str, ...] = ()
    counters: str = MEASURED
    spent_s: float = 0.0

    @property
    def has_counters(self) -> bool:
        """Whether hardware counters were read."""
        return self.counters == MEASURED

    def to_dict(self) -> dict[str, Any]:
        """The measurement's object in JSON, which has no infinity."""
        error = self.oracle_error if isfinite(self.oracle_error) else None
        return {**asdict(self), "oracle_error": error}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> "Measurement":
        """The measurement of a JSON object. Raises: KeyError, TypeError: a field is missing or unknown."""
        parts = {
            "timing": entry["timing"] and Timing.from_dict(entry["timing"]),
            "launches": tuple(LaunchMeasurement.from_dict(launch) for launch in entry["launches"]),
            "oracle_error": inf if entry["oracle_error"] is None else entry["oracle_error"],
            "doubts": tuple(entry["doubts"]),
        }
        return cls(**{**entry, **parts})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A point that could not be measured.

    Args:
        key: of the point.
        reason: one line, e.g. `hang: no answer in 60 s`.
    """

    key: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """The object in JSON; `lost` tells it from a measurement's."""
        return {"key": self.key, "lost": self.reason}


Outcome = Measurement | Lost


def outcome_from_dict(entry: Mapping[str, Any]) -> Outcome:
    """The measurement, or lost point, of a JSON object. Raises: KeyError, TypeError: it is neither."""
    return Lost(key=entry["key"], reason=entry["lost"]) if "lost" in entry else Measurement.from_dict(entry)
