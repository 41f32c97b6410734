"""Several pieces of work, each with a limit of time: what one of them raises does not take the others along.

A piece goes through phases, which may be interleaved with those of others; its limit holds for all of them together.
"""

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf

from .stopping import OnProgress, OutOfTime, Stage, Stopped, limited, out_of_time
from .working_clock import thread_s

PACKAGE = f"{__name__.partition('.')[0]}."
"""What names of the program's own modules begin with."""
LONGEST_MESSAGE = 200


class Attempts:
    """Pieces of work, e.g. launches to predict.

    Args:
        names: of each piece; limit_s: that each may take, None: as long as it likes [s].
        on_progress: called when a phase begins.
        clock: gives the time now [s], by default CPU time of the thread that works.
    """

    def __init__(
        self,
        names: Sequence[str],
        limit_s: float | None = None,
        on_progress: OnProgress | None = None,
        clock: Callable[[], float] = thread_s,
    ) -> None:
        self.refused: dict[int, str] = {}
        """Number of each piece that failed -> why, in one line."""
        self._names, self._limit_s, self._clock = names, limit_s, clock
        self._tell = on_progress or (lambda stage: None)
        self._spent_s = [0.0] * len(names)

    @contextmanager
    def all_of(self, numbers: Sequence[int], phase: str) -> Iterator[None]:
        """A phase of several pieces together: what it raises is the reason why all of them are refused."""
        try:
            yield
        except Stopped:
            raise
        except Exception as error:
            for number in numbers:
                self.refused.setdefault(number, f"kernel {self._names[number]}: {internal(error, phase)}")

    @contextmanager
    def spare(self) -> Iterator[dict[int, str]]:
        """Work that an answer can do without: what fails of it refuses nothing. Gives: number -> why, at the end."""
        before, lost = dict(self.refused), dict[int, str]()
        try:
            yield lost
        finally:
            lost |= {number: why for number, why in self.refused.items() if number not in before}
            self.refused.clear()
            self.refused |= before

    @contextmanager
    def at(self, number: int, phase: str) -> Iterator[None]:
        """A phase of a piece of work: what it raises is the reason why that piece is refused, and ends here.

        Args:
            number: of the piece, from 0.

        Raises:
            Stopped: none of it is wanted any more.
        """
        name = self._names[number]
        self._tell(Stage(number=number + 1, total=len(self._names), name=name, phase=phase))
        begin_s = self._clock()
        until_s = begin_s + (inf if self._limit_s is None else self._limit_s) - self._spent_s[number]
        try:
            with limited(until_s, self._clock):
                yield
        except Stopped:
            raise
        except OutOfTime:
            self.refused[number] = f"kernel {name}: {out_of_time(self._limit_s or 0.0, phase)}"
        except Exception as error:
            self.refused[number] = f"kernel {name}: {internal(error, phase)}"
        finally:
            self._spent_s[number] += self._clock() - begin_s


def internal(error: BaseException, phase: str) -> str:
    """An error of the program itself, in one line: type, place, and what to do about it."""
    caught = error.__traceback__  # the frame that has caught it comes first
    frames = (
        (frame.f_globals.get("__name__", ""), line) for frame, line in traceback.walk_tb(caught and caught.tb_next)
    )
    inside = [f" at {module.removeprefix(PACKAGE)}:{line}" for module, line in frames if module.startswith(PACKAGE)]
    place = inside[-1] if inside else ""
    message = " ".join(str(error).split())[:LONGEST_MESSAGE]
    said = f": {message}" if message else ""
    return f"internal: {type(error).__name__}{place} (phase: {phase}){said}; please report this line and the kernel"
