"""Jobs run by any `concurrent.futures.Executor`, each done again where its worker is lost or fails.

What is answered does not depend on how many workers there are, nor on which of them are lost: each question is answered
by itself, on empty caches. An error in one of them, raised each time, is its answer: the others go on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, TypeVar

from ..simulator.prediction.kernels import Request

if TYPE_CHECKING:
    from ..kernels.compile.call import KernelLaunch

MOST_TRIES = 3
"""A job whose worker is lost or fails so often is given up: it may be what kills them.

Not once: a worker that starts while others are killed may fail by its own means, and the next does not.
"""
LOST = (BrokenExecutor, CancelledError, ConnectionError)
"""What an executor raises of a job whose worker is lost; all else the job itself has raised."""
LOST_ELSEWHERE = (
    *("KilledWorker", "CommClosedError"),
    *("WorkerCrashedError", "NodeDiedError", "OutOfMemoryError", "ObjectLostError", "LocalRayletDiedError"),
)
"""The same of Dask and of Ray, by name: neither need be installed."""
PRELOADED = "tilesight.tuning.engines.preloaded"
"""Loaded once for all processes."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Some launches to predict, each by itself. Args: keys: names of the questions, in the order of the calls."""

    keys: tuple[str, ...]
    calls: "tuple[KernelLaunch, ...]"
    target: Request


class Processes:
    """Processes of this machine that stay from one call of `worked` to the next, with the compilers that they start.

    Args:
        most: how many, each started when there is work for it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pool: ProcessPoolExecutor | None = None

    def running(self, module: str) -> Executor:
        """The pool. Args: module: loaded once for all."""
        if self._pool is None:
            context = get_context("forkserver")
            context.set_forkserver_preload([PRELOADED, module])
            self._pool = ProcessPoolExecutor(self._most, context)
        return self._pool

    def end(self) -> None:
        """End them; the next that asks has new ones."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


class LostWorkers(RuntimeError):
    """Workers that should answer are lost again and again; the text is one line."""


def worked(
    jobs: Sequence[Job],
    run: Callable[[Job], Answer],
    unanswered: Callable[[Job, str], Answer],
    executor: Executor | Processes | None,
    workers: int,
) -> Iterator[tuple[Job, Answer]]:
    """Jobs with their answers, as these come; those of a lost worker are done again.

    Args:
        run: what a worker does; it can be pickled.
        unanswered: what stands for the answer of a job that raises, and why it did in one line.
        executor: processes of this machine that stay; None: such that do not. workers: of these, 1: this one alone.

    Raises:
        LostWorkers: as its text says.
    """
    if is_local(executor) and workers <= 1:
        yield from ((job, run(job)) for job in jobs)
        return
    tries = dict.fromkeys((job.keys for job in jobs), 0)
    left = list(jobs)
    while left:
        lost: list[Job] = []
        with _running(executor, run.__module__, workers) as running:
            futures = _submitted(running, run, left, lost)
            for future in as_completed(futures):
                job = futures[future]
                try:
                    answer = future.result()
                except Exception as error:
                    cause = getattr(error, "cause", None) or error  # of Ray, whose own text is a traceback
                    said = f"{type(cause).__name__}: {' '.join(str(cause).split())[:200]}"
                    tries[job.keys] += 1
                    if tries[job.keys] < MOST_TRIES:
                        lost.append(job)
                    elif _is_lost(error):
                        raise LostWorkers(
                            f"kernel {job.calls[0].name}: its worker was lost {MOST_TRIES} times ({said})"
                        ) from None
                    else:
                        yield job, unanswered(job, f"its worker cannot predict ({said})")
                else:
                    yield job, answer
        left = lost
        if lost and isinstance(executor, Processes):
            executor.end()


def is_local(executor: Executor | Processes | None) -> bool:
    """Whether work is done by processes of this machine."""
    return executor is None or isinstance(executor, Processes)


def _is_lost(error: Exception) -> bool:
    """Whether an error says that a worker is lost, not that its job has failed."""
    return isinstance(error, LOST) or any(kind.__name__ in LOST_ELSEWHERE for kind in type(error).__mro__)


def _submitted(
    executor: Executor, run: Callable[[Job], Answer], jobs: Sequence[Job], lost: list[Job]
) -> "Mapping[Future[Answer], Job]":
    """Futures of jobs. Args: lost: gets those that an executor does not take, as its workers are lost."""
    futures: dict[Future[Answer], Job] = {}
    for place, job in enumerate(jobs):
        try:
            futures[executor.submit(run, job)] = job
        except BrokenExecutor:
            lost += jobs[place:]
            break
    return futures


@contextmanager
def _running(executor: Executor | Processes | None, module: str, workers: int) -> Iterator[Executor]:
    """What runs jobs: what was given, which stays, or processes of this machine that share a module."""
    if executor is not None:
        yield executor.running(module) if isinstance(executor, Processes) else executor
        return
    processes = Processes(workers)
    try:
        yield processes.running(module)
    finally:
        processes.end()
