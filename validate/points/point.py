"""What is validated: a point is a schedule, a problem, a configuration and the state of the L2 before the first launch.

Points have keys that people can read and type patterns for, and fall into two halves by the hash of their problem:
constants may be fitted on one half, errors are reported on the other. All configurations of a problem fall together.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import Any

from ... import kernels
from ...simulator.device.device import Device
from ...simulator.launch.program import Launch
from ...simulator.problems.attention import AttentionProblem
from ...simulator.problems.attention_backward import AttentionBackwardProblem
from ...simulator.problems.latent_attention import LatentAttentionProblem
from ...simulator.problems.problem import Problem
from ...simulator.problems.softmax import SoftmaxProblem
from ...simulator.refusal import Refusal, granted
from ...simulator.resolve import attempt_launches
from ...simulator.schedules.config import Config
from ...simulator.schedules.registry import all_schedules, find_schedule
from .shapes import SHAPES, problem_for

HALVES = ("fitting", "test")
JUDGED = (AttentionProblem, AttentionBackwardProblem, LatentAttentionProblem, SoftmaxProblem)
"""Problems of which `measure.oracle` knows what is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One thing to predict and to measure. Args: schedule: name; problem; config; l2: `cold` or `warm`."""

    schedule: str
    problem: Problem
    config: Config
    l2: str = "cold"

    def __post_init__(self) -> None:
        object.__setattr__(self, "problem", find_schedule(self.schedule).problem.of(self.problem))

    @property
    def config_dict(self) -> dict[str, int | str]:
        """The options that the schedule reads, with their values."""
        return {name: getattr(self.config, name) for name in find_schedule(self.schedule).options}

    @property
    def shape(self) -> str:
        """The problem in a word, e.g. `B4-H32-G8-M4096-N4096-D64-fp16-causal`."""
        return self.problem.key

    @property
    def key(self) -> str:
        """The point in a word: schedule/shape/options/l2."""
        options = ",".join(f"{name}={value}" for name, value in self.config_dict.items())
        return f"{self.schedule}/{self.shape}/{options}/{self.l2}"

    @property
    def half(self) -> str:
        """`fitting` or `test`, by the first bit of the hash of the shape."""
        return HALVES[hashlib.sha256(self.shape.encode()).digest()[0] >> 7]

    def launches(self, device: Device) -> tuple[Launch, ...]:
        """What runs. Raises: ValueError: the schedule or the device cannot do it."""
        return granted(self.attempt(device))

    def attempt(self, device: Device) -> tuple[Launch, ...] | Refusal:
        """What runs; or why the schedule or the device cannot do it."""
        return attempt_launches(self.problem, self.schedule, self.config, device)

    def to_dict(self) -> dict[str, Any]:
        """The point's object in JSON."""
        problem = self.problem.to_dict()
        return {"schedule": self.schedule, "problem": problem, "config": self.config_dict, "l2": self.l2}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> "Point":
        """The point of a JSON object. Raises: KeyError, TypeError, ValueError: it is none."""
        return cls(
            schedule=entry["schedule"],
            problem=find_schedule(entry["schedule"]).problem.from_dict(entry["problem"]),
            config=find_schedule(entry["schedule"]).config(**entry["config"]),
            l2=entry["l2"],
        )


def runnable_schedules() -> list[str]:
    """Names of the schedules that have kernels whose outputs `oracle` judges; imports none of them."""
    judged = [name for name, schedule in all_schedules().items() if schedule.problem in JUDGED]
    return [name for name in judged if find_spec(f"{kernels.__name__}.{name}")]


def runnable_config(schedule: str, **chosen: Any) -> Config:
    """A configuration that a kernel can follow: the default with some options chosen, rows split among warps.

    Raises:
        ValueError: an option that the schedule does not take, or a value that is not allowed.
    """
    runnable = find_schedule(schedule)
    return runnable.config(**{**runnable.in_triton, **chosen})


def able(schedules: Sequence[str], device: Device) -> tuple[list[str], dict[str, str]]:
    """The schedules that a device can run at all; and name -> why not, for the others."""
    left_out = {}
    for name in schedules:
        shape, options = find_schedule(name).coverage.points[0]
        problem = problem_for(find_schedule(name), SHAPES[shape])
        launches = Point(schedule=name, problem=problem, config=runnable_config(name, **options)).attempt(device)
        if isinstance(launches, Refusal):
            left_out[name] = launches.reason
    return [name for name in schedules if name not in left_out], left_out


def pinned(points: Iterable[Point], options: Mapping[str, int | str]) -> list[Point]:
    """The points with some options set, those that come out equal once.

    Raises:
        ValueError: an option that none of the schedules takes, or a value that is not allowed.
    """
    listed = list(points)
    for name in options:
        if listed and not any(name in point.config_dict for point in listed):
            names = sorted({option for point in listed for option in point.config_dict})
            raise ValueError(f"{name}: none of these schedules takes it; they take {', '.join(names)}")
    changed = []
    for point in listed:
        taken = {name: value for name, value in options.items() if name in point.config_dict}
        config = find_schedule(point.schedule).config(**{**point.config_dict, **taken})
        changed.append(replace(point, config=config))
    return list(dict.fromkeys(changed))


def matching(points: Iterable[Point], patterns: Sequence[str]) -> list[Point]:
    """The points whose key is one of the patterns (`*` any text, `?` any character); all where there is no pattern.

    Raises:
        ValueError: a pattern that matches no point; the text holds a key to go by.
    """
    listed = list(points)
    for pattern in patterns:
        if not any(fnmatchcase(point.key, pattern) for point in listed):
            example = f"; keys are like {listed[0].key!r}" if listed else ""
            raise ValueError(f"{pattern!r}: matches none of {len(listed)} points{example}")
    return [p for p in listed if not patterns or any(fnmatchcase(p.key, pattern) for pattern in patterns)]
