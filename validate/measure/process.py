"""What jobs share in a process on a GPU: the machine, the track of its timings, and what errors say."""

import re
import subprocess
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..measurement import Machine

if TYPE_CHECKING:
    from ..timing.track import Track

PHRASES = (
    ("out of memory", "out of memory"),
    ("illegal memory access", "illegal address"),
    ("misaligned address", "misaligned address"),
    ("unspecified launch failure", "launch failure"),
    ("out of resource", "out of resources"),
)
"""Words of an error -> kind of failure."""


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
