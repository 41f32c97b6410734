"""Holds schedules against each other over sequence lengths: time, bytes, device memory, and where memory runs out."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from .device import Device, load_device
from .explore import BASELINE, memory_reason
from .occupancy import DoesNotFit
from .pool import Progress, run_all
from .prediction import Prediction
from .problem import MAX_SEQLEN, AttentionProblem
from .registry import find_schedule
from .schedule import Config, Schedule
from .simulate import launches_of, peak_memory_bytes, simulate
from .space import options_taken, schedules_named, those_able, unlike

SCHEMA = "tilesight.compare/1"


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

    def to_dict(self, speedup: float | None) -> dict[str, object]:
        """The object in `compare --json`. Args: speedup: over naive attention, None where one of them does not run."""
        told: dict[str, object] = {
            "schedule": self.schedule,
            "seqlen": self.seqlen,
            "fits": self.fits,
            "reason": self.reason,
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
        problem: the first of the problems, the others differ in length; device_name: as the user gave it.
        configs: schedule -> the options that it reads, with their values.
        points: by schedule, then length; limits: by schedule.
        left_out: schedule -> why it cannot compute the problem at all.
        notes: remarks for the user, one line each.
    """

    problem: AttentionProblem
    device: Device
    device_name: str
    configs: dict[str, dict[str, object]]
    seqlens: tuple[int, ...]
    points: tuple[Point, ...]
    limits: tuple[Limit, ...]
    left_out: dict[str, str]
    notes: tuple[str, ...] = ()

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
            "configs": self.configs,
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
    workers: int | None = None,
    progress: Progress | None = None,
    **fixed: int | str,
) -> Scaling:
    """Simulate schedules over sequence lengths, each in its default configuration.

    Args:
        problem: everything but the lengths, which replace both of its own.
        seqlens: lengths; sorted, repeats left out.
        schedule: a name, several names, or `all` that compute attention; a note says so where they compute
            different things.
        device: a `Device`, a catalogue name or a path to a TOML file.
        l2, overhead: as `simulate`.
        workers, progress: as `explore`.
        fixed: options of the configuration, for the schedules that take them.

    Raises:
        ValueError: unknown name, a value that is not allowed, or an option that no schedule takes.
    """
    if not seqlens:
        raise ValueError("seqlens: must hold at least one length")
    gpu = load_device(device) if isinstance(device, str) else device
    problems = [replace(problem, seqlen_q=length, seqlen_k=length) for length in sorted(set(seqlens))]
    configs, left_out = plan(problems[0], schedule, fixed)
    able = [find_schedule(name) for name in configs]
    difference = unlike(able) if able else ""
    jobs = [(item.name, configs[item.name], one) for item in able for one in problems]
    points = run_all(partial(_point, gpu, l2, overhead), jobs, workers, progress)
    return Scaling(
        problem=problems[0],
        device=gpu,
        device_name=device if isinstance(device, str) else device.name,
        configs={item.name: {name: getattr(configs[item.name], name) for name in item.options} for item in able},
        seqlens=tuple(one.seqlen_q for one in problems),
        points=tuple(points),
        limits=tuple(
            memory_limit(problem, item, configs[item.name], gpu)
            for item in able
            if any(point.schedule == item.name and point.peak_memory_bytes for point in points)
        ),
        left_out=left_out,
        notes=(difference.capitalize(),) if difference else (),
    )


def plan(
    problem: AttentionProblem, schedule: str | Sequence[str], fixed: Mapping[str, int | str]
) -> tuple[dict[str, Config], dict[str, str]]:
    """What `compare` will simulate: schedule -> configuration; and schedule -> why it cannot compute the problem.

    Raises:
        ValueError: as `compare`.
    """
    chosen = schedules_named(schedule)
    able, left_out = those_able(chosen, problem)
    return {item.name: item.config(**options_taken(item, chosen, fixed)) for item in able}, left_out


def _point(device: Device, l2: str, overhead: str, job: tuple[str, Config, AttentionProblem]) -> Point:
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
        prediction = simulate(problem, schedule=schedule, config=config, device=device, l2=l2, overhead=overhead)
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
