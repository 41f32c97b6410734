"""The fastest configuration of a schedule at each of several sequence lengths, found within seconds.

All configurations are tried at one short length (`survey_problem`), the best of them again at each length asked for, as
long as that is quick.
For B = 4, H = 32, D = 64 on an H200 that costs at most 2.5 % at N = 512 to 8192 against trying all at every length:
naive 2.5 %, unfused 0.8 %, flash2_tma 0.6 %, flash1 and flash2 nothing (2026-11-23). Not all were tried of naive and
unfused beyond 1024 and of flash1 beyond 2048, but the best 4 to 14 of half that length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isqrt

from ..device.device import Device
from ..prediction.prediction import Prediction
from ..problems.problem import Problem
from ..refusal import Refusal
from ..residency.device_memory import peak_bytes
from ..resolve import ResourcesOf, attempt_launches, default_config
from ..schedules.config import Config
from ..schedules.registry import find_schedule
from .candidate import Candidate, band_of, is_estimated
from .space import configs_of, none_able, schedules_named, those_able
from .trial import Trial, TrialSettings, memory_reason, predicted, ranking, resolved_as, with_code

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
class Point:
    """One schedule at one sequence length.

    Args:
        schedule: name; seqlen: of queries and keys; config: choices.
        peak_memory_bytes: most device memory held at once; 0 where the schedule cannot do the problem [B].
        prediction: None where it does not run.
        reason: why it does not run, in one line; empty where it does.
    """

    schedule: str
    seqlen: int
    config: Config
    peak_memory_bytes: int = 0
    prediction: Prediction | None = None
    reason: str = ""

    @property
    def fits(self) -> bool:
        """Whether it runs on the device."""
        return not self.reason

    @property
    def time_s(self) -> float:
        """Predicted time [s]; infinite where it does not run."""
        return self.prediction.time_s if self.prediction else float("inf")

    @property
    def is_estimated(self) -> bool:
        """Whether cycles of a launch come from no machine code."""
        return self.prediction is not None and is_estimated(self.prediction)

    def to_dict(self, speedup: float | None) -> dict[str, object]:
        """The object in `compare --json`. Args: speedup: over naive attention, None where one of them does not run."""
        figures: dict[str, object] = {
            "schedule": self.schedule,
            "seqlen": self.seqlen,
            "fits": self.fits,
            "reason": self.reason,
            "config": {name: getattr(self.config, name) for name in find_schedule(self.schedule).options},
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
    fixed: Mapping[str, int | str],
    cost: str = "compiled",
    *,
    compiles: bool = False,
) -> tuple[dict[str, list[Candidate]], dict[str, str]]:
    """What `compare` chooses from: schedule -> configurations; and schedule -> why it cannot compute the problem.

    Args:
        compiles: whether kernels of outlines are compiled.

    Raises:
        ValueError: as `compare`.
    """
    chosen = schedules_named(schedule, type(problem))
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
    device: Device,
    cost: str,
) -> list[Candidate]:
    """The best that fit; where none does, the only one there is, or the default, whose points then say why not."""
    best = [item for item in ranked if item.schedule == schedule and item.fits][:RETRIED]
    if best or len(space) == 1:
        return [replace(item, prediction=None) for item in best or space]
    return [replace(space[0], config=default_config(problem, schedule, device, cost))]


def along(
    problems: Sequence[Problem],
    device: Device,
    settings: TrialSettings,
    resources_of: ResourcesOf | None,
    choice: Sequence[Candidate],
) -> list[Point]:
    """A schedule at each length, in the fastest there of the best.

    Args:
        problems: by length; resources_of: of outlines, None where nothing compiles them; choice: best first.
    """
    points = []
    best = list(choice)
    for problem in problems:
        launches = attempt_launches(problem, best[0].schedule, best[0].config, device)
        count = 1
        if isinstance(launches, Refusal) or peak_bytes(launches) <= RETRIED_BYTES:
            count = RETRIED if problem is problems[0] else RETRIED // 4
        trials = [Trial(candidate=best[0], launches=launches), *(Trial(candidate=item) for item in best[1:count])]
        trials = with_code(trials, problem, device, resources_of)
        if len(trials) > 1:
            ranked = [item for item in ranking(problem, device, trials, settings, workers=1) if item.fits]
            best = [replace(item, prediction=None) for item in ranked] or best
            if ranked and (prediction := ranked[0].prediction):
                points.append(_point(problem, best[0], prediction.peak_memory_bytes, prediction=prediction))
                continue
        points.append(_tried_alone(problem, device, settings, trials[0]))
    return points


def _tried_alone(problem: Problem, device: Device, settings: TrialSettings, trial: Trial) -> Point:
    """A schedule at one length in one configuration, which is not simulated where device memory runs out."""
    candidate, launches = trial.candidate, trial.launches
    if launches is None or isinstance(launches, Refusal):
        return _point(problem, candidate, reason=launches.reason if launches else "")
    held_bytes = peak_bytes(launches)
    if candidate.reason:
        return _point(problem, candidate, held_bytes, reason=candidate.reason)
    if held_bytes > device.hbm_bytes:
        return _point(problem, candidate, held_bytes, reason=memory_reason(held_bytes, device))
    resolved = resolved_as(problem, device, settings, candidate, launches)
    if isinstance(resolved, Refusal):
        return _point(problem, candidate, held_bytes, reason=resolved.reason)
    outcome = predicted(resolved, device, settings)
    if isinstance(outcome, Refusal):
        return _point(problem, candidate, held_bytes, reason=outcome.reason)
    return _point(problem, candidate, held_bytes, prediction=outcome)


def _point(
    problem: Problem,
    candidate: Candidate,
    peak_memory_bytes: int = 0,
    *,
    prediction: Prediction | None = None,
    reason: str = "",
) -> Point:
    return Point(
        schedule=candidate.schedule,
        seqlen=problem.seqlen_q,
        config=candidate.config,
        peak_memory_bytes=peak_memory_bytes,
        prediction=prediction,
        reason=reason,
    )
