"""Runs things under `torch.profiler`, in a stream or as a CUDA graph; needs torch and a GPU."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from .timing import WARM_UP_S

WARM_UPS = 3
"""Runs before a graph is captured or a profile taken: compilers and libraries set themselves up in the first."""


def trace_of(run: Callable[[], object], passes: int) -> dict[str, Any]:
    """The profiler's trace of some passes. Args: run: enqueues one pass. Returns: a trace in Chrome's format."""
    for _ in range(WARM_UPS):
        run()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(passes):
            run()
        torch.cuda.synchronize()
    with TemporaryDirectory(prefix="tilesight-profile-") as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        trace: dict[str, Any] = json.loads(file.read_text())
    return trace


def between_marks(run: Callable[[], object], prepare: Callable[[], object] | None = None) -> None:
    """Run something between the marks of `ncu`, once the clock has left idle, where memory looks fast in cycles.

    Args:
        run: enqueues launches.
        prepare: called right before the marks.
    """
    begin = time.monotonic()
    while time.monotonic() - begin < WARM_UP_S:
        run()
        torch.cuda.synchronize()
    if prepare:
        prepare()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    run()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def captured(run: Callable[[], object]) -> Callable[[], None]:
    """A run as a CUDA graph. Returns: a function that replays it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()

    def replay() -> None:
        graph.replay()

    return replay
