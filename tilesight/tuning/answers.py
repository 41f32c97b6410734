"""Predictions of many single launches: from a store, else by any `concurrent.futures.Executor`, kept as they come.

What is answered does not depend on how many workers there are, nor on which of them are lost: each question is answered
by itself, on empty caches. An error in one of them is its answer: the others go on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import TYPE_CHECKING

from ..predicting import compiled_launches, lost_row
from ..simulator.device.device import Device
from ..simulator.jobs.attempts import internal
from ..simulator.jobs.pool import cores
from ..simulator.jobs.stopping import Stopped
from ..simulator.predict_kernels import predict_kernels
from ..simulator.prediction.kernel_row import KernelRow
from ..simulator.prediction.kernels import KernelsPrediction
from ..store.keys import question_key
from ..store.store import Store

if TYPE_CHECKING:
    from ..kernels.compile.call import KernelCall

L2 = "cold"
"""Each configuration is looked at by itself, as the autotuner measures it."""
TOGETHER = 8
"""Configurations of a job: enough that starting the disassembler does not count, few enough that little is lost."""
MOST_TRIES = 3
"""A job whose worker is lost so often is given up: it may be what kills them."""
LOST = (BrokenExecutor, CancelledError, ConnectionError)
"""What an executor raises of a job whose worker is lost; all else the job itself has raised."""
LOST_ELSEWHERE = (
    *("KilledWorker", "CommClosedError"),
    *("WorkerCrashedError", "NodeDiedError", "OutOfMemoryError", "ObjectLostError", "LocalRayletDiedError"),
)
"""The same of Dask and of Ray, by name: neither need be installed."""
Progress = Callable[[int, int], None]
Predict = Callable[["Sequence[KernelCall]"], list[KernelRow]]
"""`predict_all`, for a target and by workers that somebody has chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDevice:
    """What launches are predicted for, and what that may take.

    Args:
        device, name: the GPU, and its name for people; compile_limit_s, limit_s: that compiler and prediction of
            one launch may take, None: as long as they like [s].
    """

    device: Device
    name: str
    compile_limit_s: float | None = None
    limit_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Some launches to predict, each by itself. Args: keys: names of the questions, in the order of the calls."""

    keys: tuple[str, ...]
    calls: "tuple[KernelCall, ...]"
    target: TargetDevice


class LostWorkers(RuntimeError):
    """Workers that should answer are lost again and again; the text is one line."""


def predict_all(
    calls: "Sequence[KernelCall]",
    target: TargetDevice,
    *,
    store: Store | None,
    executor: Executor | None = None,
    workers: int | None = None,
    together: int = TOGETHER,
    progress: Progress | None = None,
) -> list[KernelRow]:
    """Predict launches, each by itself.

    Args:
        store: where answers are looked for, and kept as they come; None: nowhere.
        executor: runs the work, its workers have torch and triton; None: processes of this machine.
        workers: of these processes, one per core where None; 1: all is done in this one.
        together: launches of one job; progress: called with (launches answered, launches in all).

    Returns:
        A row for each launch, in order, with its own label.

    Raises:
        LostWorkers: as its text says.
    """
    alone = [replace(call, tuned=-1, configuration={}) for call in calls]
    keys = [question_key([call], target.device, target.name, L2) for call in alone]
    report = progress or (lambda done, total: None)
    known = store.get(dict.fromkeys(keys)) if store else {}
    answers: dict[str, KernelRow] = {key: prediction.rows[0] for key, prediction in known.items()}
    report(sum(key in answers for key in keys), len(keys))
    waiting = {key: call for key, call in zip(keys, alone, strict=True) if key not in answers}
    jobs = [
        Job(keys=part, calls=tuple(waiting[key] for key in part), target=target)
        for part in _parts(_by_code(waiting), together)
    ]
    for job, predictions in _worked(jobs, executor, min(workers or cores(), len(jobs))):
        for key, prediction in zip(job.keys, predictions, strict=True):
            if store:
                store.put(key, prediction)
            answers[key] = prediction.rows[0]
        report(sum(key in answers for key in keys), len(keys))
    return [replace(answers[key], label=call.label) for key, call in zip(keys, calls, strict=True)]


def answer(job: Job) -> tuple[KernelsPrediction, ...]:
    """Predict the launches of a job; what a worker runs. What one of them raises is its answer alone."""
    target = job.target
    try:
        compiled = compiled_launches(job.calls, target.device, workers=1, limit_s=target.compile_limit_s)
        return tuple(
            predict_kernels([launch], target.device, target.name, l2=L2, limit_s=target.limit_s).prediction
            for launch in compiled
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
    rows = [lost_row(call, f"kernel {call.name}: {why}") for call in job.calls]
    return tuple(KernelsPrediction(device=job.target.name, l2=L2, rows=(row,)) for row in rows)


def _by_code(calls: "Mapping[str, KernelCall]") -> tuple[str, ...]:
    """Names of questions, those of one code after each other: what is found of code alone serves all of its shapes."""
    from ..kernels.compile.made_by import call_key

    codes = {key: call_key(call.job) for key, call in calls.items()}
    places = {code: place for place, code in enumerate(dict.fromkeys(codes.values()))}
    return tuple(sorted(calls, key=lambda key: places[codes[key]]))


def _parts(keys: tuple[str, ...], together: int) -> Iterator[tuple[str, ...]]:
    for first in range(0, len(keys), together):
        yield keys[first : first + together]


def _worked(
    jobs: Sequence[Job], executor: Executor | None, workers: int
) -> Iterator[tuple[Job, tuple[KernelsPrediction, ...]]]:
    """Jobs with their answers, as these come; those of a lost worker are done again, what others raise is an answer."""
    if executor is None and workers <= 1:
        yield from ((job, answer(job)) for job in jobs)
        return
    tries = dict.fromkeys((job.keys for job in jobs), 0)
    left = list(jobs)
    while left:
        lost: list[Job] = []
        with _running(executor, workers) as running:
            futures = _submitted(running, left, lost)
            for future in as_completed(futures):
                job = futures[future]
                try:
                    predictions = future.result()
                except Exception as error:
                    cause = getattr(error, "cause", None) or error  # of Ray, whose own text is a traceback
                    said = f"{type(cause).__name__}: {' '.join(str(cause).split())[:200]}"
                    if not _is_lost(error):
                        yield job, _unanswered(job, f"its worker cannot predict ({said})")
                        continue
                    tries[job.keys] += 1
                    if tries[job.keys] >= MOST_TRIES:
                        raise LostWorkers(
                            f"kernel {job.calls[0].name}: its worker was lost {MOST_TRIES} times ({said})"
                        ) from None
                    lost.append(job)
                else:
                    yield job, predictions
        left = lost


def _is_lost(error: Exception) -> bool:
    """Whether an error says that a worker is lost, not that its job has failed."""
    return isinstance(error, LOST) or any(kind.__name__ in LOST_ELSEWHERE for kind in type(error).__mro__)


def _submitted(
    executor: Executor, jobs: Sequence[Job], lost: list[Job]
) -> Mapping["Future[tuple[KernelsPrediction, ...]]", Job]:
    """Futures of jobs. Args: lost: gets those that an executor does not take, as its workers are lost."""
    futures: dict[Future[tuple[KernelsPrediction, ...]], Job] = {}
    for place, job in enumerate(jobs):
        try:
            futures[executor.submit(answer, job)] = job
        except BrokenExecutor:
            lost += jobs[place:]
            break
    return futures


@contextmanager
def _running(executor: Executor | None, workers: int) -> Iterator[Executor]:
    """What runs jobs: the executor that was given, which stays, or processes of this machine."""
    if executor is not None:
        yield executor
        return
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    pool = ProcessPoolExecutor(workers, context)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
