"""Pieces of work that may fail or take too long: the others keep their answers, and each says why it has none."""

from threading import Event

import pytest
from numba.core import event
from tilesight.simulator.core import jit
from tilesight.simulator.jobs import working_clock
from tilesight.simulator.jobs.attempts import Attempts
from tilesight.simulator.jobs.stopping import STOPPED, Stage, Stopped, check_wanted


class Clock:
    """A clock that is set by hand."""

    now_s = 100.0

    def __call__(self) -> float:
        """The time [s]."""
        return self.now_s


def working(attempts: Attempts, clock: Clock, number: int, phase: str, time_s: float) -> None:
    """Work of so long."""
    with attempts.at(number, phase):
        clock.now_s += time_s
        check_wanted()


def test_what_takes_too_long_is_refused_and_the_others_go_on() -> None:
    """With limit, phase and a way out."""
    clock = Clock()
    attempts = Attempts(["first", "second"], 10.0, clock=clock)
    working(attempts, clock, 0, "trace", 10.5)
    working(attempts, clock, 1, "trace", 9.5)
    assert attempts.refused == {
        0: "kernel first: no answer within 10 s (phase: trace); a longer --time-limit may give one"
    }


def test_the_limit_holds_for_all_phases_of_a_piece_together() -> None:
    """Those of others between them do not count."""
    clock = Clock()
    attempts = Attempts(["first", "second"], 10.0, clock=clock)
    for number, phase, time_s in ((0, "trace", 6), (1, "trace", 6), (0, "simulate", 3), (1, "simulate", 5)):
        working(attempts, clock, number, phase, time_s)
    assert list(attempts.refused) == [1]
    assert "(phase: simulate)" in attempts.refused[1]


def test_work_that_can_be_spared_refuses_nothing() -> None:
    """What fails of it is told; what had failed before stays refused, and later failures count again."""
    clock = Clock()
    attempts = Attempts(["first", "second", "third"], 10.0, clock=clock)
    working(attempts, clock, 0, "trace", 11.0)
    with attempts.spare() as lost:
        working(attempts, clock, 1, "advice", 11.0)
    assert list(attempts.refused) == [0]
    assert list(lost) == [1] and "(phase: advice)" in lost[1]
    working(attempts, clock, 2, "trace", 11.0)
    assert list(attempts.refused) == [0, 2]


def test_without_a_limit_work_may_take_any_time() -> None:
    """As the doors of Python have it."""
    clock = Clock()
    attempts = Attempts(["first"], clock=clock)
    working(attempts, clock, 0, "trace", 1e9)
    assert not attempts.refused


def test_no_deadline_is_left_behind() -> None:
    """What comes after an attempt has no limit of its."""
    clock = Clock()
    attempts = Attempts(["first"], 1.0, clock=clock)
    working(attempts, clock, 0, "trace", 2.0)
    check_wanted()


def test_an_error_of_the_program_is_a_reason_with_type_place_and_phase() -> None:
    """One line that can be reported."""
    attempts = Attempts(["first", "second"])
    with attempts.at(0, "trace"):
        Attempts([], None, on_progress=None, clock="no clock").at(0, "x").__enter__()  # type: ignore[arg-type]
    (line,) = attempts.refused.values()
    assert line.startswith("kernel first: internal: IndexError at simulator.jobs.attempts:")
    assert line.endswith("(phase: trace): list index out of range; please report this line and the kernel")
    with attempts.all_of([0, 1], "memory"):
        raise TypeError("two\nlines")
    assert attempts.refused[0] == line
    assert "internal: TypeError (phase: memory): two lines;" in attempts.refused[1]


def test_what_nobody_wants_is_no_refusal() -> None:
    """Whoever stopped it does not ask for a reason."""
    attempts, stopped = Attempts(["first"]), Event()
    stopped.set()
    token = STOPPED.set(stopped)
    try:
        with pytest.raises(Stopped), attempts.at(0, "trace"):
            check_wanted()
    finally:
        STOPPED.reset(token)
    assert not attempts.refused


def test_each_phase_is_told() -> None:
    """By number, name and phase."""
    stages: list[Stage] = []
    attempts = Attempts(["first", "second"], on_progress=stages.append)
    with attempts.at(1, "trace"):
        pass
    assert [stage.text for stage in stages] == ["launch 2 of 2, second: trace"]


def test_the_clock_stands_still_while_numba_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that one calls are compiled inside of it, and count once; who loads the loops has the clock told."""
    assert jit.COMPILING is working_clock.COMPILING
    clock = Clock()
    for name in ("monotonic", "thread_time", "process_time"):
        monkeypatch.setattr(working_clock, name, clock)
    thread_s, process_s = working_clock.thread_s(), working_clock.process_s()
    clock.now_s += 5
    for step in (event.start_event, event.start_event, event.end_event):
        step("numba:compile")
        clock.now_s += 10
    assert working_clock.process_s() - process_s == pytest.approx(5)
    event.end_event("numba:compile")
    clock.now_s += 2
    assert working_clock.process_s() - process_s == pytest.approx(7) == working_clock.thread_s() - thread_s


def test_a_piece_is_limited_by_what_its_thread_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the time that passes while others have the cores, nor by what numba compiles in it."""
    clock, cpu = Clock(), Clock()
    monkeypatch.setattr(working_clock, "monotonic", clock)
    monkeypatch.setattr(working_clock, "thread_time", cpu)
    attempts = Attempts(["a"], 10.0)
    with attempts.at(0, "trace"):
        clock.now_s += 1000
        event.start_event("numba:compile")
        cpu.now_s += 100
        event.end_event("numba:compile")
        cpu.now_s += 9
        check_wanted()
    assert not attempts.refused
    with attempts.at(0, "simulate"):
        cpu.now_s += 2
        check_wanted()
    assert attempts.refused == {
        0: "kernel a: no answer within 10 s (phase: simulate); a longer --time-limit may give one"
    }
