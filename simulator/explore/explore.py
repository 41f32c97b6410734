"""Ranks the configurations of one or several schedules: which is best, and what each costs in time and bytes.

Every configuration is simulated on its own, so the result does not depend on how many processes share the work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from os import PathLike
from typing import TYPE_CHECKING

from ..arguments import Settings, function_or_none, instance, optional_whole, whole
from ..device.device import Device, found_device
from ..display.columns import frame, html_table
from ..display.files import kept, page_made, written_by
from ..display.render import table
from ..display.words import plural
from ..jobs.pool import Progress, cores
from ..jobs.working_clock import process_s, thread_s
from ..prediction.prediction import Prediction
from ..problems.problem import EXAMPLE, Problem
from ..resolve import ResourcesOf, Sources
from ..schedules.registry import DEFAULT_SCHEDULE
from ..store.pipelines import answers
from .baseline import baselines
from .candidate import Candidate, mark_like_best, mark_pareto
from .fastest import plan, survey_problem
from .ranking import ranking_columns, ranking_rows, short_text
from .remarks import remarks
from .space import schedules_named
from .trial import (
    Trial,
    TrialSettings,
    answer_known,
    bounded,
    candidate_of,
    rank_of,
    ranking,
    tried,
    tried_all,
    with_launches,
    with_resources,
)
from .triton_configs import triton_configs_text

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA = "tilesight.explore/1"
SHOWN = 15
"""Rows of a table that is printed, or shown in a notebook."""
SHOWN_WIDTH = 120

SURVEY_FRACTION = 2.0 / 3.0
"""Of the time that all may take together, what finding the most promising ones may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """A ranked configuration space.

    Args:
        device: the GPU; device_name: its name in the catalogue, or a path.
        candidates: those that fit by time, then those that do not.
        baseline: naive attention in the fastest configuration found (of one that has to be compiled, as of the backward
            pass, in its default one), made to fit; None where it cannot run, or is not the same work.
        left_out: schedule -> why it cannot compute the problem at all.
        notes: remarks for the user, one line each.
        noted_rows: note -> number of the first of `ranked` that it speaks of, from 1; not of those that are on all.
    """

    problem: Problem
    device: Device
    device_name: str
    candidates: tuple[Candidate, ...]
    baseline: Prediction | None
    left_out: dict[str, str]
    notes: tuple[str, ...] = ()
    noted_rows: Mapping[str, int] = field(default_factory=dict)

    def notes_on(self, rows: int) -> list[str]:
        """The notes that speak of the first `rows` of `ranked`, or of all."""
        return [note for note in self.notes if self.noted_rows.get(note, 0) <= rows]

    @property
    def ranked(self) -> tuple[Candidate, ...]:
        """Those that fit, best first; behind them those that were not simulated, as they take longer."""
        return tuple(candidate for candidate in self.candidates if candidate.fits)

    @property
    def simulated(self) -> tuple[Candidate, ...]:
        """Those of `ranked` that were simulated."""
        return tuple(candidate for candidate in self.ranked if candidate.prediction)

    @property
    def title(self) -> str:
        """What was looked at, where, and how many configurations of it fit, in one line."""
        return f"{self.problem.text} on {self.device_name} ({self.device.name}): {self.count_text}"

    @property
    def count_text(self) -> str:
        """How many configurations there are, and how many of them fit; what lacks for time."""
        late = sum(item.is_unanswered for item in self.candidates)
        kept = f"predicted in time, {late} not" if late else "fit"
        return f"{plural(len(self.candidates), 'configuration')}, {len(self.ranked)} {kept}"

    def __repr__(self) -> str:
        """One line: what was looked at, and the best of it."""
        best = "".join(f"; best: {_best_text(self.candidates, item)}" for item in self.ranked[:1])
        return f"<Exploration: {self.title}{best}>"

    def __str__(self) -> str:
        """The table that `explore` prints, without the lines around it."""
        shown = self.simulated[:SHOWN]
        if not shown:
            return self.title
        return f"{self.title}\n{table(ranking_columns(shown, self.candidates), SHOWN_WIDTH)}"

    def _repr_html_(self) -> str:
        shown = self.simulated[:SHOWN]
        columns = ranking_columns(shown, self.candidates) if shown else []
        return html_table(self.title, columns, [f"Note: {note}" for note in self.notes_on(len(shown))])

    def to_pandas(self) -> "DataFrame":
        """A data frame: a row per configuration, in the order of `candidates`; the columns of `explore --csv`.

        Raises:
            ImportError: pandas is not installed.
        """
        return frame(ranking_rows(self.device_name, self.candidates))

    def to_html(self, file: str | PathLike[str] | None = None) -> str:
        """The report of `explore --html`. Args: file: to write it to. Raises: OSError: it cannot be written."""
        page: str = kept(written_by("html", "explore_html")(self, page_made("explore")), file)
        return page

    def plot(self, file: str | PathLike[str] | None = None) -> bytes:
        """The picture of `explore --plot`, a PNG file. Args: file: to write it to. Raises: OSError: as `to_html`."""
        picture: bytes = kept(written_by("png", "explore_png")(self), file)
        return picture

    def to_triton_configs(self, top: int = 5) -> str:
        """The best few as a list of `triton.Config`, to paste into `@triton.autotune`; what `--triton-configs` prints.

        Args:
            top: number, at most, of those that were simulated and fit.

        Raises:
            ValueError: less than one.
        """
        best = self.simulated[: whole("top", top)]
        return triton_configs_text(f"The best {len(best)} by prediction; {self.title}", best, self.notes)

    def to_dict(self, top: int | None = None) -> dict[str, object]:
        """The object that `explore --json` prints. Args: top: only that many of the ranked."""
        top = optional_whole("top", top)
        return {
            "schema": SCHEMA,
            "device": self.device_name,
            "problem": self.problem.to_dict(),
            "candidates": len(self.candidates),
            "fitting": len(self.ranked),
            "left_out": self.left_out,
            "baseline": None if self.baseline is None else candidate_of(self.baseline, self.device).to_dict(),
            "configs": [{"rank": rank, **item.to_dict()} for rank, item in enumerate(self.candidates[:top], 1)],
            "notes": list(self.notes),
        }


def _best_text(every: Sequence[Candidate], best: Candidate) -> str:
    return f"{short_text(every, best)}: {best.summary}"


@answers()
def explore(
    problem: Problem,
    *,
    schedule: str | Sequence[str] = DEFAULT_SCHEDULE,
    device: Device | str = "h200",
    l2: str = "cold",
    overhead: str = "stream",
    resolution: str = "chunk",
    registers: int | None = None,
    smem_bytes: int | None = None,
    resources_of: ResourcesOf | None = None,
    cost: str = "compiled",
    workers: int | None = None,
    progress: Progress | None = None,
    time_limit_s: float = inf,
    each_limit_s: float = inf,
    with_baseline: bool = True,
    best: int | None = None,
    **fixed: int | str | Sequence[int | str],
) -> Exploration:
    """Simulate a configuration space and rank it.

    Args:
        problem: what to compute.
        schedule: a name, several names, or `all` that solve the problem; all must solve the same problem.
        device: a `Device`, a catalogue name or a path to a TOML file.
        l2, overhead, resolution, registers, smem_bytes, cost: as `simulate`.
        resources_of: called once, here, with the launches of all configurations; what it says comes in the place of
            what `simulate` knows of them.
        workers: threads at most; one per core where None.
        progress: called with (configurations done, configurations in all).
        time_limit_s: that all may take of each worker's core, once kernels are compiled. Where one of them says that
            they take longer, those that are best at a short length come first, and those for which no time is left
            are left out [s].
        each_limit_s: that one may take of a core [s].
        with_baseline: whether naive attention is predicted, too, to hold the others against.
        best: so many of the fastest are asked for: what cannot be among them, by the least time that its busiest pipe
            takes, is not simulated; None: all are.
        fixed: options of the configuration with the value, or values, to look at, e.g. `block_m=(64, 128)`.

    Raises:
        ValueError: unknown name, schedules of different problems, a value that is not allowed,
            an option that no schedule takes, or a single schedule that cannot compute the problem.
    """
    instance("problem", problem, Problem, EXAMPLE)
    function_or_none("resources_of", resources_of, "the launches of configurations, such as tilesight.compiler()")
    function_or_none("progress", progress, "(done, all)")
    best = optional_whole("best", best)
    sources = Sources(
        registers=optional_whole("registers", registers),
        smem_bytes=optional_whole("smem_bytes", smem_bytes, 0),
        cost=cost,
    )
    gpu, name = found_device(device)
    settings = TrialSettings(
        device=gpu,
        simulation=Settings(l2=l2, overhead=overhead, resolution=resolution),
        sources=sources,
        workers=optional_whole("workers", workers),
        limit_s=each_limit_s,
    )
    space, left_out = plan(problem, schedule, fixed, sources.cycles, compiles=resources_of is not None, alike=True)
    jobs = [job for some in space.values() for job in some]
    trials = [with_launches(Trial(candidate=job), problem, gpu) for job in jobs]
    together_s = time_limit_s * (settings.workers or cores())
    # The baseline is in its own configuration whatever else is given.
    usual = replace(settings.simulation, resolution="chunk")
    plain = replace(settings, simulation=usual, sources=Sources(cost=cost))
    like = schedules_named(schedule, type(problem))[0]
    against = baselines(problem, like, plain.within(together_s)) if with_baseline else []
    if resources_of:
        both = with_resources([*against, *trials], resources_of)
        against, trials = both[: len(against)], both[len(against) :]
    settings = settings.within(together_s)
    if best:
        trials = [bounded(problem, settings, trial) for trial in trials]
    if time_limit_s < inf and not all(trial.least_s or trial.candidate.reason for trial in trials):
        trials = _in_time(problem, trials, settings)
    plain = replace(plain, until_s=settings.until_s)
    # The baseline is none of the configurations that are counted.
    fastest = ranking(problem, plain, against)
    done = tried_all(problem, settings, trials, progress, best)
    candidates = mark_like_best(mark_pareto(sorted((trial.candidate for trial in done), key=rank_of)))

    def tried_too(others: Sequence[Candidate]) -> list[Candidate]:
        more = [with_launches(Trial(candidate=other), problem, gpu) for other in others]
        more = with_resources(more, resources_of) if resources_of and more else more
        return [tried(problem, settings, trial).candidate for trial in more]

    notes, noted_rows = remarks(problem, gpu, done, candidates, tried_too)
    return Exploration(
        problem=problem,
        device=gpu,
        device_name=name,
        candidates=tuple(candidates),
        baseline=fastest[0].prediction if fastest else None,
        left_out=left_out,
        notes=notes,
        noted_rows=noted_rows,
    )


def takes_longer(limit_s: float, problem: Problem, trials: Sequence[Trial], settings: TrialSettings) -> bool:
    """Whether trials take more of the cores than they may, by one from the middle of those that are not known."""
    waiting = [trial for trial in trials if not answer_known(problem, settings, trial)]
    if not waiting:
        return False
    begin_s = thread_s()
    tried(problem, settings, waiting[len(waiting) // 2])
    return (thread_s() - begin_s) * len(waiting) > limit_s


def _in_time(problem: Problem, trials: list[Trial], settings: TrialSettings) -> list[Trial]:
    """Trials; those that rank best at a short length come first where all take longer than they may."""
    left_s = settings.until_s - process_s()
    if not takes_longer(left_s, problem, trials, settings):
        return trials
    survey = replace(settings, until_s=settings.until_s - (1.0 - SURVEY_FRACTION) * left_s)
    plain = [Trial(candidate=replace(trial.candidate, resources=None)) for trial in trials]
    ranked = ranking(survey_problem(problem), survey, plain)
    places = {(item.schedule, item.config): place for place, item in enumerate(ranked)}
    return sorted(trials, key=lambda trial: places[trial.candidate.schedule, trial.candidate.config])
