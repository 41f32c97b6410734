"""Holds schedules against each other over sequence lengths: time, bytes, device memory, and where memory runs out.

Each schedule runs in its fastest configuration of all that the options leave, found in two steps: all are tried at one
short length (`survey_problem`), the best of them again at each length asked for, as long as that is quick.
For B = 4, H = 32, D = 64 on an H200 that costs at most 2.5 % at N = 512 to 8192 against trying all at every length:
naive 2.5 %, unfused 0.8 %, flash2_tma 0.6 %, flash1 and flash2 nothing (2026-11-23). Not all were tried of naive and
unfused beyond 1024 and of flash1 beyond 2048, but the best 4 to 14 of half that length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import isqrt

from .candidate import ERROR_FRACTIONS, Candidate
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
SURVEY_SCORES = 1 << 23
"""Most scores of the problem that all configurations are tried on.

A core of a cloud machine takes 6 s for five schedules of 128 configurations (2026-11-23).
"""
SURVEY_HEADS = 128
"""So many heads of all sequences fill a GPU with CTAs; more take longer and say the same."""
RETRIED = 16
"""So many of the best are tried again at the shortest length, a quarter of them at longer ones."""
RETRIED_BYTES = 1 << 29
"""Nothing is tried again where a schedule holds more device memory: it takes the choice of the length before.

One simulation of a schedule that stores its scores takes seconds there.
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
        chosen: schedule -> length -> the configuration found fastest there; tried: schedule -> of how many.
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
    workers: int | None = None,
    progress: Progress | None = None,
    **fixed: int | str,
) -> Scaling:
    """Simulate schedules over sequence lengths, each in its fastest configuration.

    Args:
        problem: everything but the lengths, which replace both of its own.
        seqlens: lengths; sorted, repeats left out.
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
    settings: Settings = {"l2": l2, "overhead": overhead, "cost": cost}
    jobs = [job for some in space.values() if len(some) > 1 for job in some]
    ranked = ranking(
        survey_problem(problems[-1]), gpu, jobs, settings, workers, _part(progress, 0, len(jobs), len(able))
    )
    lists = [_shortlist(name, some, ranked, problems[0], gpu, cost) for name, some in space.items()]
    done = run_all(
        partial(_along, problems, gpu, settings), lists, workers, _part(progress, len(jobs), len(able), len(jobs))
    )
    chosen = {item.name: {point.seqlen: point.config for point in own} for item, own in zip(able, done, strict=True)}
    points = [point for own in done for point in own]
    from_tiles = _from_tiles(points) if cost == "compiled" else ""
    return Scaling(
        problem=problems[0],
        device=gpu,
        device_name=device_name(device) if isinstance(device, str) else device.name,
        chosen=chosen,
        tried={name: len(some) for name, some in space.items()},
        seqlens=tuple(one.seqlen_q for one in problems),
        points=tuple(points),
        limits=tuple(
            memory_limit(problem, item, own[-1].config, gpu)
            for item, own in zip(able, done, strict=True)
            if any(point.peak_memory_bytes for point in own)
        ),
        left_out=left_out,
        notes=tuple(note for note in (difference.capitalize(), from_tiles) if note),
    )


def survey_problem(problem: AttentionProblem) -> AttentionProblem:
    """The problem that all configurations are tried on: enough CTAs to fill a GPU, and quick.

    Args:
        problem: the longest that is asked for.

    Returns:
        It with as few sequences as have `SURVEY_HEADS` heads, and the longest power of two of queries and keys whose
        scores are at most `SURVEY_SCORES`; or with its own length where that is shorter.
    """
    few = replace(problem, batch=min(problem.batch, -(-SURVEY_HEADS // problem.heads)))
    length = 1 << (isqrt(SURVEY_SCORES // (few.batch * few.heads)) or 1).bit_length() - 1
    length = min(length, problem.seqlen_q)
    return replace(few, seqlen_q=length, seqlen_k=length)


def _part(progress: Progress | None, before: int, own: int, others: int) -> Progress | None:
    """Progress of a part of the work. Args: before: jobs of earlier parts; own: of this; others: of all other parts."""
    return None if progress is None else lambda done, _: progress(before + done, own + others)


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


def _shortlist(
    schedule: str,
    space: Sequence[Candidate],
    ranked: Sequence[Candidate],
    problem: AttentionProblem,
    device: Device,
    cost: str,
) -> list[Candidate]:
    """The best that fit; where none does, the only one there is, or the default, whose points then say why not."""
    best = [item for item in ranked if item.schedule == schedule and item.fits][:RETRIED]
    if best or len(space) == 1:
        return [replace(item, prediction=None) for item in best or space]
    return [replace(space[0], config=default_config(problem, schedule, device, cost)[0])]


def _along(
    problems: Sequence[AttentionProblem], device: Device, settings: Settings, shortlist: Sequence[Candidate]
) -> list[Point]:
    """A schedule at each length, in the fastest there of the best. Args: problems: by length; shortlist: best first."""
    points = []
    best = list(shortlist)
    for one in problems:
        tried = best[:1]
        if _peak_bytes(one, best[0], device) <= RETRIED_BYTES:
            tried = best[: RETRIED if one is problems[0] else RETRIED // 4]
        if len(tried) > 1:
            again = [item for item in ranking(one, device, tried, settings, workers=1) if item.fits]
            best = [replace(item, prediction=None) for item in again] or best
            if again and (prediction := again[0].prediction):
                points.append(
                    Point(
                        schedule=best[0].schedule,
                        seqlen=one.seqlen_q,
                        config=best[0].config,
                        peak_memory_bytes=prediction.peak_memory_bytes,
                        prediction=prediction,
                    )
                )
                continue
        points.append(_point(device, settings, (best[0].schedule, best[0].config, one)))
    return points


def _peak_bytes(problem: AttentionProblem, candidate: Candidate, device: Device) -> int:
    """Peak device memory [B]; 0 where the schedule cannot do the problem."""
    try:
        return peak_memory_bytes(problem, candidate.schedule, candidate.config, device)
    except ValueError:
        return 0


def _from_tiles(points: Sequence[Point]) -> str:
    """A line that says which schedules' times come from no machine code; empty where all do."""
    names = [
        point.schedule
        for point in points
        if point.prediction and any(launch.cost != "compiled" for launch in point.prediction.launches)
    ]
    if not names:
        return ""
    off, usual = (f"{100 * ERROR_FRACTIONS[cost]:.0f} %" for cost in ("tiles", "compiled"))
    return (
        f"{', '.join(dict.fromkeys(names))}: estimated from tiles (off by {off} in the mean), not from machine code "
        f"({usual}), which the library of compiled kernels does not hold"
    )


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
