"""Functions and training steps of PyTorch (`torch_cases`, `torch_steps`): timed on a GPU, predicted, and judged.

    python docs/lab/torch_functions.py measure FILE.jsonl [CASE ...]             on a GPU: a line for each case and mode
    python docs/lab/torch_functions.py predict DEVICE FILE.jsonl [CASE ...]      no GPU: the same, predicted
    python docs/lab/torch_functions.py judge MEASURED.jsonl PREDICTED.jsonl      kernels and times beside each other

Times of kernels are medians of runs one after another, as torch's profiler has them; `step_s` is a run's share of all
runs together, with the host's time in it. Memory is the most that torch's allocator held during a run.
"""

import json
import sys
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch_blocks  # noqa: F401  (registers its functions)
from torch_cases import FUNCTIONS
from torch_steps import STEPS

RUNS = 8
CASES = FUNCTIONS | STEPS
MODES = ("eager", "compiled")


def measure(file: Path, names: list[str]) -> None:
    """Time cases on this GPU, kernel by kernel."""
    import torch

    with file.open("a", encoding="utf-8") as lines:
        for name in names or CASES:
            for mode in MODES:
                torch._dynamo.reset()
                torch.cuda.empty_cache()
                try:
                    with torch.set_grad_enabled(name in STEPS):
                        outcome = timed(name, mode)
                except Exception as error:
                    outcome = {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
                lines.write(json.dumps({"case": name, "mode": mode} | outcome) + "\n")
                lines.flush()


def timed(name: str, mode: str) -> dict[str, Any]:
    """Kernels with their times, the time of a step, and the most memory."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    made, arguments = CASES[name]("cuda")
    run = torch.compile(made) if mode == "compiled" else made
    for _ in range(4):
        run(*arguments)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(RUNS):
        run(*arguments)
    end.record()
    torch.cuda.synchronize()
    outcome = {"step_s": begin.elapsed_time(end) / 1e3 / RUNS, "peak_bytes": torch.cuda.max_memory_allocated()}
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(RUNS):
            run(*arguments)
            torch.cuda.synchronize()
    events = [
        event for event in profiled.events() if event.device_type.name == "CUDA" and event.time_range.elapsed_us()
    ]
    events.sort(key=lambda event: event.time_range.start)
    if len(events) % RUNS:
        return outcome | {"failed": f"{len(events)} kernels in {RUNS} runs: not as many in each"}
    count = len(events) // RUNS
    columns = [events[place::count] for place in range(count)]
    kernels = [[runs[0].name[:200], median(event.time_range.elapsed_us() for event in runs)] for runs in columns]
    return outcome | {"kernels": kernels, "gpu": torch.cuda.get_device_name(), "torch": str(torch.__version__)}


def predict(device: str, file: Path, names: list[str]) -> None:
    """Predict cases, on tensors without data."""
    import tilesight

    with file.open("a", encoding="utf-8") as lines:
        for name in names or CASES:
            for mode in MODES:
                try:
                    made, arguments = CASES[name]("meta")
                    report = tilesight.profile(
                        made, *arguments, device=device, mode=mode, train=name in STEPS, indices="uniform"
                    )
                    rows = [[row.kernel.name, row.kernel.time_s * 1e6, row.kernel.source] for row in report.rows]
                    outcome: dict[str, Any] = {"kernels": rows, "peak_bytes": report.peak_bytes}
                except (ValueError, RuntimeError) as error:
                    outcome = {"failed": str(error)}
                lines.write(json.dumps({"case": name, "mode": mode} | outcome) + "\n")
                lines.flush()


def judge(measured: Path, predicted: Path) -> None:
    """Print for each case how many kernels there are, the time of all, and the error; then the means."""
    truth, answers = read(measured), read(predicted)
    errors: dict[str, list[float]] = {}
    for (name, mode), entry in truth.items():
        answer = answers.get((name, mode), {"failed": "not predicted"})
        if failed := entry.get("failed") or answer.get("failed"):
            print(f"{name:24} {mode:9} {failed[:100]}")
            continue
        kernels = [kernel for kernel in entry["kernels"] if not kernel[0].startswith("Mem")]
        time_us, guess_us = (sum(us for _, us, *_ in rows) for rows in (entry["kernels"], answer["kernels"]))
        refused = [kernel for kernel in answer["kernels"] if kernel[2] == "refused"]
        error = guess_us / time_us - 1
        errors.setdefault(f"{'step' if name in STEPS else 'function'}, {mode}", []).append(error)
        print(
            f"{name:24} {mode:9} {len(kernels):4} of {len(answer['kernels']):4} kernels"
            f" {time_us:10.1f} us measured {guess_us:10.1f} us predicted {error:+7.1%}"
            f" {f'{len(refused)} refused' if refused else ''}"
        )
    for kind, sizes in errors.items():
        print(f"{kind}: {len(sizes)}, mean {fmean(map(abs, sizes)):.1%}, worst {max(sizes, key=abs):+.1%}")


def read(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Lines of a file by case and mode; of several the last."""
    entries = map(json.loads, file.read_text("utf-8").splitlines())
    return {(entry["case"], entry["mode"]): entry for entry in entries}


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "measure":
        measure(Path(rest[0]), rest[1:])
    elif kind == "predict":
        predict(rest[0], Path(rest[1]), rest[2:])
    else:
        judge(Path(rest[0]), Path(rest[1]))
