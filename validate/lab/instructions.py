"""Executed warp instructions: predicted from compiled code, beside what a GPU counted.

    python validate/lab/instructions.py FILE.json [DEVICE]

FILE holds a list of {schedule, problem, config, launch, inst_executed}: `launch` names the launch of a pipeline,
`inst_executed` is ncu's `smsp__inst_executed.sum`. Needs torch and triton, no GPU.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from tilesight.kernels.compile.compile import compile_many, with_resources
from tilesight.kernels.compile.outcomes import Compiled
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.sass.decode import decode
from tilesight.simulator.sass.flow import find_flow
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import launches_of
from tilesight.simulator.trace.executions import executed_instructions


def launch_of(record: dict[str, Any], device_name: str) -> tuple[Launch, AttentionProblem]:
    """The launch that was counted."""
    problem = AttentionProblem(**record["problem"])
    schedule = find_schedule(record["schedule"])
    fixed = {"warp_split": "q"} if "warp_split" in schedule.options else {}
    launches = launches_of(
        problem, schedule.name, schedule.config(**{**fixed, **record["config"]}), load_device(device_name)
    )
    (launch,) = (candidate for candidate in launches if candidate.name == record["launch"])
    return launch, problem


def main(path: str, device_name: str = "h200") -> None:
    """Print one line per launch, the worst error last."""
    rows = json.loads(Path(path).read_text("utf-8"))
    wanted, kept = [], []
    for record in rows:
        try:
            wanted.append(launch_of(record, device_name))
            kept.append(record)
        except ValueError as error:
            print(f"left out: {record['schedule']} {record['config']}: {error}")
    errors = []
    for record, (launch, _), outcome in zip(
        kept, wanted, compile_many(wanted, load_device(device_name), code=True), strict=True
    ):
        what = f"{record['launch']:<10} {record['problem']} {record['config']}"
        if not isinstance(outcome, Compiled) or outcome.code is None:
            print(f"   none {what}: {outcome}")
            continue
        start = time.perf_counter()
        try:
            flow = find_flow(decode(outcome.code.sass))
            executed = executed_instructions(flow, with_resources(launch, outcome), outcome.code.constants)
        except ValueError as error:
            print(f"  ERROR {what}: {error}")
            continue
        spent_ms = 1e3 * (time.perf_counter() - start)
        errors.append(executed / record["inst_executed"] - 1)
        print(f"{errors[-1]:+8.3%} {executed:>14,} {record['inst_executed']:>14,} {spent_ms:6.0f} ms {what}")
    if errors:
        print(f"{len(errors)} of {len(rows)} launches, worst {max(errors, key=abs):+.3%}")


if __name__ == "__main__":
    main(*sys.argv[1:])
