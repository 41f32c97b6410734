"""Tries configurations: what each is predicted to take, or why it cannot run; launches of each are built once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from .. import units
from ..arguments import USUAL, Settings
from ..device.device import Device
from ..jobs.pool import Progress, run_all
from ..jobs.stopping import OutOfTime, Stage, limited, out_of_time
from ..jobs.working_clock import process_s, thread_s
from ..prediction.prediction import Prediction
from ..problems.problem import Problem
from ..refusal import BrokenLaw, Refusal, Refused
from ..residency.device_memory import peak_bytes
from ..resolve import USUAL_SOURCES, Launches, Resolved, ResourcesOf, Sources, answers_of, attempt_launches, resolve
from ..schedules.registry import find_schedule
from ..simulate import is_known, least_time_s, predict
from .candidate import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSettings:
    """How all configurations are simulated.

    Args:
        resources_of: compiles kernels of outlines; None: nothing does; workers: as `explore`.
        limit_s: that each may take of a core; until_s: when all have to be done, by `process_s`.
    """

    device: Device
    simulation: Settings = USUAL
    sources: Sources = USUAL_SOURCES
    resources_of: ResourcesOf | None = None
    workers: int | None = None
    limit_s: float = inf
    until_s: float = inf

    def within(self, together_s: float) -> "TrialSettings":
        """The same for what has to be done by then. Args: together_s: of all cores [s]."""
        return replace(self, until_s=process_s() + together_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A configuration to try.

    Args:
        launches: of it, or why there are none; None where they are not built yet.
        least_s: what it takes at least; None where it is not known yet [s].
    """

    candidate: Candidate
    launches: Launches | Refusal | None = None
    least_s: float | None = None


def resolved_as(problem: Problem, settings: TrialSettings, trial: Trial) -> Resolved | Refusal:
    """What runs of a trial, or why nothing does."""
    candidate = trial.candidate
    sources = replace(settings.sources, resources=candidate.resources)
    return resolve(problem, candidate.schedule, candidate.config, settings.device, sources, trial.launches)


def predicted(resolved: Resolved, settings: TrialSettings) -> Prediction | Refusal:
    """The prediction; or that it has taken longer than it may, no device can keep it, or its code is not traced."""
    stages: list[Stage] = []
    begin_s = thread_s()

    def beyond_s() -> float:
        """What has been taken over the nearer of both limits."""
        return max(thread_s() - begin_s - settings.limit_s, process_s() - settings.until_s)

    try:
        with limited(0.0, beyond_s):
            return predict(resolved, settings.device, settings.simulation, stages.append)
    except OutOfTime:
        if process_s() > settings.until_s:
            return Refusal("takes too long", "no time was left: a longer --time-limit gives it some")
        return Refusal("takes too long", out_of_time(settings.limit_s, stages[-1].text))
    except BrokenLaw as error:
        return Refusal("impossible", str(error))
    except Refused as error:
        return Refusal("not supported", str(error))


def answer_known(problem: Problem, settings: TrialSettings, trial: Trial) -> bool:
    """Whether `tried` has nothing to simulate: the store holds its answer, or it cannot run."""
    if trial.candidate.reason:
        return True
    resolved = resolved_as(problem, settings, trial)
    return isinstance(resolved, Refusal) or is_known(resolved, settings.device, settings.simulation)


def tried(problem: Problem, settings: TrialSettings, trial: Trial) -> Trial:
    """The trial with what became of its candidate."""
    candidate = trial.candidate
    if candidate.reason:
        return trial
    resolved = resolved_as(problem, settings, trial)
    if isinstance(resolved, Refusal):
        return Trial(candidate=refused(candidate, resolved), launches=resolved)
    outcome = predicted(resolved, settings)
    if isinstance(outcome, Refusal):
        return Trial(candidate=refused(candidate, outcome), launches=resolved.launches)
    done = candidate_of(outcome, settings.device)
    return Trial(candidate=replace(done, resources=candidate.resources), launches=resolved.launches)


ROUND = 16
"""Trials that are simulated before it is asked again which of the others can be among the fastest."""


def bounded(problem: Problem, settings: TrialSettings, trial: Trial) -> Trial:
    """The trial with what it takes at least: 0 where it does not run, or only its simulation tells."""
    if trial.least_s is not None:
        return trial
    if trial.candidate.reason:
        return replace(trial, least_s=0.0)
    resolved = resolved_as(problem, settings, trial)
    if isinstance(resolved, Refusal):
        return Trial(candidate=refused(trial.candidate, resolved), launches=resolved, least_s=0.0)
    if peak_bytes(resolved.launches) > settings.device.hbm_bytes:
        return replace(trial, least_s=0.0)
    return replace(trial, least_s=least_time_s(resolved, settings.device))


def tried_all(
    problem: Problem,
    settings: TrialSettings,
    trials: Sequence[Trial],
    progress: Progress | None = None,
    best: int | None = None,
) -> list[Trial]:
    """Trials with what became of them, in their order.

    They are simulated in rounds, those that take least at least first, until so many are known to be faster than all
    others can be. What is left out is known by what it takes at least.

    Args:
        progress: as `explore`; best: number of the fastest that are asked for; None: all are simulated.
    """
    attempt = partial(tried, problem, settings)
    if best is None or len(trials) <= best:
        return run_all(attempt, trials, settings.workers, progress)
    known = [bounded(problem, settings, trial) for trial in trials]
    waiting = sorted(range(len(known)), key=lambda number: known[number].least_s or 0.0)
    done: dict[int, Trial] = {}
    while waiting:
        # Estimates from tiles rank behind all others, however fast.
        ran = (trial.candidate for trial in done.values())
        faster_s = sorted(item.costs[0] for item in ran if item.fits and item.prediction and not item.is_estimated)
        enough_s = faster_s[best - 1] if len(faster_s) >= best else inf
        now = [number for number in waiting[:ROUND] if (known[number].least_s or 0.0) <= enough_s]
        if not now:
            break
        tick = progress and partial(counted, progress, len(done), len(trials))
        done |= zip(now, run_all(attempt, [known[number] for number in now], settings.workers, tick), strict=True)
        waiting = [number for number in waiting if number not in done]
    if waiting and progress:
        progress(len(trials), len(trials))
    left = {number: replace(known[number].candidate, least_s=known[number].least_s) for number in waiting}
    return [done.get(number) or replace(known[number], candidate=left[number]) for number in range(len(known))]


def counted(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    """Progress of a part of the trials. Args: before: done in earlier parts; total: of all."""
    progress(before + done, total)


def ranking(
    problem: Problem, settings: TrialSettings, trials: Sequence[Trial], progress: Progress | None = None
) -> list[Candidate]:
    """Candidates with what became of them: those that fit by time, then those that do not."""
    done = tried_all(problem, settings, trials, progress)
    return sorted((trial.candidate for trial in done), key=rank_of)


def rank_of(candidate: Candidate) -> tuple[object, ...]:
    """Those that fit first; by time, then bytes, then name and options, so that the order is always the same.

    Like is ranked with like: estimates from tiles are too fast by more than configurations differ, so they stand
    behind all whose cycles come from machine code; behind these, what spills by such an estimate, whose time is worth
    little.
    """
    choices = tuple(candidate.config_dict().values())
    worth = not candidate.fits, candidate.prediction is None, candidate.is_estimated, candidate.may_spill
    return *worth, candidate.costs, candidate.schedule, choices


def with_launches(trial: Trial, problem: Problem, device: Device) -> Trial:
    """The trial with its launches, or why there are none."""
    if trial.launches is not None:
        return trial
    launches = attempt_launches(problem, trial.candidate.schedule, trial.candidate.config, device)
    return replace(trial, launches=launches)


def with_resources(trials: Sequence[Trial], resources_of: ResourcesOf) -> list[Trial]:
    """The trials, whose launches are built, with the resources of these, or with the reason why they have none."""
    pipelines = {number: trial.launches for number, trial in enumerate(trials) if isinstance(trial.launches, tuple)}
    answers = dict(zip(pipelines, answers_of(resources_of, list(pipelines.values())), strict=True))
    done = []
    for number, trial in enumerate(trials):
        answer = answers.get(number)
        if isinstance(answer, Refusal):
            done.append(replace(trial, candidate=refused(trial.candidate, answer)))
        else:
            done.append(replace(trial, candidate=replace(trial.candidate, resources=answer)))
    return done


def with_code(trials: Sequence[Trial], problem: Problem, settings: TrialSettings) -> list[Trial]:
    """The trials, those of outlines with what becomes of their kernels; as they are where nothing compiles them."""
    numbers = [number for number, trial in enumerate(trials) if find_schedule(trial.candidate.schedule).outlined]
    if settings.resources_of is None or not numbers:
        return list(trials)
    outlines = [with_launches(trials[number], problem, settings.device) for number in numbers]
    compiled = dict(zip(numbers, with_resources(outlines, settings.resources_of), strict=True))
    return [compiled.get(number, trial) for number, trial in enumerate(trials)]


def candidate_of(prediction: Prediction, device: Device) -> Candidate:
    """The candidate that was predicted; it does not fit where device memory runs out."""
    reason = "" if prediction.fits else memory_reason(prediction.peak_memory_bytes, device)
    return Candidate(
        schedule=prediction.schedule,
        config=prediction.config,
        options=prediction.options,
        prediction=prediction,
        reason=reason,
        kind="does not fit" if reason else None,
    )


def refused(candidate: Candidate, refusal: Refusal) -> Candidate:
    """The candidate with why it does not run."""
    return replace(candidate, reason=refusal.reason, kind=refusal.kind)


def memory_reason(peak_memory_bytes: int, device: Device) -> str:
    """Why a problem is too large for a device, in one line."""
    need, have = units.capacity(peak_memory_bytes), units.capacity(device.hbm_bytes)
    return f"device memory: needs {need}, {device.name} has {have}"
