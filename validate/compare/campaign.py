"""The whole flow of a validation, in order.

compile   registers and shared memory of every launch    (kernels.compile)
measure   on the GPUs, each row kept as soon as it is known    (workers, results)
predict   with the resources that the compiler promised    (simulator)
compare   predicted beside measured    (compare)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ...simulator.arguments import Settings
from ...simulator.device.device import Device
from ...simulator.jobs.pool import Progress, run_all
from ...simulator.launch.program import Launch, Resources
from ...simulator.refusal import Refusal
from ...simulator.resolve import Sources, resolve
from ...simulator.simulate import predict
from ..measure.results_file import Header, Row
from ..measure.session import CHUNK, PointSession, Task, run_tasks
from ..measurement import Lost
from ..points.point import HALVES, Point
from ..timing.timing import OVERHEAD
from .compare import Comparison, Ranking, Statistic, all_statistics, compare, rankings
from .verdict import Verdict, verdicts

SCHEMA = "tilesight.validation/1"
Compiler = Callable[[Sequence[Launch]], Sequence[Resources | Refusal]]
"""Launches -> resources of each, or why it cannot run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """What holds over some of the points.

    Args:
        name: `all`, `fitting` or `test`.
        points: that count.
        statistics: quantity -> errors.
        rankings: of the configurations of shapes.
        verdicts: one for each rule.
    """

    name: str
    points: int
    statistics: Mapping[str, Statistic]
    rankings: Sequence[Ranking]
    verdicts: Sequence[Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Everything that a validation says.

    Args:
        header: where and with what was measured.
        device: that predictions are for.
        comparisons: one for each point, in the order asked for.
        notes: remarks for the user, one line each.
    """

    header: Header
    device: Device
    comparisons: Sequence[Comparison]
    notes: tuple[str, ...] = ()

    @property
    def trusted(self) -> list[Comparison]:
        """Those that nothing speaks against."""
        return [comparison for comparison in self.comparisons if not comparison.objections]

    @property
    def left_out(self) -> list[Comparison]:
        """Those that something speaks against."""
        return [comparison for comparison in self.comparisons if comparison.objections]

    def half(self, name: str = "all") -> Half:
        """Statistics and verdicts over all points, or those of a half."""
        chosen = [comparison for comparison in self.trusted if name in ("all", comparison.point.half)]
        figures, ranked = all_statistics(chosen), rankings(chosen)
        return Half(
            name=name, points=len(chosen), statistics=figures, rankings=ranked, verdicts=verdicts(figures, ranked)
        )

    def to_dict(self) -> dict[str, Any]:
        """The object that `validate --json` prints."""
        halves = {}
        for name in ("all", *HALVES):
            half = self.half(name)
            halves[name] = {
                "points": half.points,
                "statistics": [entry.to_dict() for entry in half.statistics.values()],
                "rankings": [entry.to_dict() for entry in half.rankings],
                "verdicts": [entry.to_dict() for entry in half.verdicts],
            }
        return {
            "schema": SCHEMA,
            "machine": self.header.machine.to_dict(),
            "device": self.header.device,
            "points": [comparison.to_dict() for comparison in self.comparisons],
            "halves": halves,
            "notes": list(self.notes),
        }


def compiled(
    points: Sequence[Point], device: Device, compiler: Compiler | None = None
) -> list[tuple[Launch, ...] | Refusal]:
    """The launches of each point, with what the compiler promises of them; or why it cannot run.

    Args:
        points: to build and compile.
        device: that launches are built for.
        compiler: resources stay estimates where None.
    """
    pipelines = [point.attempt(device) for point in points]
    if compiler is None:
        return pipelines
    wanted = [launch for chain in pipelines if not isinstance(chain, Refusal) for launch in chain]
    promised = iter(compiler(wanted) if wanted else ())
    return [
        chain if isinstance(chain, Refusal) else _with(chain, [next(promised) for _ in chain]) for chain in pipelines
    ]


def _with(chain: tuple[Launch, ...], promised: Sequence[Resources | Refusal]) -> tuple[Launch, ...] | Refusal:
    """Launches with their resources; or why the first of those that cannot run does not."""
    made: list[Launch] = []
    for launch, resources in zip(chain, promised, strict=True):
        if isinstance(resources, Refusal):
            return resources
        made.append(replace(launch, resources=resources))
    return tuple(made)


def plan(points: Sequence[Point], device: Device, compiler: Compiler) -> tuple[list[Task], list[Row]]:
    """What can be measured; and rows of the points that cannot run at all, with the reason."""
    tasks, rows = [], []
    for point, launches in zip(points, compiled(points, device, compiler), strict=True):
        if isinstance(launches, Refusal):
            lost = Lost(key=point.key, reason=f"cannot run: {launches.reason}")
            rows.append(Row(point=point, resources=(), outcome=lost))
        else:
            tasks.append(Task(point=point, launches=launches))
    return tasks, rows


def measure_points(
    points: Sequence[Point],
    device: Device,
    sessions: Sequence[PointSession],
    compiler: Compiler,
    *,
    known: Sequence[Row],
    keep: Callable[[Row], None],
    progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """Measure the points that are not known yet.

    Args:
        points: to measure.
        device: that launches are built for.
        sessions: one per GPU.
        compiler: says what each launch takes.
        known: rows of an earlier run.
        keep: called with every new row as soon as it is known.
        progress: called with (rows, points).

    Returns:
        A row for each point, in order.
    """
    rows = {row.point: row for row in known}

    def kept(row: Row) -> None:
        keep(row)
        rows[row.point] = row

    # Batch by batch: a run that is cut off has lost the compilation of one batch, not of all.
    asked, size = [point for point in points if point not in rows], CHUNK * len(sessions)
    for first in range(0, len(asked), size):
        tasks, hopeless = plan(asked[first : first + size], device, compiler)
        for row in hopeless:
            kept(row)
        tick = partial(_ticked, progress, sum(point in rows for point in points), len(points))
        if tasks:
            run_tasks(tasks, sessions, kept, tick)
    return [rows[point] for point in points]


def _ticked(progress: Callable[[int, int], None] | None, before: int, total: int, done: int) -> None:
    if progress:
        progress(before + done, total)


def compare_rows(
    rows: Sequence[Row], device: Device, *, workers: int | None = None, progress: Progress | None = None
) -> list[Comparison]:
    """Predict what was measured, and hold both against each other."""
    return run_all(partial(_compared, device), rows, workers, progress)


def _compared(device: Device, row: Row) -> Comparison:
    if isinstance(row.outcome, Lost):
        return compare(row, None)
    point, sources = row.point, Sources(resources=row.resources or None)
    resolved = resolve(point.problem, point.schedule, point.config, device, sources)
    if isinstance(resolved, Refusal):
        return compare(row, replace(resolved, reason=f"cannot be predicted: {resolved.reason}"))
    return compare(row, predict(resolved, device, Settings(l2=point.l2, overhead=OVERHEAD)))
