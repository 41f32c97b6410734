"""Jobs over threads: the results and their order are those of one thread."""

import math
import threading
from threading import Barrier, Event

import pytest
from support.waiting import HANG_S
from tilesight.simulator.jobs.pool import run_all
from tilesight.simulator.jobs.stopping import STOPPED, Stopped, check_wanted
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import simulate


def test_results_come_in_the_order_of_the_jobs() -> None:
    """In one thread and in several."""
    assert run_all(abs, [-3, 1, -2], workers=1) == run_all(abs, [-3, 1, -2], workers=2) == [3, 1, 2]


def test_no_jobs_have_no_results() -> None:
    """And start no threads."""
    assert run_all(abs, [], workers=4) == []


def test_one_worker_is_the_thread_that_asks() -> None:
    """Nothing is started for it."""
    assert run_all(lambda _: threading.get_ident(), range(3), workers=1) == [threading.get_ident()] * 3


def test_several_workers_work_at_the_same_time() -> None:
    """Each job waits for another one: one thread would wait for ever."""
    together = Barrier(2, timeout=HANG_S)
    assert sorted(run_all(lambda _: together.wait(), range(4), workers=2)) == [0, 0, 1, 1]


def test_progress_is_told_after_each_job() -> None:
    """In order, whoever is done first."""
    seen: list[tuple[int, int]] = []
    run_all(abs, range(5), workers=2, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 5) for done in range(1, 6)]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_job_comes_through(workers: int) -> None:
    """As itself."""
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        run_all(math.sqrt, [4.0, 1.0, -1.0], workers=workers)


def test_ctrl_c_ends_what_is_under_way_and_begins_no_more() -> None:
    """Jobs that take long do not keep the user waiting: none of them comes to its end."""
    begun: list[int] = []
    running = Event()

    def work(number: int) -> None:
        begun.append(number)
        if number == 0:
            assert running.wait(HANG_S)
            return
        running.set()
        while True:
            check_wanted()

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(work, range(100), workers=2, progress=interrupt)
    assert len(begun) <= 3


def test_a_simulation_ends_when_it_is_no_longer_wanted() -> None:
    """Between windows of a launch."""
    stopped = Event()
    token = STOPPED.set(stopped)
    try:
        problem = AttentionProblem(batch=1, heads=1, seqlen_q=64, seqlen_k=64, head_dim=64)
        assert simulate(problem).time_s > 0
        stopped.set()
        with pytest.raises(Stopped):
            simulate(problem)
    finally:
        STOPPED.reset(token)


def test_less_than_one_worker_is_an_error() -> None:
    """Nobody would do the work."""
    with pytest.raises(ValueError, match="workers = 0: must be an integer of 1 or more"):
        run_all(abs, [1], workers=0)
