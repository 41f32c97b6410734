"""A training step of attention: the sum of both passes, and the memory that autograd holds.

What the backward pass takes as inputs is kept from the forward pass: O and LSE, or P where it does not make P again.
So a backward pass can follow a forward pass only that has made what it reads.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..arguments import instance
from ..device.device import Device, found_device
from ..integers import cdiv
from ..launch.program import Launch, Tensor
from ..prediction.prediction import Prediction
from ..problems.attention import AttentionProblem
from ..problems.attention_backward import AttentionBackwardProblem
from ..problems.problem import Problem
from ..refusal import Refusal
from ..residency.device_memory import BLOCK_BYTES, peak_bytes
from ..resolve import attempt_launches, launches_of
from ..schedules.contract import Schedule
from ..schedules.registry import all_schedules, default_schedule

SCHEMA = "tilesight.training-step/1"
GIVEN = "dO"
"""What the backward pass reads and no pass of attention makes."""
SMALL = {"batch": 1, "heads": 1, "seqlen_q": 128, "seqlen_k": 128, "head_dim": 64}
"""A problem that says which tensors passes read and write; a schedule that refuses it goes with none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Device memory of both passes.

    Args:
        kept: what the backward pass reads of the forward pass and its inputs; kept_bytes: of these [B].
        peak_bytes: most that is held at once in the whole step [B].
    """

    kept: tuple[str, ...]
    kept_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStep:
    """Both passes, one after the other. Args: forward, backward: of the same device; memory: of both together."""

    forward: Prediction
    backward: Prediction
    memory: Memory

    @property
    def time_s(self) -> float:
        """Of both [s]; between them the rest of the model runs, so that the L2 has nothing of the forward pass."""
        return self.forward.time_s + self.backward.time_s

    @property
    def lower_bound(self) -> bool:
        """Whether it takes the time at least."""
        return self.forward.lower_bound or self.backward.lower_bound

    def to_dict(self, device: Device) -> dict[str, Any]:
        """What JSON says of the step beside its passes."""
        return {
            "device": self.forward.device,
            "schedules": [self.forward.schedule, self.backward.schedule],
            "configs": [self.forward.config_dict(), self.backward.config_dict()],
            "time_s": self.time_s,
            "forward_s": self.forward.time_s,
            "lower_bound": self.lower_bound,
            "backward_s": self.backward.time_s,
            "kept": list(self.memory.kept),
            "kept_bytes": self.memory.kept_bytes,
            "peak_memory_bytes": self.memory.peak_bytes,
            "fits": self.memory.peak_bytes <= device.hbm_bytes,
        }


def why_apart(forward: Sequence[Launch], backward: Sequence[Launch]) -> str:
    """What a backward pass reads that a forward pass does not make, e.g. `LSE`; empty where it can follow."""
    made = {tensor.name for launch in forward for tensor in launch.program.tensors} | {GIVEN}
    return ", ".join(tensor.name for tensor in inputs_of(backward) if tensor.name not in made)


def inputs_of(launches: Iterable[Launch]) -> list[Tensor]:
    """The tensors that launches read and do not make, each once."""
    tensors = {tensor.name: tensor for launch in launches for tensor in launch.program.tensors}
    return [tensor for tensor in tensors.values() if tensor.role == "input"]


def memory_of(forward: Sequence[Launch], backward: Sequence[Launch]) -> Memory:
    """Device memory of both passes of a layer; tensors of one name are the same tensor."""
    kept = [tensor for tensor in inputs_of(backward) if tensor.name != GIVEN]
    return Memory(
        kept=tuple(tensor.name for tensor in kept),
        kept_bytes=sum(cdiv(tensor.size_bytes, BLOCK_BYTES) * BLOCK_BYTES for tensor in kept),
        peak_bytes=peak_bytes((*forward, *backward)),
    )


def training_step(forward: Prediction, backward: Prediction, device: Device | str | None = None) -> TrainingStep:
    """A training step of two predictions, as `--pass both`.

    Args:
        forward: of a schedule of attention; backward: of one of its gradients, at the same shape.
        device: as given to `simulate`, for both; the one that the predictions name where it is None.

    Raises:
        ValueError: they are not these, are of two devices, or the backward pass reads what the forward pass does not
            make; one line.
    """
    for name, value, kind in (("forward", forward, AttentionProblem), ("backward", backward, AttentionBackwardProblem)):
        instance(name, value, Prediction, "simulate(problem)")
        if type(value.problem) is not kind:
            raise ValueError(f"{name} = {value.schedule}: computes {value.problem.KIND}: must compute {kind.KIND}")
    if forward.device != backward.device:
        raise ValueError(f"backward is of {backward.device}: must be of forward's device, {forward.device}")
    if forward.problem.to_dict() != backward.problem.to_dict():
        raise ValueError(f"backward = {backward.problem.text}: must have forward's shape, {forward.problem.text}")
    gpu, _ = found_device(forward.device if device is None else device)
    first, second = (launches_of(item.problem, item.schedule, item.config, gpu) for item in (forward, backward))
    if lacking := why_apart(first, second):
        raise ValueError(f"{forward.schedule} does not make {lacking}, which {backward.schedule} reads")
    return TrainingStep(forward=forward, backward=backward, memory=memory_of(first, second))


def best_step(forwards: Sequence[Prediction], backwards: Sequence[Prediction], device: Device) -> TrainingStep:
    """The fastest pair. Args: forwards, backwards: best first. Raises: ValueError: no backward pass can follow."""
    reasons, steps = [], []
    for forward in _first_alike(forwards, device):
        for backward in _first_alike(backwards, device):
            try:
                steps.append(training_step(forward, backward, device))
            except ValueError as error:
                reasons.append(str(error))
    if not steps:
        raise ValueError(reasons[0] if reasons else "no configuration of one of the passes fits")
    return min(steps, key=lambda step: step.time_s)


def _first_alike(predictions: Sequence[Prediction], device: Device) -> list[Prediction]:
    """The first of each schedule and of each set of tensors that it reads."""
    first: dict[tuple[str, ...], Prediction] = {}
    for item in predictions:
        launches = launches_of(item.problem, item.schedule, item.config, device)
        first.setdefault((item.schedule, *(tensor.name for tensor in inputs_of(launches))), item)
    return list(first.values())


def partners(names: Sequence[str], kind: type[Problem]) -> list[str]:
    """For each schedule the first of the other pass that goes with it: none where none does.

    Args:
        names: of one pass; kind: what the other pass solves.
    """
    return list(dict.fromkeys(other for name in names for other in _partner(all_schedules()[name], kind)[:1]))


def _partner(schedule: Schedule, kind: type[Problem]) -> list[str]:
    """Those of the other pass that go with a schedule, all in their defaults: a baseline first for a baseline."""
    usual = [item for item in all_schedules().values() if item.problem is kind]
    usual.sort(key=lambda item: (item.baseline != schedule.baseline, item.name != default_schedule(kind)))
    device, _ = found_device("h200")
    names = []
    for item in usual:
        both = [attempt_launches(side.problem(**SMALL), side.name, None, device) for side in (schedule, item)]
        first, second = both if schedule.problem is AttentionProblem else reversed(both)
        if not (isinstance(first, Refusal) or isinstance(second, Refusal) or why_apart(first, second)):
            names.append(item.name)
    return names
