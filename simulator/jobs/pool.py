"""Runs many simulations, on several cores; results and their order do not depend on how many.

The compiled loops run without Python's lock, so threads are enough: they start at once, and share all that is loaded.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from threading import Event
from typing import TypeVar

from .stopping import STOPPED

Job = TypeVar("Job")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    function: Callable[[Job], Result], jobs: Sequence[Job], workers: int | None = None, progress: Progress | None = None
) -> list[Result]:
    """Call `function` on every job.

    Args:
        function: pure, as several threads call it at the same time.
        workers: threads at most; one per core where None.
        progress: called with (jobs done, jobs in all), in the order of the jobs.

    Returns:
        The results, in the order of the jobs.

    Raises:
        ValueError: less than one worker. What `function` raises comes through, and so does ctrl-C: what has not begun
            is dropped then, and simulations under way end early.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers = {workers}: must be an integer of 1 or more")
    threads = min(workers or cores(), len(jobs))
    report = progress or (lambda done, total: None)
    done: list[Result] = []
    if threads <= 1:
        for job in jobs:
            done.append(function(job))
            report(len(done), len(jobs))
        return done
    stopped = Event()
    pool = ThreadPoolExecutor(threads)
    try:
        futures: list[Future[Result]] = []
        for job in jobs:
            context = copy_context()
            context.run(STOPPED.set, stopped)
            futures.append(pool.submit(context.run, function, job))
        for future in futures:
            done.append(future.result())
            report(len(done), len(jobs))
    except BaseException:
        stopped.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    return done
