"""Runs many simulations, over several processes where that pays; results and their order do not depend on it."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar

PAYS_AFTER_S = 3.0
"""Starting processes takes a second or two each; what one process ends sooner stays in it."""

Job = TypeVar("Job")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    function: Callable[[Job], Result], jobs: Sequence[Job], workers: int = 1, progress: Progress | None = None
) -> list[Result]:
    """Call `function` on every job.

    Args:
        function: of a module, so that another process can find it; pure.
        workers: processes at most; used once the first jobs show that the rest takes long.
        progress: called with (jobs done, jobs in all).

    Returns:
        The results, in the order of the jobs.

    Raises:
        ValueError: less than one worker. What `function` raises comes through.
    """
    if workers < 1:
        raise ValueError(f"workers = {workers}: must be an integer of 1 or more")
    report = progress or (lambda done, total: None)
    done: list[Result] = []
    begin = monotonic()
    for job in jobs:
        per_job_s = (monotonic() - begin) / max(1, len(done))
        if workers > 1 and done and per_job_s * (len(jobs) - len(done)) > PAYS_AFTER_S:
            break
        done.append(function(job))
        report(len(done), len(jobs))
    rest = jobs[len(done) :]
    if rest:
        for result in _in_processes(function, rest, min(workers, len(rest))):
            done.append(result)
            report(len(done), len(jobs))
    return done


def _in_processes(function: Callable[[Job], Result], jobs: Sequence[Job], workers: int) -> Iterator[Result]:
    before = set(multiprocessing.active_children())
    # Fresh processes, not forks: numba and progress displays run threads, which a fork may leave in a bad state.
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent)
    try:
        with _interrupts_ignored():
            futures = [pool.submit(function, job) for job in jobs]
        for future in futures:
            yield future.result()
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """A worker whose parent was killed would go on with the jobs that it has been given, some of them minutes long."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Processes started in here ignore ctrl-C: how to react is for the one that started them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
