"""What programs of the lab share that predict many launches ahead of a measurement, each in a fork, with no GPU."""

import json
import os
import resource
import signal
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tilesight.kernels.capture.lowering import lower_or_refuse
from tilesight.kernels.compile.call import KernelLaunch
from tilesight.kernels.compile.calls import compile_calls
from tilesight.simulator.device.device import load_device

MOST_BYTES = 9 << 30
"""Of memory that a prediction may take."""


def write(file: Path, line: dict[str, Any]) -> None:
    """Add a JSON line to a file, at once."""
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def limited(file: Path, line: dict[str, Any], predict: Callable[[], dict[str, Any]], limit_s: int) -> None:
    """Write a line with what a prediction says, made in a fork of this process within a limit, or how it failed."""
    child = os.fork()
    if not child:
        signal.alarm(limit_s)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        try:
            line |= predict()
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            line["failed"] = (
                f"{type(error).__name__}: {error}"[:500] + f" at {Path(where.filename).name}:{where.lineno}"
            )
        write(file, line)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        write(file, line | {"failed": f"ended by signal {status & 127}, after {limit_s} s or for memory"})


def compile_ahead(launches: Iterable[Any], device: str) -> None:
    """Fill the cache of compiled kernels: one compiler process for each core, instead of one for each launch."""
    gpu = load_device(device)
    calls = [lower_or_refuse(launch, int(gpu.compute_capability.replace(".", ""))) for launch in launches]
    compile_calls([call for call in calls if isinstance(call, KernelLaunch)], gpu)
