"""Holds schedules against each other over sequence lengths: time, bytes, device memory, and where memory runs out.

Each schedule runs in its fastest configuration, of all that the options leave: at each length the fastest there,
up to a length beyond which trying all takes too long, and the choice hardly moves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from .candidate import Candidate
from .device import Device, device_name, load_device
from .explore import BASELINE, Settings, memory_reason, ranking
from .occupancy import DoesNotFit
from .pool import Progress, run_all
from .prediction import Prediction
from .problem import MAX_SEQLEN, AttentionProblem
from .registry import find_schedule
from .schedule import Config, Schedule
from .simulate import default_config, launches_of, peak_memory_bytes, simulate
from .space import configs_of, schedules_named, those_able, unlike

SCHEMA = "tilesight.compare/1"
SEARCH_SCORES = 1 << 26
"""Scores of the longest problem that all configurations are tried at, unless all are longer.

More would take minutes: of a schedule that stores its scores, 128 configurations take 12 to 19 s of a core at half of
that (a cloud machine, 2026-11-23).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One schedule at one sequence length.

    Args:
        schedule: name; seqlen: of queries and keys; config: choices.
        peak_memory_bytes: most device memory held at once; 0 where the schedule cannot do the problem [B].
        prediction: None where it does not run.
        reason: why it does not run, in one line; empty where it does.
    """

    schedule: str
    seqlen: int
    config: Config
    peak_memory_bytes: int = 0
    prediction: Prediction | None = None
    reason: str = ""

    @property
    def fits(self) -> bool:
        """Whether it runs on the device."""
        return not self.reason

    @property
    def time_s(self) -> float:
        """Predicted time [s]; infinite where it does not run."""
        return self.prediction.time_s if self.prediction else float("inf")

    def to_dict(self, speedup: float | None) -> dict[str, object]:
        """The object in `compare --json`. Args: speedup: over naive attention, None where one of them does not run."""
        told: dict[str, object] = {
            "schedule": self.schedule,
            "seqlen": self.seqlen,
            "fits": self.fits,
            "reason": self.reason,
            "config": {name: getattr(self.config, name) for name in find_schedule(self.schedule).options},
            "peak_memory_bytes": self.peak_memory_bytes,
            "speedup": speedup,
        }
        if self.prediction is None:
            return told | dict.fromkeys(POINT_KEYS)
        total = self.prediction.total_dict()
        return told | {key: total[key] for key in POINT_KEYS}


POINT_KEYS = (
    "time_s",
    "bottleneck",
    "bottleneck_share",
    "hbm_read_bytes",
    "hbm_write_bytes",
    "l2_read_bytes",
    "l2_write_bytes",
    "l2_hit_fraction",
    "fabric_bytes",
    "smem_fill_bytes",
    "matmul_flop",
    "executed_flop",
    "matmul_flop_per_s",
)


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
        chosen: schedule -> length -> the fastest configuration there, which stands for longer ones as well, up to the
            next length; tried: schedule -> of how many.
        points: by schedule, then length; limits: by schedule.
        left_out: schedule -> why it cannot compute the problem at all.
        notes: remarks for the user, one line each.
    """

    problem: AttentionProblem
    device: Device
    device_name: str
    chosen: dict[str, dict[int, Config]]
    tried: dict[str, int]
    seqlens: tuple[int, ...]
    points: tuple[Point, ...]
    limits: tuple[Limit, ...]
    left_out: dict[str, str]
    notes: tuple[str, ...] = ()

    def point(self, schedule: str, seqlen: int) -> Point | None:
        """A schedule at a length; None where it was left out."""
        return next((one for one in self.points if (one.schedule, one.seqlen) == (schedule, seqlen)), None)

    def best(self, seqlen: int) -> Point | None:
        """The fastest at a length of those that compute attention, or of all where none does; None where none runs."""
        ran = [one for one in self.points if one.seqlen == seqlen and one.prediction]
        alike = [one for one in ran if find_schedule(one.schedule).computes == "attention"] or ran
        return min(alike, key=lambda one: one.time_s, default=None)

    def speedup(self, point: Point) -> float | None:
        """Time of naive attention at the same length over this point's time.

        None where one of them does not run, or this point is not of attention.
        """
        if unlike([find_schedule(BASELINE), find_schedule(point.schedule)]):
            return None
        for other in self.points:
            if other.schedule == BASELINE and other.seqlen == point.seqlen and other.prediction and point.prediction:
                return other.prediction.time_s / point.prediction.time_s
        return None

    def to_dict(self) -> dict[str, object]:
        """The object that `compare --json` prints."""
        shape = {key: value for key, value in asdict(self.problem).items() if not key.startswith("seqlen")}
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


def compare(
    problem: AttentionProblem,
    seqlens: Sequence[int],
    *,
    schedule: str | Sequence[str] = "all",
    device: Device | str = "h200",
    l2: str = "cold",
    overhead: str = "stream",
    cost: str = "compiled",
    workers: int = 1,
    progress: Progress | None = None,
    **fixed: int | str,
) -> Scaling:
    """Simulate schedules over sequence lengths, each in its fastest configuration.

    Args:
        problem: everything but the lengths, which replace both of its own.
        seqlens: lengths; sorted, repeats left out. All configurations are tried where scores are at most
            `SEARCH_SCORES`, and at the shortest; what is longer takes the choice of the last that is not.
        schedule: a name, several names, or `all` that compute attention; a note says so where they compute
            different things.
        device: a `Device`, a catalogue name or a path to a TOML file.
        l2, overhead, cost: as `simulate`.
        workers, progress: as `explore`.
        fixed: options of the configuration, for the schedules that take them.

    Raises:
        ValueError: unknown name, a value that is not allowed, or an option that no schedule takes.
    """
    if not seqlens:
        raise ValueError("seqlens: must hold at least one length")
    gpu = load_device(device) if isinstance(device, str) else device
    problems = [replace(problem, seqlen_q=length, seqlen_k=length) for length in sorted(set(seqlens))]
    space, left_out = plan(problems[0], schedule, fixed)
    able = [find_schedule(name) for name in space]
    difference = unlike(able) if able else ""
    tried_at = [one for one in problems if one.scores <= SEARCH_SCORES] or problems[:1]
    settings: Settings = {"l2": l2, "overhead": overhead, "cost": cost}
    jobs = [job for some in space.values() if len(some) > 1 for job in some]
    total = len(jobs) * len(tried_at) + len(able) * len(problems)
    chosen: dict[str, dict[int, Config]] = {name: {} for name in space}
    for number, one in enumerate(tried_at):
        ranked = ranking(one, gpu, jobs, settings, workers, _part(progress, number * len(jobs), total))
        for name, some in space.items():
            chosen[name][one.seqlen_q] = _fastest(name, some, ranked, one, gpu, cost)
    points = run_all(
        partial(_point, gpu, settings),
        [(item.name, config_at(chosen[item.name], one.seqlen_q), one) for item in able for one in problems],
        workers,
        _part(progress, len(jobs) * len(tried_at), total),
    )
    return Scaling(
        problem=problems[0],
        device=gpu,
        device_name=device_name(device) if isinstance(device, str) else device.name,
        chosen=chosen,
        tried={name: len(some) for name, some in space.items()},
        seqlens=tuple(one.seqlen_q for one in problems),
        points=tuple(points),
        limits=tuple(
            memory_limit(problem, item, config_at(chosen[item.name], problems[-1].seqlen_q), gpu)
            for item in able
            if any(point.schedule == item.name and point.peak_memory_bytes for point in points)
        ),
        left_out=left_out,
        notes=(difference.capitalize(),) if difference else (),
    )


def config_at(chosen: Mapping[int, Config], seqlen: int) -> Config:
    """The configuration at a length. Args: chosen: as `Scaling` holds it for a schedule."""
    return chosen[max((length for length in chosen if length <= seqlen), default=min(chosen))]


def _part(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Progress of a part of the work. Args: before: jobs of earlier parts; total: of all parts."""
    return None if progress is None else lambda done, _: progress(before + done, total)


def plan(
    problem: AttentionProblem, schedule: str | Sequence[str], fixed: Mapping[str, int | str]
) -> tuple[dict[str, list[Candidate]], dict[str, str]]:
    """What `compare` chooses from: schedule -> configurations; and schedule -> why it cannot compute the problem.

    Raises:
        ValueError: as `compare`.
    """
    chosen = schedules_named(schedule)
    able, left_out = those_able(chosen, problem)
    return {
        item.name: [
            Candidate(schedule=item.name, config=config, options=item.options)
            for config in configs_of(item, chosen, fixed)
        ]
        for item in able
    }, left_out


def _fastest(
    schedule: str,
    space: Sequence[Candidate],
    ranked: Sequence[Candidate],
    problem: AttentionProblem,
    device: Device,
    cost: str,
) -> Config:
    """The best that fits; where none does, the only one there is, or the default, whose points then say why not."""
    best = next((item.config for item in ranked if item.schedule == schedule and item.fits), None)
    if best is None:
        best = space[0].config if len(space) == 1 else default_config(problem, schedule, device, cost)[0]
    return best


def _point(device: Device, settings: Settings, job: tuple[str, Config, AttentionProblem]) -> Point:
    schedule, config, problem = job
    point = Point(schedule=schedule, seqlen=problem.seqlen_q, config=config)
    try:
        launches_of(problem, schedule, config, device)
    except ValueError as error:
        return replace(point, reason=str(error))
    point = replace(point, peak_memory_bytes=peak_memory_bytes(problem, schedule, config, device))
    if point.peak_memory_bytes > device.hbm_bytes:
        return replace(point, reason=memory_reason(point.peak_memory_bytes, device))
    try:
        prediction = simulate(problem, schedule=schedule, config=config, device=device, **settings)  # type: ignore[arg-type]
    except DoesNotFit as error:
        return replace(point, reason=str(error))
    return replace(point, prediction=prediction)


def memory_limit(problem: AttentionProblem, schedule: Schedule, config: Config, device: Device) -> Limit:
    """Where device memory runs out as both lengths grow together: a binary search, as memory never shrinks.

    Args:
        problem: everything but the lengths.
    """

    def fits(length: int) -> bool:
        one = replace(problem, seqlen_q=length, seqlen_k=length)
        return peak_memory_bytes(one, schedule.name, config, device) <= device.hbm_bytes

    low, high = 0, MAX_SEQLEN + 1  # low fits, high does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return Limit(schedule=schedule.name, longest_seqlen=low, out_of_memory_seqlen=high if high <= MAX_SEQLEN else None)
