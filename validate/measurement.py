"""What a GPU said: frozen values that the worker fills, the results file keeps, and the comparison reads.

A point that was asked for becomes a `Measurement`, or `Lost` where nothing could be measured; both are JSON objects.
Nothing here needs a GPU, torch or triton.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import Any, Literal

MEASURED = "measured"
"""What `Measurement.counters` says where there are counters; everything else is the reason why there are none."""
OUT_OF_MEMORY = "out of memory"


def reason_in(answer: Mapping[str, Any]) -> str:
    """Why a process on a GPU has no figures for a job, in one line. Args: answer: as `measure.worker` gives it."""
    return OUT_OF_MEMORY if answer.get("out_of_memory") else str(answer["lost"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where and with what something was measured.

    Args:
        gpu: product name, as the driver reports it; capability: compute capability, e.g. `9.0`.
        sm_count: SMs of the GPU.
        driver, torch, triton, ncu: versions; ncu is empty where there is none.
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

    def to_dict(self) -> dict[str, Any]:
        """The machine's object in JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> "Machine":
        """The machine of a JSON object. Raises: TypeError: a field is missing or unknown."""
        return cls(**entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long a point takes, all launches of its pipeline together.

    Args:
        l2: `cold` (flushed before every sample, the flush not timed) or `warm`.
        median_s, low_s, high_s: median of the samples, and the ends of its confidence interval [s].
        confidence: of that interval.
        samples: how many; fastest_s, slowest_s: the ends of them [s].
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

    def to_dict(self) -> dict[str, Any]:
        """The timing's object in JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> "Timing":
        """The timing of a JSON object. Raises: TypeError: a field is missing or unknown."""
        return cls(**entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchMeasurement:
    """One kernel launch as it ran.

    Args:
        name: of the `Launch`; grid: CTAs along x, y, z.
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

    def to_dict(self) -> dict[str, Any]:
        """The launch's object in JSON."""
        return asdict(self) | {"grid": list(self.grid)}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> "LaunchMeasurement":
        """The launch of a JSON object. Raises: KeyError, TypeError: a field is missing or unknown."""
        return cls(**{**entry, "grid": tuple(entry["grid"])})


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
        """The measurement's object in JSON."""
        return {
            "key": self.key,
            "timing": self.timing and self.timing.to_dict(),
            "launches": [launch.to_dict() for launch in self.launches],
            "peak_memory_bytes": self.peak_memory_bytes,
            "oracle_error": self.oracle_error if isfinite(self.oracle_error) else None,  # JSON has no infinity
            "doubts": list(self.doubts),
            "counters": self.counters,
            "spent_s": self.spent_s,
        }

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
    """A point that could not be measured. Args: key: of the point; reason: one line, e.g. `hang: no answer in 60 s`."""

    key: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """The object in JSON; `lost` tells it from a measurement's."""
        return {"key": self.key, "lost": self.reason}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> "Lost":
        """The lost point of a JSON object. Raises: KeyError: a field is missing."""
        return cls(key=entry["key"], reason=entry["lost"])


Outcome = Measurement | Lost


def outcome_from_dict(entry: Mapping[str, Any]) -> Outcome:
    """The measurement, or lost point, of a JSON object. Raises: KeyError, TypeError: it is neither."""
    return Lost.from_dict(entry) if "lost" in entry else Measurement.from_dict(entry)
