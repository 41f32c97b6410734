"""How long an answer may take, and what is said meanwhile: which launch is under way, and its phase.

On a terminal that is one line on stderr that is overwritten, in a log a line now and then; what is quick says nothing.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from ..simulator.jobs.stopping import LIMIT_S, OutOfTime, Stage, limited, out_of_time
from .groups import Group, option
from .output import SAY_PROGRESS_EVERY_S, BadInput, Failed, one_line
from .parse import number

USERS_CODE_S = 120.0
"""What a user's function may take to make its launches, none of which run, and what the compiler may for each [s]."""
ALL_LIMIT_S = 60.0
"""What all configurations of `explore` may take together; those of the README take some 7 [s]."""


def seconds(doc: str) -> float | None:
    """A field of a group that is `--time-limit`."""
    return option(None, doc, "SECONDS", number)


SHOW_AFTER_S = 2.0
"""What is done sooner needs no such line."""
LOOK_EVERY_S = 0.5
OnProgress = Callable[[str], None]


class Stages:
    """Decides what is written, and when. Args: terminal: whether lines are overwritten; width: of it."""

    def __init__(self, terminal: bool, width: int = 80) -> None:
        self.now = ""
        """What is under way."""
        self._terminal, self._width = terminal, width
        self._shown, self._shown_s = "", 0.0

    def due(self, since_s: float) -> str:
        """What to write, or nothing. Args: since_s: since the work began [s]."""
        often = self._terminal or since_s - self._shown_s >= SAY_PROGRESS_EVERY_S
        if since_s < SHOW_AFTER_S or not self.now or not often:
            return ""
        if self._terminal:
            self._shown = self.now
            return f"\r\x1b[K{f'tilesight: {self.now}, {since_s:.0f} s'[: self._width - 1]}\r"
        if self.now == self._shown and since_s - self._shown_s < 4 * SAY_PROGRESS_EVERY_S:
            return ""
        self._shown, self._shown_s = self.now, since_s
        return f"tilesight: {self.now}, {since_s:.0f} s\n"

    @property
    def rest(self) -> str:
        """What takes the line away again."""
        return "\r\x1b[K" if self._terminal and self._shown else ""


@contextmanager
def stages() -> Iterator[OnProgress]:
    """Say what is under way.

    Yields:
        A function to call with the next thing that is, in a few words.
    """
    terminal = sys.stderr.isatty()
    width = os.get_terminal_size(sys.stderr.fileno()).columns if terminal else 80
    shown = Stages(terminal, width or 80)
    begin_s, done = monotonic(), threading.Event()

    def look() -> None:
        while not done.wait(LOOK_EVERY_S):
            _write(shown.due(monotonic() - begin_s))

    def on_progress(text: str) -> None:
        shown.now = one_line(text)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield on_progress
    finally:
        done.set()
        thread.join()
        _write(shown.rest)


def _write(text: str) -> None:
    if text:
        sys.stderr.write(text)
        sys.stderr.flush()


class WorkersOptions(Group):
    """How many processes to use."""

    workers: int | None = option(None, "Threads, or compiler processes, at a time.  [default: one per core]", least=1)

    @property
    def processes(self) -> int:
        """As many as the user asks for, or one per core."""
        from ..simulator.jobs.pool import cores

        return self.workers or cores()


class LimitOptions(Group):
    """What a function of the user's and its launches may take."""

    time_limit: float | None = seconds(
        "What the function may take, the compiler for each launch, and the prediction of each; what takes longer is"
        f" refused.  [default: {USERS_CODE_S:g}, {USERS_CODE_S:g}, {LIMIT_S:g}]"
    )

    @property
    def code_s(self) -> float:
        """For the user's function, and for the compiler [s]."""
        return self.time_limit or USERS_CODE_S


class SimulationLimit(Group):
    """What one configuration may take."""

    time_limit: float | None = seconds(
        f"What one configuration may take; what takes longer is refused.  [default: {LIMIT_S:g}]"
    )


class SimulationsLimit(SimulationLimit, WorkersOptions):
    """What each of several configurations may take, and how many processes to use."""


def limit_of(time_limit_s: float | None) -> float:
    """What a prediction may take: as was given, or as usual [s]. Raises: BadInput: it leaves no time."""
    if time_limit_s is not None and not time_limit_s > 0:
        raise BadInput(f"--time-limit = {time_limit_s:g}: must be more than 0 seconds")
    return LIMIT_S if time_limit_s is None else time_limit_s


def limit_of_all(time_limit_s: float | None) -> float:
    """What all configurations may take together: as was given, or as usual [s]. Raises: BadInput: it leaves no time."""
    return ALL_LIMIT_S if time_limit_s is None else limit_of(time_limit_s)


@contextmanager
def limited_answer(time_limit_s: float | None) -> Iterator[Callable[[Stage], None]]:
    """One answer that may take so long, with what is under way told meanwhile.

    Args:
        time_limit_s: None: the default [s].

    Yields:
        A function to call with each stage that is come to.

    Raises:
        Failed: it takes longer.
    """
    from ..simulator.jobs.working_clock import thread_s

    limit_s = limit_of(time_limit_s)
    reached = "begin"
    with stages() as on_progress:

        def come_to(stage: Stage) -> None:
            nonlocal reached
            reached = stage.text
            on_progress(reached)

        try:
            with limited(thread_s() + limit_s, thread_s):
                yield come_to
        except OutOfTime:
            raise Failed(out_of_time(limit_s, reached)) from None
