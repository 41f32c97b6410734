"""The process on a GPU: jobs in, answers out, and it may die of one without harm.

    python -m tilesight.validate.measure.worker --gpu 0       answers jobs on stdin, a line of JSON each
    ... --gpu 0 --count FILE                                  runs the jobs of a file once each, under ncu

`session` starts and feeds it. A job's `do` says what is asked for (`ANSWERS`).
An answer holds it; or `lost`, with the reason (and `out_of_memory`, where that is the reason),
after which the process must end unless it says that it is `healthy`.
"""

import argparse
import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from datetime import date
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...simulator.jobs.processes import serve
from ..measurement import Machine

if TYPE_CHECKING:
    from ..timing.track import Track

ANSWERS = {
    "machine": ".measure.worker:describe",
    "memory": ".measure.worker:memory",
    "point": ".measure.run_point:measure",
    "time": ".measure.run_point:time_point",
    "fits": ".measure.run_point:fits",
    "profile": ".experiments.run_peer:profile",
    "peer": ".experiments.run_peer:measure_peer",
    "function": ".functions.run_function:measure",
}
"""What a job asks for -> the function that answers it, imported when first asked: all need torch."""
COUNTED = {"point": ".measure.run_point:run_under_ncu", "function": ".functions.run_function:run_under_ncu"}
"""What a job is of -> the function that runs it between the profiler's marks."""
PHRASES = (
    ("out of memory", "out of memory"),
    ("illegal memory access", "illegal address"),
    ("misaligned address", "misaligned address"),
    ("unspecified launch failure", "launch failure"),
    ("out of resource", "out of resources"),
)
"""Words of an error -> kind of failure."""


class Unavailable(Exception):
    """A job that cannot be done here, which harms no other; the text is the reason, in one line."""


def answer(job: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a job; or that it is lost, and why, in one line."""
    import torch

    try:
        return _named(ANSWERS[job["do"]])(job)
    except torch.OutOfMemoryError as error:
        return {"lost": reason_of(error), "out_of_memory": True, "healthy": True}
    except Unavailable as error:
        return {"lost": str(error), "healthy": True}
    except Exception as error:
        return {"lost": reason_of(error)}
    finally:
        forget()


def _named(name: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """The function of a name in a table."""
    module, _, function = name.partition(":")
    package = __package__.rpartition(".")[0]
    answers: Callable[[Mapping[str, Any]], dict[str, Any]] = getattr(import_module(module, package), function)
    return answers


def describe(job: Mapping[str, Any]) -> dict[str, Any]:
    """The GPU of this process, and what drives it; `ncu` is left to the one who asks."""
    import torch
    import triton

    properties, folder = torch.cuda.get_device_properties("cuda"), Path(__file__).parent
    return Machine(
        gpu=properties.name,
        capability=f"{properties.major}.{properties.minor}",
        sm_count=properties.multi_processor_count,
        driver=driver_version(),
        torch=str(torch.__version__),
        triton=triton.__version__,
        ncu="",
        date=date.today().isoformat(),
        commit=_said(["git", "-C", str(folder), "log", "-1", "--format=%h", "--", "../../kernels"]),
    ).to_dict()


def memory(job: Mapping[str, Any]) -> dict[str, Any]:
    """Device memory that this process can take, with its context made and nothing held [B]."""
    import torch

    torch.zeros(1, device="cuda")
    forget()
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    return {"free_bytes": free_bytes, "total_bytes": total_bytes, "gpu": torch.cuda.get_device_name()}


def reason_of(error: Exception) -> str:
    """What went wrong, in one line that begins with the kind of failure."""
    text = str(error)
    first = " ".join(next((line for line in text.splitlines() if line.strip()), "").split())[:200]
    for words, kind in PHRASES:
        if words in text or words in type(error).__name__:
            return first if first.lower().startswith(kind) else f"{kind}: {first}"
    return f"{type(error).__name__}: {first}" if not isinstance(error, ValueError) else f"wrong launch: {first}"


@cache
def track_and_tare() -> tuple["Track", float]:
    """The track of this process, and its tare [s]."""
    import torch

    from ..timing.timing import tare_s
    from ..timing.track import Track

    track = Track("cuda")
    # cuBLAS keeps a workspace for good. Now it gets its own segment; in the middle of a job it may share that of
    # the job's tensors, and leaves a part of it to later jobs, which then hold less than they would by themselves.
    ones = torch.ones((1, 1), device="cuda")
    torch.mm(ones, ones)
    return track, tare_s(track)


def forget() -> None:
    """Give back the device memory of the last job."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_initialized():
        try:
            torch.cuda.empty_cache()
        except RuntimeError:  # the context is broken: the process will be ended
            return


def driver_version() -> str:
    """Version of the kernel driver, e.g. `580.159.04`; empty where unknown."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return ""
    match = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
    return match[1] if match else ""


def _said(command: list[str]) -> str:
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return finished.stdout.strip().splitlines()[0] if finished.returncode == 0 and finished.stdout.strip() else ""


def main() -> None:
    """Answer jobs, or run those of a file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", required=True)
    parser.add_argument("--count", type=Path)
    options = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = options.gpu  # before torch is imported
    if options.count:
        for job in json.loads(options.count.read_text("utf-8")):
            _named(COUNTED[job["do"]])(job)
            forget()
    else:
        serve(answer)


if __name__ == "__main__":
    main()
