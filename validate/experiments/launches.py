"""Which kernels a way of computing attention launches, and how its time splits: predicted beside profiled.

Our schedules are predicted as they are. Two others are held against the schedule that does the same:
torch eager without the kernels that it has no need of, and SDPA (`Schedule.peer`).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...simulator.device.device import Device
from ...simulator.jobs.pool import Progress
from ...simulator.prediction.prediction import LaunchPrediction, Prediction
from ...simulator.problems.attention import AttentionProblem
from ...simulator.refusal import Refusal
from ...simulator.schedules.registry import all_schedules, find_schedule, schedule_like
from ..compare.campaign import Compiler, predict_points
from ..measure.run_point import job_of
from ..measure.session import Ask
from ..measurement import reason_in
from ..points.point import default_point
from ..timing.kernel_runs import KernelRun, Pass, family_of, pass_of

SCHEMA = "tilesight.launches/1"
WAYS = ("stream", "graph")
PEER_SUBJECTS: Mapping[str, str] = {peer: schedule_like(peer).name for peer in ("eager", "sdpa")}
"""PyTorch's ways -> the schedule that does the same."""
UNFUSED, FUSED = PEER_SUBJECTS.values()
STANDARD = next(
    schedule.name for schedule in all_schedules().values() if schedule.baseline and schedule.problem is AttentionProblem
)
SUBJECTS: Mapping[str, str] = {
    "eager": UNFUSED,
    STANDARD: STANDARD,
    UNFUSED: UNFUSED,
    FUSED: FUSED,
    "sdpa": FUSED,
}
"""What is profiled -> the schedule that predicts it."""
ELEMENTWISE = ("scale", "mask", "dropout")
"""Launches of the unfused schedule that are elementwise operations in eager code."""
INDEXED = (1 << 31) - 1
"""Elements that one elementwise kernel of torch addresses: it halves larger tensors until they fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(Pass):
    """How one pass splits into kernels, predicted or profiled.

    Args:
        kernels, gap_s: as of `Pass`.
        fused_fraction: share of the time in kernels that one fused attention kernel takes; 0 where there is none.
    """

    fused_fraction: float

    def to_dict(self) -> dict[str, Any]:
        """The split's object in JSON."""
        name, share = self.dominating
        return {
            "count": self.count,
            "dominating": name,
            "dominating_fraction": share,
            "fused_fraction": self.fused_fraction,
            "busy_s": self.busy_s,
            "gap_s": self.gap_s,
            "gap_fraction": self.gap_fraction,
            "kernels": [{"name": kernel, "time_s": time_s} for kernel, time_s in self.kernels],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRow:
    """One way of computing attention, in a stream or in a CUDA graph.

    Args:
        subject: one of `SUBJECTS`.
        way: `stream` or `graph`.
        predicted: what it should launch.
        profiled: what it does; None where it was not profiled.
        reason: why it was not profiled; else empty.
        family: of the kernels that a peer ran.
    """

    subject: str
    way: str
    predicted: Split
    profiled: Split | None = None
    reason: str = ""
    family: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The row's object in JSON."""
        return {
            "subject": self.subject,
            "way": self.way,
            "predicted": self.predicted.to_dict(),
            "profiled": self.profiled and self.profiled.to_dict(),
            "reason": self.reason,
            "family": self.family,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchReport:
    """All ways of computing one problem.

    Args:
        problem: what is computed.
        device: name.
        rows: by way, then subject.
    """

    problem: AttentionProblem
    device: str
    rows: tuple[LaunchRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """The object that `validate --launches --json` prints."""
        rows = [row.to_dict() for row in self.rows]
        return {"schema": SCHEMA, "device": self.device, "problem": asdict(self.problem), "rows": rows}


def predict_launches(
    problem: AttentionProblem,
    device: Device,
    *,
    compiler: Compiler | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> LaunchReport:
    """What each way of computing a problem should launch, warm; needs no GPU.

    Ways whose schedule has none of what the problem asks for (dropout) are left out.

    Args:
        compiler: gives registers and shared memory of launches; they are estimated where None.
        workers, progress: as `simulator.explore`.

    Raises:
        ValueError: a schedule cannot do the problem.
    """
    subjects = {name: schedule for name, schedule in SUBJECTS.items() if not find_schedule(schedule).why_not(problem)}
    points = [default_point(name, problem) for name in dict.fromkeys(subjects.values())]
    outcomes = predict_points(points, device, compiler=compiler, overheads=WAYS, workers=workers, progress=progress)
    by_schedule: dict[tuple[str, str], Prediction] = {}
    for (point, way), prediction in outcomes.items():
        if isinstance(prediction, Refusal):
            raise ValueError(f"schedule {point.schedule}: {prediction.reason}")
        by_schedule[point.schedule, way] = prediction
    rows = tuple(
        LaunchRow(subject=subject, way=way, predicted=_predicted(subject, by_schedule[schedule, way], problem))
        for way in WAYS
        for subject, schedule in subjects.items()
    )
    return LaunchReport(problem=problem, device=device.name, rows=rows)


def profile_launches(
    report: LaunchReport,
    device: Mapping[str, Any],
    ask: Ask,
    *,
    progress: Progress | None = None,
) -> LaunchReport:
    """Profile every row of a report.

    Args:
        report: what is predicted.
        device: as in jobs: `name`, and `set`.
        ask: has a process on a GPU answer a job (see `session.Ask`).
        progress: called with (rows, all).
    """
    rows = []
    for row in report.rows:
        if row.subject in PEER_SUBJECTS:
            job = {"do": "profile", "peer": row.subject, "problem": asdict(report.problem)}
        else:
            job = job_of(default_point(row.subject, report.problem), device, do="profile")
        rows.append(profiled(row, ask({**job, "way": row.way})))
        if progress:
            progress(len(rows), len(report.rows))
    return replace(report, rows=tuple(rows))


def profiled(row: LaunchRow, answer: Mapping[str, Any]) -> LaunchRow:
    """A row with what a profile says of it, or with the reason why there is none."""
    if "kernels" not in answer:
        return replace(row, reason=reason_in(answer))
    kernels = [KernelRun.from_dict(kernel) for kernel in answer["kernels"]]
    try:
        whole = pass_of(kernels, answer["passes"])
    except ValueError as error:
        return replace(row, reason=str(error))
    fused = max((time_s for name, time_s in whole.kernels if _is_fused(name, row.predicted)), default=0.0)
    split = Split(kernels=whole.kernels, gap_s=whole.gap_s, fused_fraction=fused / whole.busy_s)
    return replace(row, profiled=split, family=family_of([name for name, _ in whole.kernels]))


def _predicted(subject: str, prediction: Prediction, problem: AttentionProblem) -> Split:
    launches = [launch for launch in prediction.launches if subject != "eager" or _eager_needs(launch.name, problem)]
    parts = {launch.name: eager_parts(launch.name, problem) if subject == "eager" else 1 for launch in launches}
    kernels = tuple(
        (launch.name, _kernel_s(launch) / parts[launch.name]) for launch in launches for _ in range(parts[launch.name])
    )
    busy_s = sum(time_s for _, time_s in kernels)
    fused = busy_s if len(prediction.launches) == 1 else 0.0
    # A gap follows each kernel; the last one's is not between kernels.
    gaps = [launch.overhead_s for launch in launches[:-1]]
    return Split(kernels=kernels, gap_s=sum(gaps), fused_fraction=fused / busy_s)


def _kernel_s(launch: LaunchPrediction) -> float:
    return launch.traffic.time_s - launch.overhead_s


def _eager_needs(name: str, problem: AttentionProblem) -> bool:
    """Eager code leaves out a mask that hides nothing and a dropout that drops nothing; the schedule runs both."""
    return {"mask": problem.causal, "dropout": problem.dropout > 0}.get(name, True)


def eager_parts(name: str, problem: AttentionProblem) -> int:
    """Kernels that eager code runs for one operation on all scores."""
    scores = problem.batch * problem.heads * problem.seqlen_q * problem.seqlen_k
    parts = 1
    while name in ELEMENTWISE and scores > parts * INDEXED:
        parts *= 2
    return parts


def _is_fused(name: str, predicted: Split) -> bool:
    """Whether a kernel is a whole attention: the only one of a schedule, or one of a known family."""
    alone = [kernel for kernel, _ in predicted.kernels] == [name.removesuffix("_kernel")]
    return alone or family_of([name]) not in ("math", "unknown")
