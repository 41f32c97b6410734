"""Code around launches, as public files end in: clocks, streams and comparisons, which have nothing to measure here.

Benchmarks run what they are given once; times are nan; comparisons of tensors without data pass, and a note says so.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from math import nan
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import triton.testing
from torch.utils._pytree import tree_leaves

from .on_gpu import NO_DATA, OnGpu

BENCHMARKS = ("do_bench", "do_bench_cudagraph")
GRAPHS = "CUDA graphs are not recorded: name a function that makes its launches itself"
once: Callable[..., Any] | None = None
"""What runs in place of a benchmark of Triton's, while launches are recorded or replayed."""


@contextmanager
def benchmarks_run_once(noted: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Have `triton.testing.do_bench` call its function once, under whatever name it was imported."""

    def run(function: Any, *args: Any, quantiles: Any = None, return_mode: str = "mean", **_: Any) -> Any:
        function()
        noted()
        count = len(quantiles) if quantiles else 1
        return [nan] * count if count > 1 or return_mode == "all" else nan

    global once
    before, once = once, run
    benchmarks = [getattr(triton.testing, name) for name in BENCHMARKS]
    codes = [benchmark.__code__ for benchmark in benchmarks]
    for benchmark in benchmarks:
        benchmark.__code__ = _instead.__code__
    try:
        yield
    finally:
        once = before
        for benchmark, code in zip(benchmarks, codes, strict=True):
            benchmark.__code__ = code


def _instead(*args: Any, **kwargs: Any) -> Any:
    from tilesight.kernels.capture import harness

    return harness.once(*args, **kwargs)  # type: ignore[misc]


@contextmanager
def harness_code(mode: OnGpu) -> Iterator[None]:
    """Have comparisons of tensors without data pass, and benchmarks run once."""

    def noted() -> None:
        mode.notes[NO_DATA] = None

    def passing(before: Any) -> Any:
        def compare(*args: Any, **kwargs: Any) -> Any:
            tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            if all(mode.known.has_values(tensor) for tensor in tensors):
                return before(*args, **kwargs)
            return noted()

        return compare

    def default_device(device: Any) -> None:
        mode.by_default = device is not None and torch.device(device).type == "cuda"
        if not mode.by_default:
            before(device)

    before = torch.set_default_device
    with ExitStack() as stack:
        stack.enter_context(benchmarks_run_once(noted))
        for module in (torch.testing, triton.testing):
            stack.enter_context(patch.object(module, "assert_close", passing(module.assert_close)))
        stack.enter_context(patch.object(torch, "set_default_device", default_device))
        stack.enter_context(patch.object(torch, "Generator", GeneratorOnCpu))
        yield


class GeneratorOnCpu(torch.Generator):
    """A generator of the GPU's: values are drawn on the CPU."""

    def __new__(cls, device: Any = "cpu") -> "GeneratorOnCpu":
        """Args: device: that it is asked for."""
        made: GeneratorOnCpu = super().__new__(cls, device="cpu")
        return made


class Event:
    """In place of `torch.cuda.Event`: nothing runs, so no time passes."""

    cuda_event = 0

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def record(self, *_: Any, **__: Any) -> None:
        """Nothing is under way."""

    wait = synchronize = record

    def query(self) -> bool:
        """All is done."""
        return True

    def elapsed_time(self, _: Any) -> float:
        """No time is known [ms]."""
        return nan


class Stream(nullcontext[None]):
    """In place of `torch.cuda.Stream`: launches are recorded in the order of their calls, whatever their stream."""

    cuda_stream = stream_id = device_index = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def synchronize(self, *_: Any) -> None:
        """Nothing is under way."""

    wait_stream = wait_event = synchronize

    def record_event(self, event: Any = None) -> Any:
        """An event."""
        return event or Event()

    def query(self) -> bool:
        """All is done."""
        return True

    def is_capturing(self) -> bool:
        """No graph is made of it."""
        return False


class Graph:
    """In place of `torch.cuda.CUDAGraph`, which code may name but not make."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise RuntimeError(GRAPHS)


class _Device(nullcontext[None]):
    """A `with` block on one of the GPUs, of which there is one."""

    idx = 0

    def __init__(self, *_: Any) -> None:
        super().__init__()


class Generator(torch.Generator):
    """The GPU's own: its state is a seed and an offset of Philox, 8 bytes each, which libraries hand to kernels."""

    offset = 0

    def get_state(self) -> torch.Tensor:
        """Seed and offset as bytes."""
        return torch.tensor([self.initial_seed(), self.offset], device="cpu").view(torch.uint8)

    def set_state(self, state: torch.Tensor) -> torch.Generator:
        """Begin from another one."""
        seed, self.offset = state.view(torch.int64).tolist()
        return self.manual_seed(seed)


def stand_ins(notes: dict[str, None]) -> dict[str, Any]:
    """What stands for parts of `torch.cuda` that code around launches calls. Args: notes: of the recording."""

    class Timed(Event):
        def elapsed_time(self, other: Any) -> float:
            notes[NO_DATA] = None
            return super().elapsed_time(other)

    answers: dict[str, Any] = {
        "Event": Timed,
        "Stream": Stream,
        "current_stream": lambda *_: Stream(),
        "default_stream": lambda *_: Stream(),
        "stream": lambda stream=None: stream or Stream(),
        "device": _Device,
        "device_of": _Device,
        "_DeviceGuard": _Device,
        "default_generators": (Generator(),),
        "CUDAGraph": Graph,
        "graph": lambda *_, **__: Graph(),
        "nvtx": SimpleNamespace(
            **{name: _answering(None) for name in ("range_push", "range_pop", "mark")}, range=_answering(nullcontext())
        ),
    }
    # An answer of its own for each: torch's compiler refuses to load where two names have one function.
    answers |= {name: _answering(None) for name in NOTHING_DONE} | {name: _answering(0) for name in NO_BYTES}
    return answers


NOTHING_DONE = (
    "set_stream", "set_device", "synchronize", "init", "_lazy_init", "_lazy_call",
    "manual_seed", "manual_seed_all", "seed", "seed_all", "empty_cache", "ipc_collect", "reset_peak_memory_stats",
)  # fmt: skip
NO_BYTES = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")


def _answering(answer: Any) -> Callable[..., Any]:
    return lambda *_, **__: answer
