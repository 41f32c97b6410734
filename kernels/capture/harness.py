"""Code around launches, as public files end in: clocks and comparisons, which have nothing to measure here.

Benchmarks run what they are given once; times are nan; comparisons of tensors without data pass, and a note says so.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import nan
from typing import Any
from unittest.mock import patch

import torch
import triton.testing
from torch.utils._pytree import tree_leaves

from .on_gpu import NO_DATA, OnGpu

BENCHMARKS = ("do_bench", "do_bench_cudagraph")
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
