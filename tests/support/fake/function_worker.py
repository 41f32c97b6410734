"""A worker without a GPU: answers a job of `validate.functions.run_function` with made-up figures of its launches.

Where $FAKE_ANSWER is set, it is the answer. Under ncu it does nothing.
"""

import json
import os
import sys
from typing import Any

from support.fake.worker import MACHINE, TIMING, launch
from tilesight.simulator.jobs.processes import serve

GRID = [4096, 1, 1]


def answer(job: dict[str, Any]) -> dict[str, Any]:
    if job["do"] == "machine":
        return MACHINE
    if given := os.environ.get("FAKE_ANSWER"):
        answered: dict[str, Any] = json.loads(given)
        return answered
    launches = [launch(job["names"][number], GRID, 192, 0) for number in job["numbers"]]
    return {"launches": [{"launch": measured, "timing": TIMING} for measured in launches]}


if __name__ == "__main__" and "--count" not in sys.argv:
    serve(answer)
