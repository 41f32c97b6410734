"""What the schedules of a problem are held against: the fastest found of the schedule that is their baseline."""

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from ..device.device import Device
from ..problems.problem import Problem
from ..refusal import Refusal
from ..residency.device_memory import peak_bytes
from ..resolve import Resolved, asked_config, attempt_launches, resolve
from ..schedules.config import Config
from ..schedules.contract import Schedule
from ..schedules.registry import baseline_of
from .candidate import Candidate
from .fastest import RETRIED, RETRIED_BYTES, survey_problem
from .space import configs_of
from .trial import Trial, TrialSettings, ranking, with_launches

FINALISTS = RETRIED // 4
"""Configurations tried on more than the short problem: as of `compare` at longer lengths, the default among them."""

BESIDE_BYTES = 4 * RETRIED_BYTES
"""Beyond `RETRIED_BYTES` and up to here the default still runs beside the likely fastest: each takes 1 to 2 s."""


def baselines(problem: Problem, like: Schedule, settings: TrialSettings) -> list[Trial]:
    """Configurations of the baseline, of which the fastest stands for it; empty where the problem has none.

    All are tried on a short problem, and the best of them, with the default, are returned; where they would hold much
    device memory the one that is fastest at a problem that holds little, and the default while that is quick.
    Of a baseline whose kernels have to be compiled it is the default alone.
    """
    baseline, device = baseline_of(like.problem), settings.device
    if baseline is None or baseline.why_not(problem) is not None:
        return []
    resolved = resolve(problem, baseline.name, Config(), device, settings.sources)
    config, launches = asked_config(problem, baseline, Config(), device, settings.sources.cost), None
    if isinstance(resolved, Resolved):
        config, launches = resolved.config, resolved.launches
    default = Trial(candidate=Candidate(schedule=baseline.name, config=config, options=tuple(baseline.options)))
    if baseline.outlined or launches is None:
        return [with_launches(replace(default, launches=launches), problem, device)]
    tried = [
        replace(default.candidate, config=other)
        for other in configs_of(baseline, [baseline], {}, settings.sources.cost)
    ]
    ranked = ranking(survey_problem(problem), settings, [Trial(candidate=item) for item in tried])
    best = [item.config for item in ranked if item.fits and item.config != config][: FINALISTS - 1]
    finalists = [Trial(candidate=replace(default.candidate, config=other)) for other in (config, *best)]
    if peak_bytes(launches) > RETRIED_BYTES:
        fewer = (few for few in _smaller(problem) if _held_bytes(few, default.candidate, device) <= RETRIED_BYTES)
        small = next(fewer, problem)
        winner = ranking(small, settings, finalists)[0].config
        kept = {winner, config} if peak_bytes(launches) <= BESIDE_BYTES else {winner}
        finalists = [trial for trial in finalists if trial.candidate.config in kept]
    return [with_launches(trial, problem, device) for trial in finalists]


def _smaller(problem: Problem) -> Iterator[Problem]:
    """It with ever fewer sequences, then ever shorter ones."""
    while problem.batch > 1:
        problem = problem.but(batch=problem.batch // 2)
        yield problem
    while problem.seqlen_q > 1 or problem.seqlen_k > 1:
        problem = problem.but(seqlen_q=-(-problem.seqlen_q // 2), seqlen_k=-(-problem.seqlen_k // 2))
        yield problem


def _held_bytes(problem: Problem, candidate: Candidate, device: Device) -> float:
    launches = attempt_launches(problem, candidate.schedule, candidate.config, device)
    return inf if isinstance(launches, Refusal) else peak_bytes(launches)
