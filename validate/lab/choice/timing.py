"""Times launches by CUDA events, each on an L2 that was flushed, or left as it is; needs a GPU."""

import json
import lzma
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cells import Cell

SLOW_US, FEW = 3000.0, 11
"""Launches beyond are repeated less."""
PAUSE_CYCLES = 250_000
"""Of the GPU, for each repeat: more than Python takes to queue it."""


def write(file: Path, *lines: dict[str, Any]) -> None:
    """Add JSON lines, at once; to a packed file as a stream of their own, which whatever reads it takes for more."""
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    with file.open("ab") as out:
        out.write(lzma.compress(text) if file.suffix == ".xz" else text)


class Timer:
    """Times launches on an L2 that was flushed. Args: repeats: of each kind."""

    def __init__(self, repeats: int) -> None:
        import torch

        self.torch, self.repeats = torch, repeats
        self.zeroed = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        self.read = torch.zeros(64 << 20, dtype=torch.float32, device="cuda")
        self.sum = torch.zeros((), dtype=torch.float32, device="cuda")

    def flush(self, kind: str) -> None:
        """Fill L2 with zeros that are yet to be written back, or, `clean`, with what was read; `warm`: leave it."""
        if kind != "warm":
            self.zeroed.zero_()
        if kind == "clean":
            self.torch.sum(self.read, dim=0, out=self.sum)

    def times_us(self, run: Callable[[], Any], kind: str, repeats: int | None = None) -> list[float]:
        """Times of single launches, each after a flush; queued behind a pause, so that Python's time stays out."""
        count = repeats or self.repeats
        events = [[self.torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
        self.torch.cuda._sleep(count * PAUSE_CYCLES)
        for begin, end in events:
            self.flush(kind)
            begin.record()
            run()
            end.record()
        self.torch.cuda.synchronize()
        return [round(begin.elapsed_time(end) * 1e3, 3) for begin, end in events]


def error_of(cell: Cell, tensors: Any, wanted: Any) -> float:
    """Relative error of what the last launch wrote."""
    got = cell.output(tensors).float()
    return float((got - wanted).norm() / wanted.norm())


def again(cell: Cell, tensors: Any, at: int) -> tuple[Callable[[], Any], list[int]]:
    """A function that launches a configuration, and the grid of the launch."""
    kernel, grid, args, named = cell.launch(tensors, cell.configs[at])
    return lambda: kernel[grid](*args, **named), list(grid)


def timed(cell: Cell, tensors: Any, at: int, timer: Timer, wanted: Any) -> dict[str, Any]:
    """What one configuration takes, and what of it was compiled."""
    import torch

    run, grid = again(cell, tensors, at)
    if wanted is not None:
        tensors["out" if "out" in tensors else "o"].fill_(float("nan"))
    compiled = run()
    torch.cuda.synchronize()
    line = {"grid": grid, "registers": compiled.n_regs, "spills": compiled.n_spills}
    line["shared"] = compiled.metadata.shared
    if wanted is not None:
        line["error"] = error_of(cell, tensors, wanted)
    once_us = timer.times_us(run, "clean", repeats=3)[-1]
    for kind in ("clean", "dirty"):
        spent = timer.times_us(run, kind, timer.repeats if once_us < SLOW_US else FEW)
        line |= {kind: spent, f"{kind}_us": statistics.median(spent)}
    return line


def time_some(cell: Cell, indices: list[int], timer: Timer, out: Path, round_: int, until_s: float) -> int:
    """Time configurations of a cell, in an order of the round's own. Returns: how many were.

    Outputs of the first round are checked. Lines go to `measured.jsonl.xz` together, also when an error ends all.
    """
    import torch

    if not indices or time.time() > until_s:
        return 0
    torch.manual_seed(0)
    tensors, lines = cell.make("cuda"), []
    wanted = cell.reference(tensors).float() if cell.reference and round_ == 0 else None
    try:
        for at in random.Random(round_).sample(indices, len(indices)):
            if time.time() > until_s:
                break
            line = {"cell": cell.name, "family": cell.family, "index": at, "round": round_, "config": cell.configs[at]}
            lines.append(line)
            try:
                line |= timed(cell, tensors, at, timer, wanted)
            except Exception as error:
                line["failed"] = f"{type(error).__name__}: {error}"[:300]
                if "CUDA" in str(error) and "out of resource" not in str(error):  # the context is lost
                    raise
    finally:
        if lines:
            write(out / "measured.jsonl.xz", *lines)
    del tensors, wanted
    torch.cuda.empty_cache()
    return sum("failed" not in line for line in lines)


def machine(timer: Timer) -> dict[str, Any]:
    """Versions, clocks, and what a kernel that does nothing shows [us]."""
    import torch
    import triton
    from runs import nothing

    def run() -> None:
        nothing[(1,)](timer.read, BLOCK=32)

    run()
    wanted = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.draw,temperature.gpu"
    command = ["nvidia-smi", f"--query-gpu={wanted}", "--format=csv,noheader"]
    smi = subprocess.run(command, capture_output=True, text=True)
    empty = {kind: statistics.median(timer.times_us(run, kind, 50)) for kind in ("clean", "dirty", "warm")}
    source, target = (torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(2))
    copy = statistics.median(timer.times_us(lambda: target.copy_(source), "clean", 9))
    return {
        "torch": torch.__version__, "triton": triton.__version__, "python": sys.version.split()[0],
        "smi": smi.stdout.strip(),
        "empty_us": empty, "copy_bytes_per_s": 2 * (1 << 30) / copy * 1e6,
        "sms": torch.cuda.get_device_properties(0).multi_processor_count,
    }  # fmt: skip
