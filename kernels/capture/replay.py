"""On a GPU: every launch that a user's function makes, kept so that it can be made again by itself.

The launches run as they come, so that later ones find their data. Tensors that predictions need no data of are real:
`device="meta"` is answered by "cuda", new ones hold normally distributed numbers, and a kernel's CPU tensors go there.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction

from .harness import benchmarks_run_once
from .on_gpu import IS_CUDA, is_cuda
from .recording import Recorder
from .values import is_small

DRAWN = frozenset({torch.randint, torch.randperm, torch.rand, torch.randn})
"""Their small results are drawn on the CPU, as in a recording: both find the same values."""
NEW = frozenset({torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty})


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One launch. Args: name: of the kernel; grid: CTAs; launch: makes it again, and returns what Triton compiled."""

    name: str
    grid: tuple[int, int, int]
    launch: Callable[[], Any]


@contextmanager
def replays(device: str = "cuda") -> Iterator[list[Replay]]:
    """Keep the launches of a block, in the order in which `capture` records them.

    Args:
        device: where tensors are made.

    Yields:
        The list that they are added to.
    """
    recorder = ReplayRecorder(device)
    with (
        patch.object(JITFunction, "run", recorder.jit_run()),
        patch.object(Autotuner, "run", recorder.autotuner_run()),
        benchmarks_run_once(),
        _RealTensors(device),
    ):
        yield recorder.replays


class ReplayRecorder(Recorder):
    """Launches that were made. Args: device: where kernels find their tensors."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.replays: list[Replay] = []
        self._device = device

    def jit_run(self) -> Any:
        """What stands for `JITFunction.run`: it runs, too."""
        original = JITFunction.run

        def run(function: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
            if warmup:
                return original(function, *args, grid=grid, warmup=True, **kwargs)
            moved = tuple(self._on_gpu(value) for value in args)
            named = {name: self._on_gpu(value) for name, value in kwargs.items()}

            def launch() -> Any:
                return original(function, *moved, grid=grid, warmup=False, **named)

            capture = self.captured(function, moved, grid, named)
            self.replays.append(Replay(name=capture.name, grid=capture.grid, launch=launch))
            try:
                return launch()
            except OutOfResources:  # a configuration of the autotuner that does not fit; the prediction refuses it too
                return None

        return run

    def _on_gpu(self, value: Any) -> Any:
        return value.to(self._device) if isinstance(value, torch.Tensor) and value.device.type == "cpu" else value


class _RealTensors(TorchFunctionMode):
    """New tensors are real ones, with numbers in them."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is IS_CUDA or (getattr(function, "__name__", "") == "__get__" and function == IS_CUDA):
            return True  # kernels find CPU tensors on the GPU
        options = dict(kwargs or {})
        drawn = (
            function in DRAWN and is_cuda(options.get("device")) and not {"generator", "requires_grad"} & set(options)
        )
        if drawn and is_small(function(*args, **{**options, "device": "meta"})):
            return function(*args, **{**options, "device": "cpu"}).to(self._device)
        args = tuple(self._device if _is_meta(value) else value for value in args)
        if _is_meta(options.get("device")):
            options["device"] = self._device
        made = function(*args, **options)
        if function in NEW and made.device.type == torch.device(self._device).type:
            fill(made)
        return made


def fill(tensor: torch.Tensor) -> None:
    """Numbers as data have them, for the power that a kernel takes depends on them; zeros where there are no such."""
    if tensor.dtype.is_floating_point and tensor.element_size() > 1:
        tensor.normal_()
    elif tensor.numel():
        tensor.view(torch.uint8).zero_() if tensor.dtype.is_floating_point else tensor.zero_()


def _is_meta(device: Any) -> bool:
    return (isinstance(device, torch.device) and device.type == "meta") or (
        isinstance(device, str) and device == "meta"
    )
