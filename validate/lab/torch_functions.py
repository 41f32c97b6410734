"""Functions, training steps and models of PyTorch (`torch_fifth`, `_models`, `_twelve`): timed, predicted, judged.

    python validate/lab/torch_functions.py measure FILE.jsonl [CASE ...]         on a GPU: a line for each case and mode
    python validate/lab/torch_functions.py predict DEVICE FILE.jsonl [CASE ...]  no GPU: the same, predicted
    python validate/lab/torch_functions.py judge MEASURED.jsonl PREDICTED.jsonl  kernels and times beside each other

Times of kernels are medians of runs one after another, as torch's profiler has them; `step_s` is a run's share of all
runs together, with the host's time in it. Memory is the most that torch's allocator held during a run. `models`,
`fifth`, `twelve` and `reports` stand for all of them; models need `transformers`. Modes among the cases (`eager`,
`compiled`, `max-autotune`) are measured or predicted instead of eager and compiled. The sets before had their
cases here until 2c9d9281; what was measured and predicted of them is judged as `earlier`.
"""

import json
import sys
from math import nan
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

import torch_fifth_signals  # noqa: F401  (registers its functions)
import torch_fifth_steps  # noqa: F401  (registers its steps)
from torch_fifth import FIFTH
from torch_models import MODELS
from torch_reports import REPORTS
from torch_twelve import TWELVE

RUNS = 8
GROUPS = {"models": MODELS, "fifth": FIFTH, "twelve": TWELVE, "reports": REPORTS}
CASES = {name: case for cases in GROUPS.values() for name, case in cases.items()}
MODES = ("eager", "compiled", "max-autotune")
CASE = '''"""A case."""
import sys

sys.path.insert(0, {here!r})
import torch
from torch_functions import CASES


def inputs():
    return CASES[{name!r}]("cuda")


def step(made, arguments):
    with torch.set_grad_enabled({trains}):
        return made(*arguments)
'''


def measure(file: Path, names: list[str]) -> None:
    """Time cases on this GPU, kernel by kernel."""
    import torch

    with file.open("a", encoding="utf-8") as lines:
        for name in chosen(names):
            for mode in modes_of(names):
                torch._dynamo.reset()
                torch.cuda.empty_cache()
                try:
                    with torch.set_grad_enabled(trains(name)):
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
    options = {"mode": mode} if mode == "max-autotune" else {}
    run = made if mode == "eager" else torch.compile(made, **options)
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
    """Predict cases, each as a file of its own."""
    import tilesight

    with file.open("a", encoding="utf-8") as lines, TemporaryDirectory() as folder:
        for name in chosen(names):
            case = Path(folder) / f"{name}.py"
            case.write_text(
                CASE.format(here=str(Path(__file__).parent), name=name, trains=trains(name)), encoding="utf-8"
            )
            for mode in modes_of(names):
                try:
                    report = tilesight.profile(
                        f"{case}:step", device=device, mode=mode, train=trains(name), indices="uniform"
                    )
                    rows = [[row.kernel.name, row.kernel.time_s * 1e6, row.kernel.source] for row in report.rows]
                    outcome: dict[str, Any] = {"step_s": report.step_s, "peak_bytes": report.peak_bytes}
                    outcome |= {"kernels": rows, "notes": [*report.notes, *filter(None, [report.ended])]}
                except (ValueError, RuntimeError) as error:
                    outcome = {"failed": str(error)}
                lines.write(json.dumps({"case": name, "mode": mode} | outcome) + "\n")
                lines.flush()


def chosen(names: list[str]) -> list[str]:
    """Cases by their names, or those of their groups; without names all."""
    cases = [name for name in names if name not in MODES]
    return [case for name in cases or GROUPS for case in GROUPS.get(name, (name,))]


def modes_of(names: list[str]) -> list[str]:
    """Modes among names; without any, eager and compiled."""
    return [name for name in names if name in MODES] or ["eager", "compiled"]


def trains(name: str) -> bool:
    """Whether a case is a training step."""
    return name.startswith("train_")


def judge(measured: Path, predicted: Path) -> None:
    """Print of each case its kernels, their time, and errors of time and memory; then the means."""
    truth, answers = read(measured), read(predicted)
    errors: dict[str, list[tuple[float, float, float]]] = {}
    for (name, mode), entry in truth.items():
        answer = answers.get((name, mode), {"failed": "not predicted"})
        if failed := entry.get("failed") or answer.get("failed"):
            print(f"{name:24} {mode:9} {failed[:100]}")
            continue
        kernels, guessed = (
            [row for row in rows["kernels"] if not row[0].startswith(("Mem", "memset"))] for rows in (entry, answer)
        )
        time_us, guess_us = (sum(us for _, us, *_ in rows) for rows in (entry["kernels"], answer["kernels"]))
        refused = [kernel for kernel in answer["kernels"] if kernel[2] == "refused"]
        step, peak = (answer[key] / entry[key] - 1 if key in answer else nan for key in ("step_s", "peak_bytes"))
        error = guess_us / time_us - 1
        group = next((group for group, cases in GROUPS.items() if name in cases), "earlier")
        errors.setdefault(f"{group}, {mode}", []).append((error, step, peak))
        print(
            f"{name:24} {mode:9} {len(kernels):4} of {len(guessed):4} kernels"
            f" {time_us:10.1f} us measured {guess_us:10.1f} us predicted {error:+7.1%}; step {step:+7.1%},"
            f" memory {peak:+6.1%} {f'{len(refused)} refused' if refused else ''}"
        )
    for kind, sizes in errors.items():
        for what, column in zip(("kernels", "step", "memory"), zip(*sizes, strict=True), strict=True):
            print(
                f"{kind}, {what}: {len(column)}, mean {fmean(map(abs, column)):.1%}, worst {max(column, key=abs):+.1%}"
            )


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
