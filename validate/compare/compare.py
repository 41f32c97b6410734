"""Predicted beside measured: pairs of one quantity each, their signed relative errors, and statistics over points.

What is compared must be the same thing. Both sides start a pipeline's first launch with an L2 that is empty (`cold`) or
as the same pipeline left it (`warm`), and each later launch with what the one before left there.
Counters add up over the launches of a point; time runs from the first launch to the end of the last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from statistics import fmean, median
from typing import Any

import numpy as np

from ...simulator import units
from ...simulator.prediction.prediction import BURST_S, Prediction
from ...simulator.refusal import Refusal
from ...simulator.traffic import Traffic
from ..measure.results_file import Row
from ..measurement import Lost, Measurement, Plain
from ..points.point import Point
from .quantities import Pair, Quantity

QUANTITIES = {
    "smem_fill_bytes": Quantity("bytes into the SMs", units.traffic),
    "l2_read_bytes": Quantity("bytes read from L2", units.traffic),
    "l2_write_bytes": Quantity("bytes written to L2", units.traffic),
    "fabric_bytes": Quantity("bytes between L2 partitions", units.traffic),
    "hbm_read_bytes": Quantity("bytes read from HBM", units.traffic),
    "hbm_write_bytes": Quantity("bytes written to HBM", units.traffic),
    "cycles": Quantity("cycles", units.count),
    "time_s": Quantity("time", units.duration),
    "clock_hz": Quantity("SM clock", units.clock),
    "peak_memory_bytes": Quantity("peak memory", units.capacity),
}
"""Field in JSON -> what it is."""
COUNTED = tuple(QUANTITIES)[:7]
"""Fields of `Traffic` that hardware counters measure."""
LEAST_BYTES = 1e6
"""Flows below a megabyte on both sides are noise of the counters (page tables, instruction fetches) [B]."""
WITHIN = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One point, predicted beside measured.

    Args:
        point: what was asked for.
        prediction: None where nothing could be predicted.
        outcome: of the row.
        reason: why nothing could be predicted; else empty.
        pairs: quantity -> pair, for those that both sides have.
        launches: per launch its name and pairs.
    """

    point: Point
    prediction: Prediction | None
    outcome: Measurement | Lost
    reason: str = ""
    pairs: Mapping[str, Pair]
    launches: tuple[tuple[str, Mapping[str, Pair]], ...] = ()

    @property
    def objections(self) -> tuple[str, ...]:
        """Why this point does not count in statistics, one line each; empty where it does."""
        if isinstance(self.outcome, Lost):
            return (self.outcome.reason,)
        objections = (*self.outcome.doubts, *((self.reason,) if self.reason else ()))
        if not objections and not self.outcome.oracle_error <= 1.0:
            return (f"outputs wrong: their error is {self.outcome.oracle_error:.3g} of what is allowed",)
        if not objections and self.prediction and self.prediction.lower_bound:
            return ("a lower bound: CTAs wait for each other, which is not predicted",)
        return objections

    @property
    def noise(self) -> str:
        """Of the times; empty where there are none."""
        timing = self.outcome.timing if isinstance(self.outcome, Measurement) else None
        return timing.noise if timing else ""

    def errors(self) -> dict[str, float]:
        """Quantity -> signed relative error, flows of next to nothing left out."""
        return {name: pair.relative_error for name, pair in self.pairs.items() if counts(name, pair)}

    def to_dict(self) -> dict[str, Any]:
        """The point's object in `validate --json`."""
        return {
            "key": self.point.key,
            "half": self.point.half,
            **self.point.to_dict(),
            "objections": list(self.objections),
            "compared": {name: pair.to_dict() for name, pair in self.pairs.items()},
            "launches": [
                {"name": name, "compared": {key: pair.to_dict() for key, pair in pairs.items()}}
                for name, pairs in self.launches
            ],
            "predicted": self.prediction and self.prediction.to_dict(),
            "measured": self.outcome.to_dict(),
        }


def counts(name: str, pair: Pair) -> bool:
    """Whether an error of this pair says something."""
    return not name.endswith("_bytes") or max(pair.predicted, pair.measured) >= LEAST_BYTES


def compare(row: Row, prediction: Prediction | Refusal | None) -> Comparison:
    """Hold a row against its prediction. Args: prediction: or why there is none; None where nothing was measured."""
    if isinstance(row.outcome, Lost):
        return Comparison(point=row.point, prediction=None, outcome=row.outcome, pairs={})
    if prediction is None or isinstance(prediction, Refusal):
        reason = prediction.reason if prediction else "not predicted"
        return Comparison(point=row.point, prediction=None, outcome=row.outcome, reason=reason, pairs={})
    measured = row.outcome
    launches = tuple(
        (predicted.name, _counted_pairs(predicted.traffic, ran.counters))
        for predicted, ran in zip(prediction.launches, measured.launches, strict=True)
    )
    pairs = {}
    for name in COUNTED:
        parts = [of_launch.get(name) for _, of_launch in launches]
        known = [part for part in parts if part]
        if len(known) == len(parts):
            pairs[name] = Pair(sum(part.predicted for part in known), sum(part.measured for part in known))
    timing = measured.timing
    if timing:
        if "cycles" not in pairs and timing.cycles:
            pairs["cycles"] = Pair(prediction.total.cycles, timing.cycles)
        # Who needs many samples measures what power sustains.
        lasting = timing.median_s * timing.samples > BURST_S
        time_s = prediction.sustained_time_s if lasting else prediction.time_s
        pairs["time_s"] = Pair(time_s, timing.median_s)
        clock_hz = timing.clock_hz if lasting else _counted_clock_hz(measured) or timing.clock_hz
        if clock_hz:
            pairs["clock_hz"] = Pair(prediction.clock_hz * prediction.time_s / time_s, clock_hz)
    pairs["peak_memory_bytes"] = Pair(float(prediction.peak_memory_bytes), float(measured.peak_memory_bytes))
    return Comparison(point=row.point, prediction=prediction, outcome=measured, pairs=pairs, launches=launches)


def _counted_pairs(traffic: Traffic, counters: Mapping[str, float]) -> dict[str, Pair]:
    return {name: Pair(float(getattr(traffic, name)), counters[name]) for name in COUNTED if name in counters}


def _counted_clock_hz(measured: Measurement) -> float:
    """Clock of the launches alone, while they were counted [Hz]; 0 where it is not known.

    The clock sampled beside the times holds the flushes between them as well, which run without products.
    """
    counters = [launch.counters for launch in measured.launches]
    if not counters or not all(fields.get("cycles") and fields.get("time_s") for fields in counters):
        return 0.0
    return sum(fields["cycles"] for fields in counters) / sum(fields["time_s"] for fields in counters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """Errors of one quantity over points.

    Args:
        quantity; points: how many it was compared on.
        bias: mean of the signed errors.
        median, mean, p95, worst: of their sizes.
        within: share of sizes up to 10 %.
        worst_key: point of the worst.
        worst_error: its signed error.
    """

    quantity: str
    points: int
    bias: float
    median: float
    mean: float
    p95: float
    within: float
    worst_key: str
    worst_error: float

    @property
    def worst(self) -> float:
        """Size of the worst error."""
        return abs(self.worst_error)

    def to_dict(self) -> dict[str, Any]:
        """The statistic's object in JSON; figures that are infinite are null."""
        return {name: None if value in (inf, -inf) else value for name, value in asdict(self).items()}


def statistics(named_errors: Sequence[tuple[str, float]], quantity: str) -> Statistic | None:
    """Statistics of one quantity. Args: named_errors: key -> signed error, pairwise. Returns: None without errors."""
    if not named_errors:
        return None
    sizes = [abs(error) for _, error in named_errors]
    worst_key, worst_error = max(named_errors, key=lambda named: abs(named[1]))
    return Statistic(
        quantity=quantity,
        points=len(sizes),
        bias=fmean(error for _, error in named_errors),
        median=median(sizes),
        mean=fmean(sizes),
        # A quantile between a number and infinity is no number; the next larger size is an honest one.
        p95=float(np.quantile(sizes, 0.95, method="higher")),
        within=sum(size <= WITHIN for size in sizes) / len(sizes),
        worst_key=worst_key,
        worst_error=worst_error,
    )


def all_statistics(comparisons: Sequence[Comparison]) -> dict[str, Statistic]:
    """Quantity -> statistics over the points that count, for those quantities that were compared."""
    trusted = [comparison for comparison in comparisons if not comparison.objections]
    every = {}
    for quantity in QUANTITIES:
        named = [
            (comparison.point.key, errors[quantity])
            for comparison in trusted
            if quantity in (errors := comparison.errors())
        ]
        statistic = statistics(named, quantity)
        if statistic:
            every[quantity] = statistic
    return every


LEAST_RANKED = 5
"""Configurations of a shape from which on their order says something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(Plain):
    """How well the model orders the configurations of one shape by time.

    Args:
        name: schedule/shape/l2.
        configs: how many.
        spearman: rank correlation of predicted and measured times.
        regret: measured time of the configuration that the model ranks first, over the best measured time.
        mean: MAPE of the times.
    """

    name: str
    configs: int
    spearman: float
    regret: float
    mean: float


def rankings(comparisons: Sequence[Comparison]) -> list[Ranking]:
    """One for every schedule and shape with `LEAST_RANKED` configurations or more that count."""
    groups: dict[str, list[Pair]] = {}
    for comparison in comparisons:
        if not comparison.objections and "time_s" in comparison.pairs:
            name = f"{comparison.point.schedule}/{comparison.point.shape}/{comparison.point.l2}"
            groups.setdefault(name, []).append(comparison.pairs["time_s"])
    ranked = []
    for name, pairs in groups.items():
        if len(pairs) < LEAST_RANKED:
            continue
        predicted, measured = np.array([(pair.predicted, pair.measured) for pair in pairs]).T
        ranked.append(
            Ranking(
                name=name,
                configs=len(pairs),
                spearman=spearman(predicted, measured),
                regret=float(measured[predicted.argmin()] / measured.min()),
                mean=float(np.abs(predicted / measured - 1).mean()),
            )
        )
    return ranked


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Rank correlation of two samples (float64, shape (n,)), equal values sharing their mean rank; 0 where constant."""
    x, y = _ranks(first), _ranks(second)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, counts_of = np.unique(values, return_inverse=True, return_counts=True)
    mean_rank: np.ndarray = np.cumsum(counts_of) - (counts_of - 1) / 2
    return mean_rank[place]
