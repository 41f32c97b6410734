"""The fastest configuration of a schedule at each of several sequence lengths, found within seconds.

All configurations are tried at one short length (`survey_problem`), the best of them again at each length asked for, as
long as that is quick.
For B = 4, H = 32, D = 64 on an H200 that costs at most 2.5 % at N = 512 to 8192 against trying all at every length:
naive 2.5 %, unfused 0.8 %, flash2_tma 0.6 %, flash1 and flash2 nothing (2026-11-23). Not all were tried of naive and
unfused beyond 1024 and of flash1 beyond 2048, but the best 4 to 14 of half that length.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import isqrt

from ..problems.problem import Problem
from ..refusal import Refusal
from ..residency.device_memory import peak_bytes
from ..resolve import attempt_launches, default_config
from .candidate import Candidate, band_of
from .space import Options, configs_of, none_able, schedules_named, those_able, unlike
from .trial import Trial, TrialSettings, memory_reason, ranking, refused, tried, with_code

SURVEY_SCORES = 1 << 23
"""Most scores of the problem that all configurations are tried on.

A core of a cloud machine takes 6 s for five schedules of 128 configurations (2026-11-23).
"""
SURVEY_HEADS = 128
"""Heads of all sequences that fill a GPU with CTAs; more take longer and say the same."""
RETRIED = 16
"""The best ones that are tried again at the shortest length, a quarter of them at longer ones."""
RETRIED_BYTES = 1 << 29
"""Nothing is tried again where a schedule holds more device memory: it takes the choice of the length before.

One simulation of a schedule that stores its scores takes seconds there.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point(Candidate):
    """One schedule at one sequence length.

    Args:
        seqlen: of queries and keys.
        peak_memory_bytes: most device memory held at once; 0 where the schedule cannot do the problem [B].
    """

    seqlen: int
    peak_memory_bytes: int = 0

    @property
    def time_s(self) -> float:
        """Predicted time [s]; infinite where it does not run."""
        return self.costs[0]

    def to_dict(self, speedup: float | None = None) -> dict[str, object]:
        """The object in `compare --json`. Args: speedup: over naive attention, None where one of them does not run."""
        figures: dict[str, object] = {
            "schedule": self.schedule,
            "seqlen": self.seqlen,
            "fits": self.fits,
            "reason": self.reason,
            "config": self.config_dict(),
            "peak_memory_bytes": self.peak_memory_bytes,
            "speedup": speedup,
        }
        if self.prediction is None:
            return figures | dict.fromkeys((*BAND_KEYS, *POINT_KEYS))
        total = self.prediction.total_dict()
        band = (self.is_estimated, *band_of(self.prediction))
        return figures | dict(zip(BAND_KEYS, band, strict=True)) | {key: total[key] for key in POINT_KEYS}


BAND_KEYS = ("estimated", "time_low_s", "time_high_s")
"""Whether the time comes from no machine code, and what its mean error leaves open."""
POINT_KEYS = (
    "time_s",
    "bottleneck",
    "bottleneck_share",
    "hbm_read_bytes",
    "hbm_write_bytes",
    "l2_read_bytes",
    "l2_write_bytes",
    "l2_hit_fraction",
    "fabric_bytes",
    "smem_fill_bytes",
    "matmul_flop",
    "executed_flop",
    "matmul_flop_per_s",
)


def plan(
    problem: Problem,
    schedule: str | Sequence[str],
    fixed: Options,
    cost: str = "compiled",
    *,
    compiles: bool = False,
    alike: bool = False,
) -> tuple[dict[str, list[Candidate]], dict[str, str]]:
    """What is looked at: schedule -> configurations in a stable order; and schedule -> why it cannot do the problem.

    Args:
        cost: `compiled` keeps to what Triton's compiler can do, where options do not say otherwise;
        compiles: whether kernels of outlines are compiled; alike: whether all schedules must do the same work.

    Raises:
        ValueError: as `compare`, or `explore`.
    """
    chosen = schedules_named(schedule, type(problem))
    if alike and (why := unlike(chosen)):
        raise ValueError(f"schedule: {why}; only like can be ranked")
    able, left_out = those_able(chosen, problem, compiles)
    if not able:
        raise ValueError(none_able(left_out))
    return {
        item.name: [
            Candidate(schedule=item.name, config=config, options=tuple(item.options))
            for config in configs_of(item, chosen, fixed, cost)
        ]
        for item in able
    }, left_out


def survey_problem(problem: Problem) -> Problem:
    """The problem that all configurations are tried on: enough CTAs to fill a GPU, and quick.

    Args:
        problem: the longest that is asked for.

    Returns:
        It with as few sequences as have `SURVEY_HEADS` heads, and the longest power of two of queries and keys whose
        scores are at most `SURVEY_SCORES`; or with its own length where that is shorter.
    """
    few = problem.but(batch=min(problem.batch, -(-SURVEY_HEADS // problem.heads)))
    length = 1 << (isqrt(SURVEY_SCORES // (few.batch * few.heads)) or 1).bit_length() - 1
    length = min(length, problem.seqlen_q)
    return few.but(seqlen_q=length, seqlen_k=length)


def shortlist(
    schedule: str,
    space: Sequence[Candidate],
    ranked: Sequence[Candidate],
    problem: Problem,
    settings: TrialSettings,
) -> list[Candidate]:
    """The best that fit; where none does, the only one there is, or the default, whose points then say why not."""
    best = [item for item in ranked if item.schedule == schedule and item.fits][:RETRIED]
    if best or len(space) == 1:
        return [replace(item, prediction=None) for item in best or space]
    return [replace(space[0], config=default_config(problem, schedule, settings.device, settings.sources.cost))]


def along(problems: Sequence[Problem], settings: TrialSettings, choice: Sequence[Candidate]) -> list[Point]:
    """A schedule at each length, in the fastest there of the best. Args: problems: by length; choice: best first."""
    points, settings = [], replace(settings, workers=1)
    best = list(choice)
    for problem in problems:
        launches = attempt_launches(problem, best[0].schedule, best[0].config, settings.device)
        count = 1
        if isinstance(launches, Refusal) or peak_bytes(launches) <= RETRIED_BYTES:
            count = RETRIED if problem is problems[0] else RETRIED // 4
        trials = [Trial(candidate=best[0], launches=launches), *(Trial(candidate=item) for item in best[1:count])]
        trials = with_code(trials, problem, settings)
        if len(trials) > 1:
            ranked = [item for item in ranking(problem, settings, trials) if item.fits]
            best = [replace(item, prediction=None) for item in ranked] or best
            if ranked and (prediction := ranked[0].prediction):
                points.append(_point(problem, ranked[0], prediction.peak_memory_bytes))
                continue
        points.append(_tried_alone(problem, settings, trials[0]))
    return points


def _tried_alone(problem: Problem, settings: TrialSettings, trial: Trial) -> Point:
    """A schedule at one length in one configuration, which is not simulated where device memory runs out."""
    held_bytes = peak_bytes(trial.launches) if isinstance(trial.launches, tuple) else 0
    if held_bytes <= settings.device.hbm_bytes or trial.candidate.reason:
        return _point(problem, tried(problem, settings, trial).candidate, held_bytes)
    late = Refusal("does not fit", memory_reason(held_bytes, settings.device))
    return _point(problem, refused(trial.candidate, late), held_bytes)


def _point(problem: Problem, candidate: Candidate, peak_memory_bytes: int) -> Point:
    values = {item.name: getattr(candidate, item.name) for item in fields(Candidate)}
    return Point(**values, seqlen=problem.seqlen_q, peak_memory_bytes=peak_memory_bytes)
