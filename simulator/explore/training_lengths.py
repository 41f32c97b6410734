"""Training steps of attention over sequence lengths: pairs of schedules, from what `compare` says of both passes."""

from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from ..device.device import Device
from ..launch.program import Launch
from ..problems.attention import AttentionProblem
from ..problems.problem import Problem
from ..resolve import launches_of
from ..schedules.registry import baseline_of
from .fastest import Point
from .lengths import Limit, Scaling, longest
from .training import Memory, memory_of, why_apart

SCHEMA = "tilesight.compare-training/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPoint:
    """A training step at one length. Args: forward, backward: points of `compare`; memory: of both together."""

    forward: Point
    backward: Point
    memory: Memory

    @property
    def time_s(self) -> float:
        """Of both passes [s]; infinite where one does not run."""
        return self.forward.time_s + self.backward.time_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StepScaling:
    """Training steps over lengths, on one device.

    Args:
        forward, backward: what `compare` says of each pass.
        points: forward schedule -> length -> its step with the fastest backward pass that can follow it.
        limits: forward schedule -> where device memory runs out.
        baseline: the forward schedule that the others are held against, where it is among them; else empty.
    """

    forward: Scaling
    backward: Scaling
    points: dict[str, dict[int, StepPoint]]
    limits: dict[str, Limit]
    baseline: str

    def speedup(self, schedule: str, seqlen: int) -> float | None:
        """Time of the baseline's step over that of a schedule; None where one of them does not run."""
        steps = [self.points.get(name, {}).get(seqlen) for name in (self.baseline, schedule)]
        times = [step.time_s for step in steps if step and step.time_s < inf]
        return times[0] / times[1] if len(times) == len(steps) else None

    def to_dict(self) -> list[dict[str, Any]]:
        """The steps in `compare --pass both --json`."""
        return [
            {
                "device": self.forward.device_name,
                "schedules": [name, step.backward.schedule],
                "seqlen": seqlen,
                "time_s": step.time_s if step.time_s < inf else None,
                "speedup": self.speedup(name, seqlen),
                "kept": list(step.memory.kept),
                "kept_bytes": step.memory.kept_bytes,
                "peak_memory_bytes": step.memory.peak_bytes,
            }
            for name, steps in self.points.items()
            for seqlen, step in steps.items()
        ]

    def limits_dict(self) -> list[dict[str, Any]]:
        """Where memory runs out, in the same."""
        return [{"device": self.forward.device_name, **asdict(limit)} for limit in self.limits.values()]


def along_lengths(forward: Scaling, backward: Scaling) -> StepScaling:
    """Training steps from what `compare` says of both passes, on the same device at the same lengths."""
    device = forward.device
    points = {
        name: steps
        for name in forward.chosen
        if (
            steps := {length: step for length in forward.seqlens if (step := _fastest(forward, backward, name, length))}
        )
    }
    limits = {
        name: _limit(list(steps.values())[-1], forward.problem, backward.problem, device)
        for name, steps in points.items()
    }
    baseline = baseline_of(AttentionProblem)
    named = baseline.name if baseline and baseline.name in points else ""
    return StepScaling(forward=forward, backward=backward, points=points, limits=limits, baseline=named)


def _fastest(forward: Scaling, backward: Scaling, name: str, seqlen: int) -> StepPoint | None:
    """A forward schedule at a length with the fastest backward pass that can follow it; None where none can."""
    first = forward.point(name, seqlen)
    steps = []
    for other in backward.chosen:
        second = backward.point(other, seqlen)
        if first is None or second is None:
            continue
        launches = (
            _launches(first, forward.problem, forward.device),
            _launches(second, backward.problem, backward.device),
        )
        if not why_apart(*launches):
            steps.append(StepPoint(forward=first, backward=second, memory=memory_of(*launches)))
    return min(steps, key=lambda step: step.time_s, default=None)


def _launches(point: Point, problem: Problem, device: Device, seqlen: int = 0) -> tuple[Launch, ...]:
    length = seqlen or point.seqlen
    return launches_of(problem.but(seqlen_q=length, seqlen_k=length), point.schedule, point.config, device)


def _limit(step: StepPoint, forward: Problem, backward: Problem, device: Device) -> Limit:
    """Where device memory runs out for a training step as both lengths grow together."""

    def held_bytes(length: int) -> int:
        passes = ((step.forward, forward), (step.backward, backward))
        return memory_of(*(_launches(point, problem, device, length) for point, problem in passes)).peak_bytes

    return longest(step.forward.schedule, held_bytes, device)
