"""Single operations of torch on a GPU, kernel by kernel; and as torch's dispatcher sees them, without one.

    python validate/lab/torch_operations.py measure FILE.jsonl [PART ...]  on a GPU: {name, cold: [[kernel, us]], warm}
    python validate/lab/torch_operations.py record FILE.jsonl FILE         no GPU: with "operations"

Times are medians of 5 runs behind an overwritten L2 (`cold`) and of 5 repeated ones (`warm`); kernels that spin tell
runs apart. The operations are those of `torch_operation_cases` and `torch_rare_cases`; with
PARTs those whose names hold one.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_operation_cases import CASES as USUAL
from torch_operation_cases import Make
from torch_rare_cases import RARE

CASES = USUAL | RARE
RUNS = 5
FLUSH_ELEMENTS = 64 << 20


def measure(file: Path, parts: list[str]) -> None:
    """Time cases on this GPU: those whose names hold a part, without any all."""
    torch.set_default_device("cuda")
    flush = torch.empty(FLUSH_ELEMENTS, dtype=torch.int32)
    for name, (make, run) in CASES.items():
        if parts and not any(part in name for part in parts):
            continue
        with file.open("a", encoding="utf-8") as lines:
            try:
                outcome = timed(make, run, flush)
            except Exception as error:
                outcome = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
            lines.write(json.dumps({"name": name} | outcome) + "\n")


def timed(make: Make, run: Callable[..., Any], flush: Tensor) -> dict[str, Any]:
    """Kernels of an operation, and their times."""
    from torch.profiler import ProfilerActivity, profile

    given = make()
    with torch.no_grad(), profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(2):
            run(*given)
        torch.cuda.synchronize()
        for is_cold in (True,) * RUNS + (False,) * RUNS:
            if is_cold:
                flush.zero_()
            torch.cuda._sleep(20000)
            run(*given)
            torch.cuda._sleep(100)
        torch.cuda.synchronize()
    groups: list[list[Any]] = []
    inside = False
    events = [event for event in profiled.events() if event.device_type.name == "CUDA"]
    for event in sorted(events, key=lambda event: event.time_range.start):
        if "spin_kernel" in event.name:
            inside = not inside
            groups += [[]] if inside else []
        elif inside:
            groups[-1].append(event)
    outcome = {}
    for key, runs in (("cold", groups[:RUNS]), ("warm", groups[RUNS:])):
        outcome[key] = [
            [column[0].name[:200], round(sorted(event.time_range.elapsed_us() for event in column)[RUNS // 2], 2)]
            for column in zip(*runs, strict=True)
        ]
    return outcome


def record(measured: Path, file: Path) -> None:
    """Write operations beside kernels. Operations that no recording takes down have none."""
    from tilesight.kernels.pytorch.live import record_live
    from tilesight.simulator.device.device import load_device

    with file.open("w", encoding="utf-8") as lines:
        for row in map(json.loads, measured.read_text("utf-8").splitlines()):
            make, run = CASES[row["name"]]
            try:
                with torch.device("meta"), torch.no_grad():
                    given = make()
                    step = record_live(
                        run, given, device=load_device("h100"), mode="eager", options={"indices": "uniform"}
                    )
                operations = [operation.to_dict() for operation in step.step.operations]
            except (RuntimeError, ValueError) as error:
                print(row["name"], str(error)[:200])
                operations = []
            lines.write(json.dumps(row | {"operations": operations}, default=list) + "\n")


if __name__ == "__main__":
    kind, *files = map(str, sys.argv[1:])
    if kind == "measure":
        measure(Path(files[0]), files[1:])
    else:
        record(Path(files[0]), Path(files[1]))
