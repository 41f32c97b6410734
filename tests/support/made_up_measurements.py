"""Measurements made up for tests of what is done with them; no GPU runs."""

from dataclasses import replace

from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Resources
from tilesight.simulator.prediction.prediction import Prediction
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import simulate
from tilesight.validate.compare.campaign import Validation
from tilesight.validate.compare.compare import COUNTED, Comparison, compare
from tilesight.validate.measure.results_file import Header, Row
from tilesight.validate.measurement import MEASURED, LaunchMeasurement, Lost, Machine, Measurement, Timing
from tilesight.validate.points.point import Point, runnable_config

H200 = load_device("h200")
MACHINE = Machine(
    gpu="NVIDIA H200",
    capability="9.0",
    sm_count=132,
    driver="580.1",
    torch="2.11",
    triton="3.6.0",
    ncu="2025.3.1",
    date="2026-11-21",
    commit="abc",
)
HEADER = Header(machine=MACHINE, device="h200")
PROBLEM = AttentionProblem(batch=1, heads=2, seqlen_q=256, seqlen_k=256, head_dim=64)


def a_point(
    schedule: str = "flash2", problem: AttentionProblem = PROBLEM, l2: str = "cold", **options: object
) -> Point:
    """A small point."""
    return Point(schedule=schedule, problem=problem, config=runnable_config(schedule, **options), l2=l2)


def some_points(count: int) -> list[Point]:
    """So many different points."""
    return [a_point(problem=replace(PROBLEM, batch=1 + number)) for number in range(count)]


def a_timing(median_s: float = 1e-3, l2: str = "cold", noise: str = "quiet") -> Timing:
    """A timing around a median."""
    return Timing(
        l2=l2,  # type: ignore[arg-type]
        median_s=median_s,
        low_s=0.99 * median_s,
        high_s=1.01 * median_s,
        confidence=0.95,
        samples=20,
        fastest_s=0.98 * median_s,
        slowest_s=1.1 * median_s,
        clock_hz=1.5e9,
        cycles=1.5e9 * median_s,
        noise=noise,  # type: ignore[arg-type]
    )


def predicted(point: Point) -> Prediction:
    """What the model says of a point, as `validate` asks it."""
    return simulate(
        point.problem, schedule=point.schedule, config=point.config, device=H200, l2=point.l2, overhead="graph"
    )


def measured(
    point: Point, prediction: Prediction, off: dict[str, float] | None = None, counted: bool = True, **changes: object
) -> Row:
    """A row that agrees with a prediction, but for quantities that are off by a relative error.

    Args:
        off: quantity -> error that the prediction is to have, e.g. 0.1 where it is 10 % too high.
        changes: fields of the measurement to replace.
    """
    wrong = off or {}

    def seen(name: str, value: float) -> float:
        return value / (1 + wrong.get(name, 0.0))

    launches = tuple(
        LaunchMeasurement(
            name=launch.name,
            grid=launch.grid,
            num_warps=launch.num_warps,
            registers_per_thread=launch.registers_per_thread,
            spilled_bytes_per_thread=0,
            smem_bytes_per_cta=launch.smem_bytes_per_cta,
            counters={name: seen(name, getattr(launch.traffic, name)) for name in COUNTED} if counted else {},
        )
        for launch in prediction.launches
    )
    outcome = Measurement(
        key=point.key,
        timing=a_timing(seen("time_s", prediction.time_s), point.l2),
        launches=launches,
        peak_memory_bytes=round(seen("peak_memory_bytes", prediction.peak_memory_bytes)),
        oracle_error=0.4,
        counters=MEASURED if counted else "ncu is not installed",
    )
    resources = tuple(
        Resources(
            registers_per_thread=launch.registers_per_thread,
            smem_bytes_per_cta=launch.smem_bytes_per_cta,
            origin="compiled",
        )
        for launch in prediction.launches
    )
    return Row(point=point, resources=resources, outcome=replace(outcome, **changes))  # type: ignore[arg-type]


def compared(point: Point, off: dict[str, float] | None = None, **changes: object) -> Comparison:
    """A point held against its own prediction, off as told."""
    prediction = predicted(point)
    return compare(measured(point, prediction, off, **changes), prediction)


def lost(point: Point, reason: str) -> Comparison:
    """A point without a measurement."""
    return compare(Row(point=point, resources=(), outcome=Lost(key=point.key, reason=reason)), "not predicted")


def a_validation(*comparisons: Comparison, notes: tuple[str, ...] = ()) -> Validation:
    """A validation of these."""
    return Validation(header=HEADER, device=H200, comparisons=comparisons, notes=notes)
