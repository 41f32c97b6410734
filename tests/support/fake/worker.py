"""A worker without a GPU: answers every job with made-up numbers, or fails as $FAKE_FAULTS (key -> fault) says.

Its process number stands in place of the peak memory, its GPU's number in place of the fastest time.
Before it hangs it leaves the file $FAKE_HANGING. Where $FAKE_MEET says `folder:3`, good answers wait until three GPUs
have come to give one.
"""

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from support import waiting
from tilesight.simulator.jobs.processes import serve

FAULTS = json.loads(os.environ.get("FAKE_FAULTS", "{}"))
HANGING = os.environ.get("FAKE_HANGING", os.devnull)
MEET, _, GPUS = os.environ.get("FAKE_MEET", "").rpartition(":")
GPU = sys.argv[sys.argv.index("--gpu") + 1]
MACHINE = {
    "gpu": "a GPU that is none",
    "capability": "9.0",
    "sm_count": 132,
    "driver": "1.2",
    "torch": "3",
    "triton": "4",
    "ncu": "",
    "date": "2026-01-01",
    "commit": "",
}

TIMING = {
    "l2": "cold",
    "median_s": 2e-5,
    "low_s": 1.9e-5,
    "high_s": 2.1e-5,
    "confidence": 0.95,
    "samples": 20,
    "fastest_s": 1.9e-5,
    "slowest_s": 2.2e-5,
    "clock_hz": 1.5e9,
    "cycles": 3e4,
    "noise": "quiet",
}


def launch(name: str, grid: list[int], registers: int, smem_bytes: int) -> dict[str, Any]:
    """A launch without counters."""
    sizes = {"registers_per_thread": registers, "spilled_bytes_per_thread": 0, "smem_bytes_per_cta": smem_bytes}
    return {"name": name, "grid": grid, "num_warps": 4, **sizes, "counters": {}}


def answer(job: dict[str, Any]) -> dict[str, Any]:
    if job["do"] == "machine":
        return MACHINE
    fault = FAULTS.get(job["key"])
    if fault == "hang":
        Path(HANGING).touch()
        time.sleep(3600)
    elif fault == "abort":
        print("Assertion `layout == expected' failed.", file=sys.stderr, flush=True)
        os.abort()
    elif fault == "segfault":
        ctypes.string_at(0)
    elif fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "exit":
        sys.exit("no more")
    elif fault:
        return {"key": job["key"], "lost": fault}
    if MEET:
        Path(MEET, GPU).touch()
        waiting.until(lambda: len(os.listdir(MEET)) >= int(GPUS))
    launches = [
        launch(f"launch {number}", [1, 1, 1], resources["registers_per_thread"], resources["smem_bytes_per_cta"])
        for number, resources in enumerate(job["resources"])
    ]
    timing = TIMING | {"l2": job["point"]["l2"], "fastest_s": float(GPU)}
    measurement = {
        "key": job["key"],
        "timing": timing,
        "launches": launches,
        "peak_memory_bytes": os.getpid(),
        "oracle_error": 0.5,
        "doubts": [],
        "counters": "not counted yet",
        "spent_s": 0.01,
    }
    return {"measurement": measurement, "kernels": [f"kernel_{number}" for number in range(len(launches))]}


if __name__ == "__main__":
    serve(answer)
