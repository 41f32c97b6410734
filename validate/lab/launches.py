"""What programs of the lab share that launch kernels on a GPU: single launches timed by events, or counted by ncu.

A case is what it is (a JSON object), what leaves L2 as it says, and the launch.
"""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

METRICS = (
    *("gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"),
    *("l1tex__m_xbar2l1tex_read_bytes.sum", "sm__cycles_elapsed.max"),
)
PAUSE_CYCLES = 300_000
"""Of the GPU, for each repeat: more than Python takes to queue it."""
COUNTED = "LAUNCH_ONCE"
"""Set in the process that ncu counts."""

Run = Callable[[], Any]
Case = tuple[dict[str, Any], Run, Run]


class CleanL2:
    """Fills L2 with data that are read: a call is a kernel that takes some 90 us on an H100."""

    def __init__(self) -> None:
        self.read = torch.zeros(64 << 20, dtype=torch.float32, device="cuda")
        self.sum = torch.zeros((), dtype=torch.float32, device="cuda")

    def __call__(self) -> None:
        """Queue it."""
        torch.sum(self.read, dim=0, out=self.sum)


def times_us(before: Run, run: Run, repeats: int) -> list[float]:
    """Times between events of launches, queued behind a pause so that Python's time stays out [us]."""
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
    torch.cuda._sleep(repeats * PAUSE_CYCLES)
    for begin, end in events:
        before()
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) * 1e3 for begin, end in events]


def launch_once(cases: Iterable[Case]) -> None:
    """The cases, for ncu to count."""
    for _, before, run in cases:
        run()
        before()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        run()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


def count(out: Path, arguments: Sequence[str], lines: Sequence[dict[str, Any]]) -> None:
    """Run this program under ncu, which is to call `launch_once`, and add a line with counters for each case.

    Args:
        arguments: of the program; lines: what each case is, in order.
    """
    command = ["ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
    command += ["--cache-control", "none", "--profile-from-start", "off", "--metrics", ",".join(METRICS)]
    command += [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {COUNTED: "1"})
    rows = list(csv.DictReader(line for line in done.stdout.splitlines() if line.startswith('"')))[1:]
    if len(rows) != len(lines):
        raise SystemExit(f"{len(rows)} rows of {len(lines)} cases: {done.stderr[-2000:]} {done.stdout[-1000:]}")
    with out.open("a") as file:
        for line, row in zip(lines, rows, strict=True):
            counted = {name: float(row[name].replace(",", "")) for name in METRICS}
            file.write(json.dumps(line | {"counted": counted}) + "\n")
