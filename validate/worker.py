"""The process on a GPU that does jobs, and may die of one without harm.

    python -m tilesight.validate.worker --gpu 0       answers jobs on stdin, a line of JSON each
    ... --gpu 0 --count FILE                          runs the jobs of a file once each, under ncu

`measure.session` starts and feeds it. A job's `do` says what is asked for (`ANSWERS`).
An answer holds it; or `lost`, with the reason (and `out_of_memory`, where that is the reason),
after which the process must end unless it says that it is `healthy`.
"""

import argparse
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# None of these imports torch before it is called: the GPU is chosen first.
from ..simulator.jobs.processes import serve
from .functions import run_function
from .measure import process, run_point

ANSWERS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "machine": process.describe,
    "point": run_point.measure,
    "function": run_function.measure,
}
"""What a job asks for -> what answers it."""
COUNTED: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "point": run_point.run_under_ncu,
    "function": run_function.run_under_ncu,
}
"""What a job is of -> what runs it between the profiler's marks."""


def answer(job: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a job; or that it is lost, and why, in one line."""
    import torch

    try:
        return ANSWERS[job["do"]](job)
    except torch.OutOfMemoryError as error:
        return {"lost": process.reason_of(error), "out_of_memory": True, "healthy": True}
    except Exception as error:
        return {"lost": process.reason_of(error)}
    finally:
        process.forget()


def main() -> None:
    """Answer jobs, or run those of a file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", required=True)
    parser.add_argument("--count", type=Path)
    options = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = options.gpu  # before torch is imported
    if options.count:
        for job in json.loads(options.count.read_text("utf-8")):
            COUNTED[job["do"]](job)
            process.forget()
    else:
        serve(answer)


if __name__ == "__main__":
    main()
