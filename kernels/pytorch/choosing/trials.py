"""What a choice would launch, and take: it is called once on tensors without data, beside the step, and priced."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from ....simulator.device.device import Device
from ....simulator.operations.operation import Operation, RecordedStep
from ....simulator.operations.price import price_step
from ....simulator.operations.priced import KernelEstimate
from ...capture.recorded import RecordedLaunch
from ..triton_launches import TritonLaunches

Times = Callable[[Sequence[RecordedLaunch]], Sequence[float | None]]
"""Launches of Triton kernels -> what each takes [s]; None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What a choice launches.

    Args:
        operations: in order; captures: of each Triton kernel the first configuration: the others wait until it is
            chosen.
    """

    operations: tuple[Operation, ...]
    captures: tuple[RecordedLaunch, ...]


class Trials:
    """Calls choices without a GPU. Args: launches: that Inductor's are hooked to; times: predicts Triton kernels."""

    def __init__(self, launches: TritonLaunches, device: Device, times: Times) -> None:
        self._launches, self._device, self._times = launches, device, times

    def launched(self, prepare: Callable[[], Callable[[], Any]]) -> Launched | None:
        """What a call launches; None: it raises. Args: prepare: makes tensors, and what calls the choice with them."""
        with (
            _disable_current_modes(),
            self._launches.aside() as recorder,
            FakeTensorMode(allow_non_fake_inputs=True),
            recorder,
            torch.no_grad(),
        ):
            try:
                call = prepare()
                with recorder.recording(()):
                    call()
            except Exception:  # as where it is timed: a choice that fails is not taken
                return None
            operations = tuple(recorder.operations)
            first = [operation.calls[0] for operation in operations if operation.calls]
            return Launched(operations=operations, captures=tuple(self._launches.captures[place] for place in first))

    def times_s(self, tried: Sequence[Launched | None]) -> list[float]:
        """What each takes by itself, gaps between its kernels included; infinite: unknown [s]."""
        captures = [capture for launched in tried if launched for capture in launched.captures]
        times = iter(self._times(captures) if captures else ())
        return [self._time_s(launched, times) if launched else inf for launched in tried]

    def _time_s(self, launched: Launched, times: Iterator[float | None]) -> float:
        """Args: times: of the launches of this one, and of those that follow."""
        simulated: dict[int, KernelEstimate | str] = {}
        for number, operation in enumerate(launched.operations):
            if operation.kind == "triton":
                time_s = next(times)
                simulated[number] = "it is not predicted" if time_s is None else _kernel(operation, time_s)
        step = RecordedStep(operations=launched.operations, mode="compiled", peak_bytes=0)
        kernels = [kernel for made in price_step(step, self._device, simulated) for kernel in made]
        if not kernels or any(kernel.source == "refused" for kernel in kernels):
            return inf
        return sum(kernel.time_s for kernel in kernels) + (len(kernels) - 1) * self._device.launch_graph_s


def _kernel(operation: Operation, time_s: float) -> KernelEstimate:
    return KernelEstimate(name=operation.name, source="simulated", time_s=time_s, bound_by="instructions")
