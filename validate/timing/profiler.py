"""Runs something between the marks of `ncu`; needs torch and a GPU."""

import time
from collections.abc import Callable

import torch

from .timing import WARM_UP_S


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
