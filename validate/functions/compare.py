"""Launches of a user's function, predicted beside measured: quantity by quantity, each with its verdict."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...simulator.prediction.kernel_row import KernelRow
from ...simulator.prediction.kernels import KernelsPrediction
from .measured import MeasuredFunction, MeasuredLaunch

LEAST_READ_BYTES, LEAST_WRITTEN_BYTES = 1_000_000, 20_000_000
"""Bytes of HBM below which errors are told but not judged: page tables and the profiler's own traffic weigh as much;
of bytes written so many stay behind in L2, or do not, as chance will [B]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What is compared.

    Args:
        name: field in JSON; title: for people; kind: `bytes`, `count` or `time`.
        limit: largest size of the relative error that passes; what predictions must reach on 85 to 95 % of launches.
        predicted, measured: of a launch; measured is None where nobody counted it.
        least: measured values below are not judged.
    """

    name: str
    title: str
    kind: str
    limit: float
    predicted: Callable[[KernelRow], float]
    measured: Callable[[MeasuredLaunch], float | None]
    least: float = 0.0


def _counter(field: str) -> Callable[[MeasuredLaunch], float | None]:
    return lambda measured: measured.launch.counters.get(field)


def _resource(field: str) -> tuple[Callable[[KernelRow], float], Callable[[MeasuredLaunch], float | None]]:
    return lambda row: float(getattr(row.prediction, field)), lambda measured: float(getattr(measured.launch, field))


def _quantity(name: str, title: str, kind: str, limit: float, least: float = 0.0) -> Quantity:
    """One that is of the traffic, under one name there and among the counters."""
    return Quantity(
        name=name,
        title=title,
        kind=kind,
        limit=limit,
        predicted=lambda row: float(getattr(row.traffic, name)),
        measured=_counter(name),
        least=least,
    )


def _compiled(name: str, title: str, kind: str) -> Quantity:
    """One that the compiler decides, which has to be equal."""
    predicted, measured = _resource(name)
    return Quantity(name=name, title=title, kind=kind, limit=0.0, predicted=predicted, measured=measured)


QUANTITIES = (
    _compiled("registers_per_thread", "registers", "count"),
    _compiled("smem_bytes_per_cta", "shared memory", "bytes"),
    _compiled("spilled_bytes_per_thread", "spills", "bytes"),
    Quantity(
        name="executed_instructions",
        title="executed instructions",
        kind="count",
        limit=0.001,
        predicted=lambda row: float(row.executed_instructions),
        measured=_counter("instructions"),
    ),
    _quantity("smem_fill_bytes", "bytes into SMs", "bytes", 0.01),
    _quantity("hbm_read_bytes", "HBM read", "bytes", 0.12, LEAST_READ_BYTES),
    _quantity("hbm_write_bytes", "HBM written", "bytes", 0.15, LEAST_WRITTEN_BYTES),
    _quantity("time_s", "time, counted", "time", 0.12),
    Quantity(
        name="replayed_time_s",
        title="time, replayed",
        kind="time",
        limit=0.12,
        predicted=lambda row: row.traffic.time_s,
        measured=lambda measured: measured.timing.median_s,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One quantity of one launch. Args: predicted, measured: values; measured is None where nobody counted it."""

    quantity: Quantity
    predicted: float
    measured: float | None

    @property
    def error(self) -> float | None:
        """Relative error of the prediction; None where nothing was measured, or nothing is there and some predicted."""
        if self.measured is None:
            return None
        if self.measured:
            return self.predicted / self.measured - 1.0
        return None if self.predicted else 0.0

    @property
    def verdict(self) -> str:
        """`pass`, `FAIL`, `small` (too little to be judged) or `not counted`."""
        if self.measured is None:
            return "not counted"
        if max(self.measured, self.predicted) < self.quantity.least:
            return "small"
        return "pass" if self.error is not None and abs(self.error) <= self.quantity.limit else "FAIL"

    def to_dict(self) -> dict[str, Any]:
        """The object in JSON."""
        return {
            "predicted": self.predicted,
            "measured": self.measured,
            "error": self.error,
            "limit": self.quantity.limit,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLaunch:
    """One launch. Args: row: its prediction; measured: what the GPU did; values: in order of `QUANTITIES`."""

    row: KernelRow
    measured: MeasuredLaunch
    values: tuple[Compared, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFunction:
    """All of them. Args: prediction; measured; launches: those that were predicted."""

    prediction: KernelsPrediction
    measured: MeasuredFunction
    launches: tuple[ComparedLaunch, ...]


def compare_function(prediction: KernelsPrediction, measured: MeasuredFunction) -> ComparedFunction:
    """Hold measured launches against predicted ones, which are the same, in the same order.

    Raises:
        ValueError: they are not; one line.
    """
    rows = [row for row in prediction.rows if row.prediction]
    predicted, ran = ([(launch.name, tuple(launch.grid)) for launch in every] for every in (rows, _ran(measured)))
    if predicted != ran:
        texts = (", ".join(f"{name} {'x'.join(map(str, grid))}" for name, grid in every) for every in (ran, predicted))
        raise ValueError("measured were {}; predicted are {}".format(*(text or "none" for text in texts)))
    return ComparedFunction(
        prediction=prediction,
        measured=measured,
        launches=tuple(
            ComparedLaunch(
                row=row,
                measured=launch,
                values=tuple(
                    Compared(quantity=quantity, predicted=quantity.predicted(row), measured=quantity.measured(launch))
                    for quantity in QUANTITIES
                ),
            )
            for row, launch in zip(rows, measured.launches, strict=True)
        ),
    )


def _ran(measured: MeasuredFunction) -> list[Any]:
    return [launch.launch for launch in measured.launches]
