"""One configuration of a ranked space: its prediction, the band of its time, and its marks in the table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from .. import units
from ..display.words import short_config
from ..launch.program import Resources
from ..prediction.prediction import Prediction
from ..refusal import Kind
from ..schedules.config import Config

ERROR_FRACTIONS = {"compiled": 0.05, "tiles": 0.19}
"""Where the cycles of a step come from -> mean absolute error of the time, from which bands are drawn.

`compiled`: 4.5 % over 375 held-out points on an H200, 4.6 % over 87 on an H100, 4.3 % over 916 blind ones of schedules
whose programs are found in machine code as well; `tiles`: 14.6 % over the 249 of seed 2, 18.5 % over the 114 of seed 8.
Source: docs/accuracy.md.
"""
TOTAL_KEYS = (
    "time_s",
    "bottleneck",
    "bottleneck_share",
    "matmul_flop",
    "executed_flop",
    "matmul_flop_per_s",
    "hbm_read_bytes",
    "hbm_write_bytes",
    "l2_read_bytes",
    "l2_write_bytes",
    "l2_hit_fraction",
    "fabric_bytes",
    "smem_fill_bytes",
    "smem_read_bytes",
    "smem_write_bytes",
    "peak_memory_bytes",
)
"""Figures of all launches together."""
LAUNCH_KEYS = (
    "ctas_per_sm",
    "occupancy_fraction",
    "waves",
    "registers_per_thread",
    "spilled_bytes_per_thread",
    "kv_under_way_bytes",
    "l2_fit",
    "smem_bytes_per_cta",
    "resources",
    "cost",
)
"""Figures of the launch that takes longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One configuration of a schedule and what became of it.

    Args:
        schedule: name; config: choices; options: those of them that the schedule reads.
        resources: of each launch, in the place of the estimates; None leaves the estimates.
        prediction: None where it cannot run on the device at all.
        reason: why it does not fit, in one line; empty where it does; kind: of the reason, as of `Refusal`.
        pareto: whether no other that fits is at least as good in time, SRAM fill and HBM bytes, and better in one.
        like_best: whether its band of times meets that of the best.
        least_s: what it takes at least, where it was not simulated, as so many are faster as were asked for [s].
    """

    schedule: str
    config: Config
    options: tuple[str, ...]
    resources: tuple[Resources, ...] | None = None
    prediction: Prediction | None = None
    reason: str = ""
    kind: Kind | None = None
    pareto: bool = False
    like_best: bool = False
    least_s: float | None = None

    def __repr__(self) -> str:
        """One line: the configuration, and what became of it."""
        return f"<Candidate: {self.schedule} {short_config(self.config)}: {self.summary}>"

    @property
    def summary(self) -> str:
        """What became of it, e.g. `1.02 ms, bound by issue 95 %`, or why it does not fit."""
        if self.reason:
            return self.reason if self.is_unanswered else f"does not fit: {self.reason}"
        if self.prediction:
            return self.prediction.summary
        return f"at least {units.duration(self.least_s)}, not simulated" if self.least_s else "not simulated"

    @property
    def is_unanswered(self) -> bool:
        """Whether it took longer than it may, or no time was left for it."""
        return self.kind == "takes too long"

    @property
    def fits(self) -> bool:
        """Whether it runs on the device."""
        return not self.reason

    @property
    def is_estimated(self) -> bool:
        """Whether cycles of a launch come from no machine code: the time is known to the wider band alone."""
        return self.prediction is not None and is_estimated(self.prediction)

    @property
    def may_spill(self) -> bool:
        """Whether it spills by the estimate from tiles, which does not know how much that costs."""
        launches = self.prediction.launches if self.prediction else ()
        return any(launch.resources == "estimated" and launch.spilled_bytes_per_thread > 0 for launch in launches)

    @property
    def costs(self) -> tuple[float, int, int]:
        """What Pareto marks weigh: time [s], bytes into the SMs [B], bytes at HBM [B]."""
        if self.prediction is None:
            return self.least_s or inf, 0, 0
        total = self.prediction.total
        return total.time_s, total.smem_fill_bytes, total.hbm_bytes

    @property
    def band_s(self) -> tuple[float, float] | None:
        """Times that the mean error leaves open [s]; None where it does not run, or its time is a lower bound."""
        return None if self.prediction is None or self.prediction.lower_bound else band_of(self.prediction)

    def config_dict(self) -> dict[str, int | str]:
        """The options that the schedule reads, with their values."""
        return {name: getattr(self.config, name) for name in self.options}

    def to_dict(self) -> dict[str, object]:
        """The object in `explore --json`; figures are null where it cannot run."""
        figures: dict[str, object] = {
            "schedule": self.schedule,
            "config": self.config_dict(),
            "fits": self.fits,
            "reason": self.reason,
            "pareto": self.pareto,
        }
        low_s, high_s = self.band_s or (None, None)
        figures |= {"time_low_s": low_s, "time_high_s": high_s, "like_best": self.like_best if self.band_s else None}
        if self.prediction is None:
            return figures | dict.fromkeys((*TOTAL_KEYS, *LAUNCH_KEYS))
        total = self.prediction.total_dict()
        launch = self.prediction.longest_launch.to_dict()
        return figures | {key: total[key] for key in TOTAL_KEYS} | {key: launch[key] for key in LAUNCH_KEYS}


def is_estimated(prediction: Prediction) -> bool:
    """Whether cycles of a launch come from no machine code."""
    return any(launch.cost != "compiled" for launch in prediction.launches)


def error_kinds(prediction: Prediction) -> list[str]:
    """Key of `ERROR_FRACTIONS` of each launch."""
    return [launch.cost.split(":")[0] for launch in prediction.launches]


def band_of(prediction: Prediction) -> tuple[float, float]:
    """Times that the mean error of each launch leaves open [s]."""
    times_s = [launch.traffic.time_s for launch in prediction.launches]
    errors = [ERROR_FRACTIONS[kind] for kind in error_kinds(prediction)]
    open_s = sum(time_s * error for time_s, error in zip(times_s, errors, strict=True))
    return sum(times_s) - open_s, sum(times_s) + open_s


def broken_notes(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """How many are out as no device could keep what was predicted, and the first of these to report; in one line."""
    broken = [candidate.reason for candidate in candidates if candidate.kind == "impossible"]
    return (f"{len(broken)} of {len(candidates)} configurations left out: {broken[0]}",) if broken else ()


def bound_notes(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """How many times are lower bounds, in one line."""
    bounds = sum(bool(candidate.prediction and candidate.prediction.lower_bound) for candidate in candidates)
    what = "times are lower bounds: CTAs wait for each other, which is not predicted"
    return (f"{bounds} of {len(candidates)} {what}",) if bounds else ()


def mark_pareto(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same candidates, with those marked that no other beats in time, SRAM fill and HBM bytes together."""
    fitting = [candidate.costs for candidate in candidates if candidate.fits and candidate.prediction]

    def beaten(figures: tuple[float, int, int]) -> bool:
        return any(other != figures and all(a <= b for a, b in zip(other, figures, strict=True)) for other in fitting)

    return [
        replace(item, pareto=item.fits and item.prediction is not None and not beaten(item.costs))
        for item in candidates
    ]


def mark_like_best(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same candidates, with those marked that cannot be told apart from the best: their bands of times meet.

    Args:
        candidates: best first.
    """
    best = next((candidate.band_s for candidate in candidates if candidate.fits), None)

    def alike(band: tuple[float, float] | None) -> bool:
        return best is not None and band is not None and band[0] <= best[1]

    return [replace(candidate, like_best=candidate.fits and alike(candidate.band_s)) for candidate in candidates]
