"""A worker without a GPU: answers a job of `validate.functions.run_function` with made-up figures of its launches.

Where $FAKE_ANSWER is set, it is the answer. Under ncu it does nothing.
"""

import json
import os
import sys
from typing import Any

from support.fake.worker import MACHINE
from tilesight.simulator.jobs.processes import serve

GRID = [4096, 1, 1]
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


def answer(job: dict[str, Any]) -> dict[str, Any]:
    if job["do"] == "machine":
        return MACHINE
    if given := os.environ.get("FAKE_ANSWER"):
        answered: dict[str, Any] = json.loads(given)
        return answered
    return {"launches": [{"launch": launch(job["names"][number]), "timing": TIMING} for number in job["numbers"]]}


def launch(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "grid": GRID,
        "num_warps": 4,
        "registers_per_thread": 192,
        "spilled_bytes_per_thread": 0,
        "smem_bytes_per_cta": 0,
        "counters": {},
    }


if __name__ == "__main__" and "--count" not in sys.argv:
    serve(answer)
