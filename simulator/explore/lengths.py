"""Holds schedules against each other over sequence lengths: time, bytes, device memory, and where memory runs out.

Each schedule runs in its fastest configuration of all that the options leave (`fastest`).
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from html import escape
from math import inf
from os import PathLike
from typing import TYPE_CHECKING, Any

from ..arguments import Settings, function_or_none, instance, optional_whole, several, whole
from ..device.device import Device, found_device
from ..display.columns import frame
from ..display.files import kept, written_by
from ..jobs.pool import Progress, run_all
from ..problems.attention import MAX_SEQLEN
from ..problems.problem import EXAMPLE, Problem
from ..resolve import ResourcesOf, Sources
from ..schedules.config import Config
from ..schedules.contract import Schedule
from ..schedules.registry import all_problems, baseline_of, find_schedule
from ..simulate import peak_memory_bytes
from ..store.pipelines import answers
from .candidate import ERROR_FRACTIONS, bound_notes, broken_notes
from .fastest import Point, along, plan, shortlist, survey_problem
from .space import unlike
from .trial import Trial, TrialSettings, ranking, with_code

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA = "tilesight.compare/1"
ESTIMATED = "est."
"""Stands before a time that comes from no machine code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How long sequences can get before device memory runs out.

    Args:
        schedule: name.
        longest_seqlen: the longest that fits; 0 where not even one token does.
        out_of_memory_seqlen: the shortest that does not fit; None where all lengths that can be asked for do.
    """

    schedule: str
    longest_seqlen: int
    out_of_memory_seqlen: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Schedules over sequence lengths.

    Args:
        problem: the first of the problems, the others differ in length.
        device_name: its name in the catalogue, or a path.
        chosen: schedule -> length -> the configuration found fastest there; tried: schedule -> of how many.
        points: by schedule, then length; limits: by schedule.
        left_out: schedule -> why it cannot compute the problem at all.
        notes: remarks for the user, one line each.
    """

    problem: Problem
    device: Device
    device_name: str
    chosen: dict[str, dict[int, Config]]
    tried: dict[str, int]
    seqlens: tuple[int, ...]
    points: tuple[Point, ...]
    limits: tuple[Limit, ...]
    left_out: dict[str, str]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line: which schedules, at which lengths, and where."""
        lengths = ", ".join(map(str, self.seqlens))
        return f"<Scaling: {', '.join(self.chosen)} at N = {lengths} on {self.device_name}>"

    def __str__(self) -> str:
        """The tables that `compare` prints."""
        text: str = written_by("lengths", "compare_text")(self)
        return text

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def rows(self) -> list[dict[str, Any]]:
        """A row per schedule and length: the columns of `compare --csv`."""
        return [{"device": self.device_name} | point.to_dict(self.speedup(point)) for point in self.points]

    def to_pandas(self) -> "DataFrame":
        """The same as a data frame. Raises: ImportError: pandas is not installed."""
        return frame(self.rows())

    def plot(self, file: str | PathLike[str] | None = None) -> bytes:
        """The picture of `compare --plot`, a PNG file.

        Args:
            file: to write it to.

        Raises:
            OSError: it cannot be written.
        """
        picture: bytes = kept(written_by("png", "compare_png")(self), file)
        return picture

    def point(self, schedule: str, seqlen: int) -> Point | None:
        """A schedule at a length; None where it was left out."""
        return next((point for point in self.points if (point.schedule, point.seqlen) == (schedule, seqlen)), None)

    def best(self, seqlen: int) -> Point | None:
        """The fastest at a length of those that solve the problem that most do, or of all where none does; or None.

        No estimate from tiles is the fastest where there is a prediction from machine code.
        """
        ran = [point for point in self.points if point.seqlen == seqlen and point.prediction]
        alike = [point for point in ran if find_schedule(point.schedule).problem is all_problems()[0]] or ran
        return min(alike, key=lambda point: (point.is_estimated, point.time_s), default=None)

    def speedup(self, point: Point) -> float | None:
        """Time of the baseline of the same problem, at the same length, over this point's time.

        None where one of them does not run, or the problem has no baseline.
        """
        baseline = baseline_of(find_schedule(point.schedule).problem)
        for other in self.points:
            if (
                baseline
                and other.schedule == baseline.name
                and other.seqlen == point.seqlen
                and other.prediction
                and point.prediction
            ):
                return other.prediction.time_s / point.prediction.time_s
        return None

    def to_dict(self) -> dict[str, object]:
        """The object that `compare --json` prints."""
        shape = {key: value for key, value in self.problem.to_dict().items() if not key.startswith("seqlen")}
        return {
            "schema": SCHEMA,
            "device": self.device_name,
            "problem": shape,
            "tried": self.tried,
            "seqlens": list(self.seqlens),
            "points": [point.to_dict(self.speedup(point)) for point in self.points],
            "limits": [asdict(limit) for limit in self.limits],
            "left_out": self.left_out,
            "notes": list(self.notes),
        }


@answers()
def compare(
    problem: Problem,
    seqlens: Sequence[int],
    *,
    schedule: str | Sequence[str] = "all",
    device: Device | str = "h200",
    l2: str = "cold",
    overhead: str = "stream",
    resources_of: ResourcesOf | None = None,
    cost: str = "compiled",
    workers: int | None = None,
    progress: Progress | None = None,
    time_limit_s: float = inf,
    **fixed: int | str,
) -> Scaling:
    """Simulate schedules over sequence lengths, each in its fastest configuration.

    Args:
        problem: everything but the lengths, which replace both of its own.
        seqlens: lengths; sorted, repeats left out.
        schedule: a name, several names, or `all` that solve the problem; a note says so where they solve
            different problems.
        device: a `Device`, a catalogue name or a path to a TOML file.
        l2, overhead, cost: as `simulate`.
        resources_of: compiles the kernels of schedules that are predicted from their code alone (`tilesight.compiler`);
            they are left out where None.
        workers, progress: as `explore`.
        time_limit_s: that the simulation of one configuration may take; it is left out beyond [s].
        fixed: options of the configuration, for the schedules that take them.

    Raises:
        ValueError: unknown name, a value that is not allowed, or an option that no schedule takes.
    """
    instance("problem", problem, Problem, EXAMPLE)
    lengths = {whole("seqlens", length) for length in several("seqlens", seqlens, "lengths, such as [1024, 2048]")}
    if not lengths:
        raise ValueError("seqlens: must hold at least one length")
    function_or_none("progress", progress, "(done, all)")
    gpu, name = found_device(device)
    problems = [problem.but(seqlen_q=length, seqlen_k=length) for length in sorted(lengths)]
    function_or_none("resources_of", resources_of, "the launches of configurations, such as tilesight.compiler()")
    space, left_out = plan(problems[0], schedule, fixed, cost, compiles=resources_of is not None)
    able = [find_schedule(name) for name in space]
    difference = unlike(able) if able else ""
    settings = TrialSettings(
        device=gpu,
        simulation=Settings(l2=l2, overhead=overhead),
        sources=Sources(cost=cost),
        resources_of=resources_of,
        workers=optional_whole("workers", workers),
        limit_s=time_limit_s,
    )
    jobs = [Trial(candidate=job) for some in space.values() if len(some) > 1 for job in some]
    survey = survey_problem(problems[-1])
    jobs = with_code(jobs, survey, settings)
    ranked = ranking(survey, settings, jobs, _part(progress, 0, len(jobs), len(able)))
    lists = [shortlist(name, some, ranked, problems[0], settings) for name, some in space.items()]
    along_all = partial(along, problems, settings)
    done = run_all(along_all, lists, settings.workers, _part(progress, len(jobs), len(able), len(jobs)))
    chosen = {
        item.name: {point.seqlen: point.config for point in along_lengths}
        for item, along_lengths in zip(able, done, strict=True)
    }
    points = [point for along_lengths in done for point in along_lengths]
    from_tiles = _from_tiles(points) if cost == "compiled" else ""
    return Scaling(
        problem=problems[0],
        device=gpu,
        device_name=name,
        chosen=chosen,
        tried={name: len(some) for name, some in space.items()},
        seqlens=tuple(posed.seqlen_q for posed in problems),
        points=tuple(points),
        limits=tuple(
            memory_limit(problem, item, along_lengths[-1].config, gpu)
            for item, along_lengths in zip(able, done, strict=True)
            if any(point.peak_memory_bytes for point in along_lengths)
        ),
        left_out=left_out,
        notes=tuple(
            note for note in (difference.capitalize(), from_tiles, *broken_notes(ranked), *bound_notes(ranked)) if note
        ),
    )


def _part(progress: Progress | None, before: int, jobs: int, others: int) -> Progress | None:
    """Progress of a part of the work. Args: before: jobs of earlier parts; jobs: of this; others: of all others."""
    return None if progress is None else lambda done, _: progress(before + done, jobs + others)


def _from_tiles(points: Sequence[Point]) -> str:
    """A line that says which schedules' times come from no machine code; empty where all do."""
    names = [point.schedule for point in points if point.is_estimated]
    if not names:
        return ""
    off, usual = (f"{100 * ERROR_FRACTIONS[cost]:.0f} %" for cost in ("tiles", "compiled"))
    return (
        f"{', '.join(dict.fromkeys(names))}: estimated from tile sizes (mean error {off}), not from machine code "
        f"(mean error {usual}), which the library of compiled kernels does not hold: times with {ESTIMATED} before "
        "them, none of which counts as the fastest where there is machine code"
    )


def memory_limit(problem: Problem, schedule: Schedule, config: Config, device: Device) -> Limit:
    """Where device memory runs out as both lengths grow together. Args: problem: everything but the lengths."""

    def held_bytes(length: int) -> int:
        return peak_memory_bytes(problem.but(seqlen_q=length, seqlen_k=length), schedule.name, config, device)

    return longest(schedule.name, held_bytes, device)


def longest(name: str, held_bytes: Callable[[int], int], device: Device) -> Limit:
    """Where device memory runs out: a binary search, as memory never shrinks.

    Args:
        name: of the schedule; held_bytes: most that is held at once at a length [B].
    """

    def fits(length: int) -> bool:
        try:
            return held_bytes(length) <= device.hbm_bytes
        except ValueError:  # a mask that goes with other lengths alone: memory is not what stops it
            return True

    low, high = 0, MAX_SEQLEN + 1  # low fits, high does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return Limit(schedule=name, longest_seqlen=low, out_of_memory_seqlen=high if high <= MAX_SEQLEN else None)
