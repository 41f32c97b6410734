"""Launches of a user's function, predicted beside measured: quantity by quantity, each with its verdict."""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from ...simulator import units
from ...simulator.prediction.kernel_row import KernelRow
from ...simulator.prediction.kernels import KernelsPrediction
from ..compare.quantities import Compared, Quantity
from .measured import MeasuredFunction, MeasuredLaunch

LEAST_READ_BYTES, LEAST_WRITTEN_BYTES = 1_000_000, 20_000_000
"""Bytes of HBM below which errors are told but not judged: page tables and the profiler's own traffic weigh as much;
some of the bytes written stay in L2 or not, by chance [B]."""


@dataclass(frozen=True, slots=True)
class LaunchQuantity(Quantity):
    """What is compared of a launch.

    Args:
        title, text: as of any quantity.
        name: field in JSON.
        predicted: where a `KernelRow` has it.
        measured: where a `MeasuredLaunch` has it, or the field of its counters that does.
        limit: largest size of the relative error that passes; what predictions must reach on 85 to 95 % of launches.
        least: measured values below are not judged.
    """

    name: str
    predicted: str
    measured: str
    limit: float = 0.0
    least: float = 0.0

    def of(self, row: KernelRow, measured: MeasuredLaunch) -> "Judged":
        """The quantity of a launch."""
        said, counters = float(attrgetter(self.predicted)(row)), measured.launch.counters
        seen = attrgetter(self.measured)(measured) if "." in self.measured else counters.get(self.measured)
        return Judged(said, None if seen is None else float(seen), self)


whole = "{:,.0f}".format
"""A count as text."""
QUANTITIES = (
    # What the compiler decides has to be equal.
    *(
        LaunchQuantity(title, text, name, f"prediction.{name}", f"launch.{name}")
        for name, title, text in (
            ("registers_per_thread", "registers", whole),
            ("smem_bytes_per_cta", "shared memory", units.traffic),
            ("spilled_bytes_per_thread", "spills", units.traffic),
        )
    ),
    LaunchQuantity(
        "executed instructions", whole, "executed_instructions", "executed_instructions", "instructions", limit=0.001
    ),
    *(
        LaunchQuantity(title, text, name, f"traffic.{name}", name, limit, least)
        for name, title, text, limit, least in (
            ("smem_fill_bytes", "bytes into SMs", units.traffic, 0.01, 0.0),
            ("hbm_read_bytes", "HBM read", units.traffic, 0.12, LEAST_READ_BYTES),
            ("hbm_write_bytes", "HBM written", units.traffic, 0.15, LEAST_WRITTEN_BYTES),
            ("time_s", "time, counted", units.duration, 0.12, 0.0),
        )
    ),
    LaunchQuantity(
        "time, replayed", units.duration, "replayed_time_s", "traffic.time_s", "timing.median_s", limit=0.12
    ),
)


@dataclass(frozen=True, slots=True)
class Judged(Compared):
    """One quantity of one launch, with its verdict.

    Args:
        quantity: what is compared.
        predicted, measured: its values; measured is None where it was not counted.
    """

    predicted: float
    measured: float | None
    quantity: LaunchQuantity

    @property
    def verdict(self) -> str:
        """`pass`, `FAIL`, `small` (too little to be judged) or `not counted`."""
        if self.measured is None:
            return "not counted"
        if max(self.measured, self.predicted) < self.quantity.least:
            return "small"
        return "pass" if abs(self.relative_error or 0.0) <= self.quantity.limit else "FAIL"

    def to_dict(self) -> dict[str, Any]:
        """The object in JSON."""
        values = {"predicted": self.predicted, "measured": self.measured, "error": self.finite_error}
        return values | {"limit": self.quantity.limit, "verdict": self.verdict}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLaunch:
    """One launch.

    Args:
        row: its prediction.
        measured: what the GPU did.
        values: in order of `QUANTITIES`.
    """

    row: KernelRow
    measured: MeasuredLaunch
    values: tuple[Judged, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFunction:
    """All launches of a function.

    Args:
        prediction: of all of them.
        measured: of those that were measured.
        launches: those that were predicted.
    """

    prediction: KernelsPrediction
    measured: MeasuredFunction
    launches: tuple[ComparedLaunch, ...]


def compare_function(prediction: KernelsPrediction, measured: MeasuredFunction) -> ComparedFunction:
    """Hold measured launches against predicted ones, which are the same, in the same order.

    Raises:
        ValueError: they are not; one line.
    """
    rows = [row for row in prediction.rows if row.prediction]
    ran = [launch.launch for launch in measured.launches]
    both = [[f"{launch.name} {'x'.join(map(str, launch.grid))}" for launch in every] for every in (ran, rows)]
    if both[0] != both[1]:
        raise ValueError("measured were {}; predicted are {}".format(*(", ".join(texts) or "none" for texts in both)))
    launches = [
        ComparedLaunch(row=row, measured=launch, values=tuple(quantity.of(row, launch) for quantity in QUANTITIES))
        for row, launch in zip(rows, measured.launches, strict=True)
    ]
    return ComparedFunction(prediction=prediction, measured=measured, launches=tuple(launches))
