"""Predictions of many single launches: from a store, else by an executor, kept as they come."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import TYPE_CHECKING

from ..predicting import compiled_launches, row_of
from ..simulator.jobs.attempts import internal
from ..simulator.jobs.pool import cores
from ..simulator.jobs.stopping import Stopped
from ..simulator.prediction.kernel_row import KernelRow
from ..simulator.prediction.kernels import KernelsPrediction, Request
from ..simulator.store.store import Store
from .workers import Job, Processes, is_local, worked

if TYPE_CHECKING:
    from ..kernels.compile.call import KernelLaunch

FEW = 4
"""Launches that are predicted by this process even where others may help: these take longer to start."""
L2 = "cold"
"""Each configuration is looked at by itself, as the autotuner measures it."""
TOGETHER = 8
"""Most configurations of a job: so many that starting the disassembler does not count, so few that little is lost."""
Progress = Callable[[int, int], None]
Predict = Callable[["Sequence[KernelLaunch]"], list[KernelRow]]
"""`predict_all`, for a target and by workers that somebody has chosen."""


def predict_all(
    calls: "Sequence[KernelLaunch]",
    target: Request,
    *,
    store: Store | None,
    executor: Executor | Processes | None = None,
    workers: int | None = None,
    together: int = TOGETHER,
    progress: Progress | None = None,
) -> list[KernelRow]:
    """Predict launches, each by itself.

    Args:
        store: where answers are looked for, and kept as they come; None: nowhere.
        executor: runs the work, its workers have torch and triton; processes of this machine that stay for the next
            call; None: processes that do not.
        workers: of these processes, one per core where None; 1: all is done in this one.
        together: launches of one job; progress: called with (launches answered, launches in all).

    Returns:
        A row for each launch, in order, with its own label.

    Raises:
        LostWorkers: as its text says.
    """
    from ..kernels.compile.question import question_key

    alone = [replace(call, tuned=-1, configuration={}) for call in calls]
    keys = [question_key([call], target.device, target.name, L2) for call in alone]
    report = progress or (lambda done, total: None)
    answers = dict(store.get(dict.fromkeys(keys))) if store else {}
    report(sum(key in answers for key in keys), len(keys))
    waiting = {key: call for key, call in zip(keys, alone, strict=True) if key not in answers}
    local = is_local(executor)
    processes = 1 if local and _are_few(waiting.values()) else workers or cores()
    jobs = [
        Job(keys=part, calls=tuple(waiting[key] for key in part), target=target)
        for part in in_jobs(_by_code(waiting), together, processes if local else 1)
    ]
    for job, new in worked(jobs, answer, _unanswered, executor, min(processes, len(jobs))):
        for key, answered in zip(job.keys, new, strict=True):
            if store:
                store.put(key, answered)
            answers[key] = answered
        report(sum(key in answers for key in keys), len(keys))
    return [replace(answers[key].rows[0], label=call.label) for key, call in zip(keys, calls, strict=True)]


def _are_few(calls: "Collection[KernelLaunch]") -> bool:
    """Whether launches are soon predicted: addresses that depend on values take long, without a bound."""
    with_values = any(storage.values is not None for call in calls for storage in call.storages)
    return len(calls) <= FEW and not with_values


def answer(job: Job) -> tuple[KernelsPrediction, ...]:
    """Predict the launches of a job; what a worker runs. What one of them raises is its answer alone."""
    from ..simulator.predict_kernels import predict_kernels

    target = replace(job.target, l2=L2, workers=1)
    try:
        compiled = compiled_launches(job.calls, target)
        return tuple(
            predict_kernels([launch], target, before=call.before, do_bench=False).prediction
            for call, launch in zip(job.calls, compiled, strict=True)
        )
    except Stopped:
        raise
    except Exception as error:
        if len(job.calls) == 1:
            return _unanswered(job, internal(error, "predict"))
        alone = [replace(job, keys=(key,), calls=(call,)) for key, call in zip(job.keys, job.calls, strict=True)]
        return tuple(prediction for single in alone for prediction in answer(single))


def _unanswered(job: Job, why: str) -> tuple[KernelsPrediction, ...]:
    """In place of answers that the program owes. Args: why: one line."""
    rows = [row_of(call, refused=f"kernel {call.name}: {why}", failed=True) for call in job.calls]
    return tuple(KernelsPrediction(device=job.target.name, l2=L2, rows=(row,)) for row in rows)


def _by_code(calls: "Mapping[str, KernelLaunch]") -> tuple[str, ...]:
    """Names of questions, those of one code after each other: what is found of code alone serves all of its shapes."""
    from ..kernels.compile.made_by import call_key

    codes = {key: call_key(call.job) for key, call in calls.items()}
    places = {code: place for place, code in enumerate(dict.fromkeys(codes.values()))}
    return tuple(sorted(calls, key=lambda key: places[codes[key]]))


def in_jobs(keys: tuple[str, ...], together: int, workers: int) -> Iterator[tuple[str, ...]]:
    """Questions of each job; of several workers fewer towards the end, so that all are done at about the same time."""
    first = 0
    while first < len(keys):
        left = len(keys) - first
        size = min(together, left if workers == 1 else -(-left // (2 * workers)))
        yield keys[first : first + size]
        first += size
