"""One launch that a user's own code makes, and what was predicted of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import units
from ..traffic import Traffic
from .ceiling import Ceiling
from .prediction import LaunchPrediction
from .timing import EVENTS_S, TIMINGS, at_clock, in_graph


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRow:
    """One launch.

    Args:
        name: of the kernel; grid: CTAs along x, y, z; num_warps, num_stages: asked for.
        prediction: figures; ceiling: what bounds it; None: the launch was refused, and `refused` says why, in one line.
        do_bench: the same as `triton.testing.do_bench` sees it (see `timing`); None: not asked for.
        executed_instructions: that all warps issue; known_accesses, accesses: instructions that touch global memory,
            those whose addresses are known, and all.
        estimated_accesses: those of unknown address of which each lane is taken to touch a sector of its own;
        requested_bytes, estimated_bytes: that lanes ask for, in all, and by these [B];
        spilled_bytes_per_thread: registers that a thread spills [B]; `prediction` has its stack frame, arrays included;
        lower_bound: whether waits of CTAs for each other were left out, so that it takes the time at least;
        notes: remarks, one line each; label: configuration of an autotuned launch, where it is one.
        code: digest of its machine code and grid; empty where there is none.
        failed: whether it was refused as the program failed or ran out of time, so that the same kernel may yet be
            answered; else the device or the form of the kernel refuses it.
    """

    name: str
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int
    prediction: LaunchPrediction | None = None
    do_bench: LaunchPrediction | None = None
    ceiling: Ceiling | None = None
    executed_instructions: int = 0
    known_accesses: int = 0
    accesses: int = 0
    estimated_accesses: int = 0
    requested_bytes: int = 0
    estimated_bytes: int = 0
    lower_bound: bool = False
    spilled_bytes_per_thread: int = 0
    notes: tuple[str, ...] = ()
    label: str = ""
    refused: str | None = None
    failed: bool = False
    code: str = ""

    @property
    def traffic(self) -> Traffic:
        """Bytes, operations, cycles, time; nothing of a launch that was refused."""
        return self.prediction.traffic if self.prediction else Traffic()

    def measured_as(self, timing: str) -> "KernelRow":
        """The launch as it is measured; refused where it is not predicted so. Args: timing: one of `TIMINGS`."""
        if timing == "single" or self.prediction is None:
            return self
        if timing == "graph":
            lacks = f"kernel {self.name}: its time in a CUDA graph is not predicted: graph_gap_s of the device is 0"
            measured = in_graph(self.prediction)
            return replace(self, prediction=measured, refused=self.refused if measured else lacks)
        if timing == "do_bench":
            lacks = f"kernel {self.name}: its time as do_bench shows it is not predicted"
            return replace(self, prediction=self.do_bench, refused=self.refused if self.do_bench else lacks)
        return replace(self, prediction=at_clock(self.prediction, self.prediction.sustained_clock_hz))

    @property
    def missing_accesses(self) -> int:
        """Accesses that were left out."""
        return self.accesses - self.known_accesses - self.estimated_accesses

    @property
    def cost_doubt(self) -> str:
        """Why its cycles do not come from its machine code, in one line; empty where they do, or it is refused."""
        if not self.prediction or self.prediction.cost == "compiled":
            return ""
        reason = self.prediction.cost.removeprefix("tiles: ")
        return f"kernel {self.name}: cycles estimated from tile sizes, its time is a guess: {reason}"

    @property
    def time_text(self) -> str:
        """Its time for people; `>= 132 us` where it is a lower bound."""
        return f"{'>= ' if self.lower_bound else ''}{units.duration(self.traffic.time_s)}"

    @property
    def roofline_multiple(self) -> float:
        """Its time over the roofline's; 0 where nothing bounds it."""
        return self.ceiling.multiple(self.traffic.time_s) if self.ceiling else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The launch's object in `predict --json`; figures of a launch that was refused are null."""
        launch, ceiling = self.prediction, self.ceiling
        return {
            "name": self.name,
            "grid": list(self.grid),
            "num_warps": launch.num_warps if launch else self.num_warps,
            "num_stages": self.num_stages,
            "registers_per_thread": launch.registers_per_thread if launch else None,
            "spilled_bytes_per_thread": self.spilled_bytes_per_thread if launch else None,
            "smem_bytes_per_cta": launch.smem_bytes_per_cta if launch else None,
            "executed_instructions": self.executed_instructions if launch else None,
            "traffic": launch.traffic.to_dict() if launch else None,
            "clock_hz": launch.clock_hz if launch else None,
            "do_bench_time_s": self.do_bench.traffic.time_s if self.do_bench else None,
            "sustained_clock_hz": launch.sustained_clock_hz if launch else None,
            "bottleneck": launch.bottleneck if launch else None,
            "causes": dict(launch.causes) if launch else None,
            "global_smem_fraction": launch.global_smem_fraction if launch else None,
            "peaks": ceiling.peaks if ceiling else None,
            "ctas_per_sm": launch.ctas_per_sm if launch else None,
            "occupancy_fraction": launch.occupancy_fraction if launch else None,
            "occupancy_limit": launch.occupancy_limit if launch else None,
            "compulsory_read_bytes": ceiling.compulsory_read_bytes if ceiling else None,
            "compulsory_write_bytes": ceiling.compulsory_write_bytes if ceiling else None,
            "roofline_s": ceiling.bound_s if ceiling else None,
            "roofline_limit": ceiling.limit if ceiling else None,
            "roofline_multiple": self.roofline_multiple if ceiling else None,
            "tensors": [tensor.to_dict() for tensor in ceiling.tensors] if ceiling else None,
            "known_accesses": self.known_accesses if launch else None,
            "accesses": self.accesses if launch else None,
            "estimated_accesses": self.estimated_accesses if launch else None,
            "estimated_bytes": self.estimated_bytes if launch else None,
            "lower_bound": self.lower_bound if launch else None,
            "notes": list(self.notes),
            "refused": self.refused,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTime:
    """A line of source, and where the time of all warps goes.

    Args:
        file, number: of the line; time_fraction: of the time, spent at it; awaited_fraction: waited for its results
            elsewhere; reason: what warps do there most, one of `explanation.REASONS`.
    """

    file: str
    number: int
    time_fraction: float
    awaited_fraction: float
    reason: str


def times_of(rows: Sequence[KernelRow]) -> dict[str, tuple[float, float]]:
    """How time is measured -> time of all rows that were predicted [s], and their mean clock [Hz].

    Args:
        rows: as single runs; `do_bench` and `graph` are left out where one of them lacks it.
    """
    times: dict[str, tuple[float, float]] = {}
    for timing in TIMINGS:
        measured = [row.measured_as(timing).prediction for row in rows if row.prediction]
        launches = [launch for launch in measured if launch]
        if launches and len(launches) == len(measured):
            time_s = sum(launch.traffic.time_s for launch in launches) + (EVENTS_S if timing == "do_bench" else 0.0)
            kernels_s = sum(launch.traffic.time_s - launch.overhead_s for launch in launches)
            times[timing] = time_s, sum(launch.traffic.cycles for launch in launches) / kernels_s
    return times


def fastest_first(rows: Sequence[KernelRow]) -> list[int]:
    """Places of the rows in the order of their times; last those that are not predicted.

    Of equal times, as far as a ten-thousandth, the one that is named first wins: on any machine the same.
    """

    def order(place: int) -> tuple[bool, float, int]:
        row = rows[place]
        return (row.prediction is None, float(f"{row.traffic.time_s:.4g}"), place)

    return sorted(range(len(rows)), key=order)


def same_code(labelled: Sequence[tuple[str, KernelRow]]) -> str:
    """Which configurations nothing can tell apart: their machine code is the same; empty where all differ.

    Args:
        labelled: label and row of each.
    """
    by_code: dict[str, list[str]] = {}
    for label, row in labelled:
        by_code.setdefault(row.code or label, []).append(label)
    shared = next((labels for labels in by_code.values() if len(labels) > 1), [])
    if not shared:
        return ""
    return (
        f"{len(labelled)} configurations are {len(by_code)} machine codes: {' and '.join(shared[:2])} are the same one,"
        " and take the same time"
    )
